"""The plain proxy of a network: `fetch.proxy`, or HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY.

They mean what they mean to curl: names in lower case go first, a proxy without a scheme is http://,
and NO_PROXY also exempts hosts from `fetch.proxy`. Like in Go, what the environment names is not
asked for this machine itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

import msgspec
from ada_url import URL

from skitter.errors import BadOption
from skitter.redact import redact

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
    """By the configured proxy, or else by those of the environment; None: directly. Raises
    BadOption, naming the variable."""
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
