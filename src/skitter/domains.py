"""Which hosts belong together: by registrable domain, from the public suffix list."""

from __future__ import annotations

from functools import cache, lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


@lru_cache(maxsize=10_000)
def registrable_domain(host: str) -> str:
    """`example.co.uk` for `www.example.co.uk:8080`. An address, and a name that is a public suffix
    or has no dot, stands for itself. The port is ignored."""
    name = host_without_port(host).strip("[]")
    if is_address(name):
        return name
    return _suffixes().privatesuffix(name) or name


def host_of(url: str) -> str:
    """The host, with its port, of a URL normalised by `join` or `identify`."""
    return url.split("/", 3)[2] if "://" in url else ""


def host_without_port(host: str) -> str:
    """`[::1]` for `[::1]:80`, and `shop.example` for `shop.example:8080`."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() and not name.endswith(":") else host


def is_public_suffix(name: str) -> bool:
    """Whether anybody can register names below it: `co.uk`, `github.io`."""
    return bool(name) and not is_address(name) and _suffixes().is_public(name)


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


@cache
def _suffixes() -> PublicSuffixList:
    from publicsuffixlist import PublicSuffixList  # reads its list: 0.15 s

    return PublicSuffixList()
