"""Fetching through a proxy: its URL, whose fault a failure is, and what the guard still refuses.

The proxy resolves the name of a page (also with SOCKS5), so we cannot see what it dials. Still
refused are addresses in the URL that are not public, and names that do not resolve to public
addresses here, in case the proxy is in our network. The proxy itself, named by the operator, may be
anywhere.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from skitter.errors import ProxyFault
from skitter.settings.outbound import check_proxy

if TYPE_CHECKING:
    from skitter.fetch.guard import Authority, Guard
    from skitter.fetch.resolver import Resolver

#: RFC 9110 15.5.8: only a proxy answers with this.
PROXY_AUTHENTICATION_REQUIRED: Final = 407


@lru_cache(maxsize=4096)
def spell(proxy: str) -> str:
    """The proxy's URL as clients take it. Raises BadOption: wreq would ignore a bad one."""
    check_proxy(proxy)
    # socks5h is SOCKS5 with the name sent to the proxy, not looked up here.
    return proxy.replace("socks5://", "socks5h://", 1)


def rejected(url: str, proxy: str) -> ProxyFault:
    """The error for a 407 from the proxy."""
    return ProxyFault(url, f"the proxy {shown(proxy)} rejects our credentials (407)")


async def check_target(guard: Guard, resolver: Resolver, url: str, whom: Authority) -> None:
    """Refuse a name whose addresses are not public as seen from here; one that we cannot resolve is
    left to the proxy."""
    for address in await resolver.attempt(whom.name):
        guard.check_address(url, address)


def shown(proxy: str) -> str:
    """The proxy without its credentials: even the user name says who pays and for which country."""
    return urlsplit(proxy).netloc.rpartition("@")[2]
