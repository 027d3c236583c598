"""This machine, in every spelling that some client of ours might understand, and what only looks
like it. One table for all that fetches: whatever one of them reads differently is a way in."""

from __future__ import annotations

from typing import Final

#: 127.0.0.1 as a host, before the port.
ADDRESSES: Final = (
    # as inet_aton reads it: decimal, hexadecimal, octal, parts left out
    *("127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7F.1"),
    *("017700000001", "0177.0.0.1", "0x7f.0x0.0x0.0x1", "127.000.000.001", "127.0.0.2"),
    *("127.255.255.254", "00000177.1", "0x7f.0.1", "0", "0.0.0.0", "0x0", "0.0"),
    # letters and dots that browsers fold
    *("%31%32%37.0.0.1", "127%2e0%2e0%2e1", "１２７.0.0.1", "127。0。0。1", "①②⑦.⓪.⓪.①"),  # noqa: RUF001
    *("127．0．0．1", "127｡0｡0｡1", "𝟏𝟐𝟕.0.0.1", "LOCALHOST", "localhost", "localhost."),  # noqa: RUF001
    *("x.localhost", "ｌｏｃａｌｈｏｓｔ", "local%68ost", "localhost%2e"),  # noqa: RUF001
    # IPv6, and IPv4 inside of it
    *("[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[0000::0001]", "[::ffff:127.0.0.1]"),
    *("[::ffff:7f00:1]", "[::ffff:7f00:0001]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]"),
    *("[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::ffff:0:127.0.0.1]", "[::7f00:1]"),
    # zones, which parsers drop, keep or trip over
    *("[::1%25lo]", "[::1%lo]", "[::1%251]", "[::ffff:7f00:1%251]", "[::ffff:127.0.0.1%25lo]"),
    *("[::ffff:127.0.0.1%251]", "[::ffff:7f00:1%1]", "[::1%25]", "[fe80::1%25lo]"),
)
#: Credentials, real ones and such as only some parsers see.
LOGINS: Final = (
    *("user@", "user:pw@", "@", ":@", ":pw@", "example.com@", "example.com:80@", "a@b@"),
    *("example.com%5C@", "example.com%23@", "example.com%2F@", "user:p%40w@", "example.com:80%40@"),
)
#: Whole authorities; PORT is where the server listens.
AUTHORITIES: Final = (
    *(f"{host}:PORT" for host in ADDRESSES),
    *(f"{login}127.0.0.1:PORT" for login in LOGINS),
    *("user@[::1]:PORT", "user@localhost:PORT", "user@[::ffff:7f00:1%251]:PORT"),
    *("127.0.0.1:0PORT", "127.0.0.1:00000PORT"),
    *(r"127.0.0.1:PORT\@example.com", r"127.0.0.1:PORT\.example.com"),
)
#: After `http:`; browsers take all of these for `//`.
SLASHES: Final = ("///", "/\\", "\\\\", "////", "/")
#: Hosts that are nobody's private business, though a careless guard might think so.
PUBLIC: Final = (
    *("example.com", "8.8.8.8", "172.32.0.1", "100.128.0.1", "192.0.1.1", "[2606:4700::1111]"),
    *("[::ffff:8.8.8.8]", "[2002:808:808::]", "[64:ff9b::8.8.8.8]", "localhost.example.com"),
    *("10.example.com", "127.0.0.1.nip.io", "[2a00:1450::5efe:8.8.8.8]", "192.88.98.1"),
    *(
        "bücher.example",
        "xn--bcher-kva.example",
        "my_host.example.com",
        "example.com.",
        "a.example:81",
    ),
)


def spellings(port: int) -> list[str]:
    """URLs that some reader takes for this machine's port, each with a path of its own."""
    begun = [f"http://{one.replace('PORT', str(port))}" for one in AUTHORITIES]
    begun += [f"http:{slashes}127.0.0.1:{port}" for slashes in SLASHES]
    return [f"{one}/{number}" for number, one in enumerate(begun)]
