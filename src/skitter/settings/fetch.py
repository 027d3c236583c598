"""How pages are requested: time, size, and who we say we are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from skitter.errors import BadOption
from skitter.settings.option import Table, option
from skitter.settings.outbound import check_proxy

PROJECT_URL: Final = "https://github.com/skitter/skitter"

_HOST: Final = re.compile(r"(?:[^\s/@?#:\[\]]+|\[[0-9A-Fa-f:.]+\])(?::\d+)?")
_HTML_FIRST: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@cache
def honest_user_agent(contact: str = PROJECT_URL) -> str:
    """Name the product and where to complain: a URL, or `mailto:you@example.com`."""
    from importlib.metadata import version  # slow to import

    release = ".".join(version("skitter").split(".")[:2])  # defined in pyproject.toml only
    return f"Skitter/{release} (+{contact})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions(Table):
    """How pages are fetched. Reaching a limit raises FetchError."""

    client: Literal["wreq", "aiohttp"] = option(
        "wreq", "The HTTP client; aiohttp is an extra, and has no HTTP/2."
    )
    user_agent: str = option(
        honest_user_agent,
        "The User-Agent header; robots.txt rules are matched with its name.",
        flag="--user-agent",
    )
    headers: dict[str, str] = option(
        dict, "A header of every request, as 'Name: value'.", flag="--header", secret=True
    )
    basic_auth: dict[str, str] = option(
        dict,
        "User and password of hosts, as 'host: user:password'; a host may have a port.",
        secret=True,
    )
    bearer_auth: dict[str, str] = option(
        dict, "Bearer tokens of hosts, as 'host: token'.", secret=True
    )
    accept: str = option(_HTML_FIRST, "The Accept header.")
    total_timeout_s: float = option(
        60.0, "Seconds for a whole request.", low=0.001, high=86_400, flag="--timeout"
    )
    connect_timeout_s: float = option(
        10.0, "Seconds to connect: DNS, TCP and TLS.", low=0.001, high=86_400
    )
    first_byte_timeout_s: float = option(
        30.0, "Seconds to wait for the headers, and then for more of the body.",
        low=0.001, high=86_400,
    )  # fmt: skip
    max_body_mb: float = option(
        10.0, "Maximum page size in MB, unpacked.", low=0, high=1024, flag="--max-page-size"
    )
    max_header_bytes: int = option(
        64 * 2**10, "Maximum size of the response headers.", low=8192, high=2**24
    )
    max_redirects: int = option(10, "Redirects to follow from one URL.", low=0, high=100)
    max_retry_after_s: float = option(
        3600.0, "Longest Retry-After to wait for, in seconds.", low=0, high=30 * 86_400
    )
    blocked_rest_s: float = option(
        60.0, "Seconds to leave a host alone after it showed a block page.", low=0, high=86_400
    )
    proxy: str | None = option(
        None,
        "Send requests through this proxy, unless a [[proxy]] takes them; NO_PROXY exempts hosts. "
        "Default: HTTP_PROXY and HTTPS_PROXY, if they are set.",
        flag="--proxy",
        takes="scheme://host:port, with http, https or socks5",
        secret=True,
    )
    # A broad crawl visits more hosts than a process may open files.
    max_idle_connections: int = option(
        256, "Connections to keep open per process.", low=1, high=2**16
    )
    http2: bool = option(True, "Use HTTP/2 where the server supports it.")
    verify_tls: bool = option(True, "Check certificates.")
    ca_file: Path | None = option(None, "PEM file: trust these authorities only.")
    obey_robots: bool = option(True, "Obey robots.txt.", flag="--obey-robots/--ignore-robots")
    obey_nofollow: bool = option(
        False, "Do not follow links marked nofollow, nor any links of a page marked nofollow."
    )
    obey_noindex: bool = option(False, "Store no items from pages marked noindex.")
    follow_canonical: bool = option(
        False, "Fetch the page that rel=canonical names instead of its copies."
    )
    skip_reserved: tuple[str, ...] = option(
        (), "Skip pages that reserve one of these uses, such as train-ai or tdm."
    )
    allow_hosts: tuple[str, ...] = option(
        (),
        "Private hosts that may be fetched, with or without a port. Start URLs that are "
        "addresses, or localhost, are allowed anyway.",
        flag="--allow-host",
        variable="SKITTER_ALLOW_HOSTS",
    )

    def __post_init__(self) -> None:
        Table.__post_init__(self)
        for name in ("user_agent", "accept"):
            if not _is_header(getattr(self, name)):
                raise BadOption(name, getattr(self, name), "one line of printable ASCII")
        for name, value in self.headers.items():
            if not name or not name.replace("-", "").replace("_", "").isalnum():
                raise BadOption("headers", name, "names of letters, digits and dashes")
            if not _is_header(value):
                raise BadOption("headers", "(hidden)", f"one line of printable ASCII in {name}")
        _check_auth(self)
        if self.proxy:
            check_proxy(self.proxy)

    @property
    def max_body_bytes(self) -> int:
        return round(self.max_body_mb * 2**20)


def check_ca_file(options: FetchOptions) -> None:
    """Checked on the machine that fetches. Raises BadOption."""
    if options.ca_file is not None and not options.ca_file.is_file():
        raise BadOption("ca_file", str(options.ca_file), "a PEM file that exists")


def _check_auth(options: FetchOptions) -> None:
    for name in ("basic_auth", "bearer_auth"):
        for host in getattr(options, name):
            if not _HOST.fullmatch(host):
                raise BadOption(name, host, "hosts, such as api.example or localhost:8080")
    for host, value in options.basic_auth.items():
        if ":" not in value or not value.isprintable():
            raise BadOption("basic_auth", "(hidden)", f"user:password for {host}")
    for host, value in options.bearer_auth.items():
        if not _is_header(value) or host in options.basic_auth:
            raise BadOption("bearer_auth", "(hidden)", f"one token, and no basic_auth, for {host}")


def _is_header(value: str) -> bool:
    return bool(value) and value.isascii() and value.isprintable()
