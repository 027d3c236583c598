"""How pages are requested: time, size, who we say we are, and the plain proxy of a network."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec
from ada_url import URL

from skitter.errors import BadOption
from skitter.extras import RELEASE
from skitter.redact import redact
from skitter.settings.option import Table, option, options_of, seconds_of

SCHEMES: Final = ("http", "https", "socks5")
EXPECTED: Final = "scheme://host:port, with http, https or socks5"
PORTS: Final = {"http": 80, "https": 443}


class Outbound(msgspec.Struct, frozen=True):
    """Which proxy a URL takes, by its scheme and host."""

    proxies: dict[str, str]  # by the scheme of the page
    exempt: tuple[str, ...] = ()  # NO_PROXY
    is_ambient: bool = False  # from the environment: not for this machine itself

    def proxy_for(self, url: str) -> str | None:
        """None: direct."""
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        if self.is_ambient and _is_local(host):
            return None
        port = parts.port or PORTS.get(parts.scheme, 0)
        if any(_covers(entry, host, port) for entry in self.exempt):
            return None
        return self.proxies.get(parts.scheme)


def outbound_of(proxy: str | None, environment: Mapping[str, str]) -> Outbound | None:
    """The plain proxy of a network, by `fetch.proxy` or HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and
    NO_PROXY; None: directly. Raises BadOption, naming the variable.

    They mean what they mean to curl: names in lower case go first, a proxy without a scheme is
    http://, and NO_PROXY also exempts hosts from `fetch.proxy`. Like in Go, what the environment
    names is not asked for this machine itself.
    """
    exempt = tuple(re.split(r"[\s,]+", _named(environment, "no_proxy")[1].strip()))
    if proxy:
        return Outbound(dict.fromkeys(PORTS, proxy), exempt)
    found = {scheme: _ambient(environment, f"{scheme}_proxy") for scheme in PORTS}
    if not any(found.values()):
        return None
    return Outbound({name: one for name, one in found.items() if one}, exempt, is_ambient=True)


def check_proxy(proxy: str, name: str = "proxy") -> str:
    """The proxy itself. Raises BadOption, which does not show its password."""
    try:
        URL(proxy)  # as clients read it: urlsplit takes a backslash for a part of the password
        parts = urlsplit(proxy)
        # A path, query or fragment is more likely a part of a password that was not escaped.
        rest = parts.path.strip("/") + parts.query + parts.fragment
        is_good = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0 and not rest
    except ValueError:  # a bad port
        is_good = False
    if not is_good:
        raise BadOption(name, redact(proxy), EXPECTED)
    return proxy


def _ambient(environment: Mapping[str, str], name: str) -> str:
    variable, proxy = _named(environment, name)
    if not proxy:
        variable, proxy = _named(environment, "all_proxy")
    if not proxy:
        return ""
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    # socks5h, as curl calls it, is the only way here: the proxy resolves names.
    return check_proxy(proxy.replace("socks5h://", "socks5://", 1), variable)


def _named(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """The variable that is set, and its value."""
    for variable in (name, name.upper()):
        if value := environment.get(variable, "").strip():
            return variable, value
    return name.upper(), ""


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _covers(entry: str, host: str, port: int) -> bool:
    """example.com with its subdomains, .example.com, host:8080, 10.0.0.0/8, * for all."""
    if entry in ("", "*"):
        return entry == "*"
    if "/" in entry or entry.count(":") > 1:
        return _contains(entry, host)
    name, _, only = entry.lower().partition(":")
    if only and only != str(port):
        return False
    name = name.removeprefix("*").strip(".")
    return host == name or host.endswith(f".{name}")


def _contains(network: str, host: str) -> bool:
    try:
        return ip_address(host) in ip_network(network.strip("[]"), strict=False)
    except ValueError:  # a name, or no network
        return False


PROJECT_URL: Final = "https://github.com/skitter/skitter"

_HOST: Final = re.compile(r"(?:[^\s/@?#:\[\]]+|\[[0-9A-Fa-f:.]+\])(?::\d+)?")
_HTML_FIRST: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@cache
def honest_user_agent(contact: str = PROJECT_URL) -> str:
    """Name the product and where to complain: a URL, or `mailto:you@example.com`."""
    release = ".".join(RELEASE.split(".")[:2])
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
    cache: str | None = option(
        None,
        "Take pages from the archive of this folder if they are there, and keep those that are "
        "fetched: dev, or only pages younger than this, such as 1d.",
        flag="--cache",
        takes="dev, or an age such as 1d",
        bare="dev",
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
        _ = self.cache_s

    @property
    def cache_s(self) -> float:
        """How old a page of the cache may be; 0: there is none. Raises BadOption."""
        if self.cache is None or self.cache == "dev":
            return math.inf if self.cache else 0.0
        try:
            return seconds_of("cache", self.cache)
        except BadOption:
            name = next(one for one in options_of(type(self)) if one.name == "cache")
            raise name.refuse(self.cache) from None

    @property
    def max_body_bytes(self) -> int:
        """`max_body_mb` in bytes."""
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
