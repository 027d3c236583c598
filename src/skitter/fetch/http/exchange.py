"""One call of an HTTP client: what it is asked, and what every client must obey.

Everything that concerns safety is decided before the call: the spelling of the URL, the addresses
that may be dialled, the headers, the limits.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from skitter.errors import FetchError, ProxyFault, ResponseTooLarge
from skitter.settings.fetch import check_proxy

if TYPE_CHECKING:
    from skitter.fetch.http.guard import Authority, Guard, Resolver
    from skitter.model import Request, Response
    from skitter.settings.fetch import FetchOptions


METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

#: Called when all is ready and the request is about to leave; it may wait, or raise.
Leave = Callable[[], Awaitable[None]]


class BodySink(Protocol):
    """Takes a body that would be too large for memory, piece by piece."""

    @property
    def max_time_s(self) -> float:
        """Instead of the options' limit for the whole exchange."""
        ...

    def begins(self, status: int, headers: Sequence[tuple[str, str]]) -> bool:
        """Whether it takes the body of this answer."""
        ...

    def take(self, piece: bytes | memoryview) -> None: ...

    def end(self) -> bytes:
        """The body is whole: what stands for it in the response."""
        ...


#: Of the request that a task is about to send; None: its body goes to memory.
BODY_SINK: Final[ContextVar[BodySink | None]] = ContextVar("BODY_SINK", default=None)


@dataclass(slots=True)
class Call:
    """One request, checked."""

    request: Request
    url: str  # as it is sent
    whom: Authority
    addresses: tuple[str, ...]  # the only ones to dial; empty: the URL contains one
    proxy: str  # as `spell` returns it; empty: none
    headers: dict[str, str]  # of the request, with credentials
    options: FetchOptions  # with the request's own limits
    leave: Leave | None
    check: Callable[[str, str | None], None] | None  # URL, address that answered
    sink: BodySink | None = None


class Client(Protocol):
    """A library that speaks HTTP. It neither follows redirects nor keeps cookies, and dials only
    the addresses of the call."""

    def open(self) -> None: ...

    async def close(self) -> None: ...

    async def exchange(self, call: Call) -> Response:
        """The response, or a FetchError. All limits of `call.options` hold."""
        ...


def check_method(call: Call) -> None:
    if call.request.method not in METHODS:
        raise FetchError(call.url, f"{call.request.method} is not a valid HTTP method")


def bad_header(call: Call) -> FetchError:
    return FetchError(call.url, "a header of the request cannot be sent")


def read_headers(call: Call, pairs: Sequence[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """The headers as text, names in lower case. Raises ResponseTooLarge."""
    limit = call.options.max_header_bytes
    if sum([len(name) + len(value) for name, value in pairs]) > limit:
        raise ResponseTooLarge(call.url, f"the headers are over {limit:,} bytes")
    try:
        return tuple([(name.decode().lower(), value.decode()) for name, value in pairs])
    except UnicodeDecodeError:
        return tuple([(_text(name).lower(), _text(value)) for name, value in pairs])


def too_large(call: Call) -> ResponseTooLarge:
    limit = f"{call.options.max_body_mb:g} MB (fetch.max_body_mb)"
    return ResponseTooLarge(call.url, f"the body is over {limit}")


def _text(value: bytes) -> str:
    """UTF-8 if valid, as browsers read Location; otherwise Latin-1 (RFC 9110 5.5)."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


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
    """Refuse a name whose addresses are not public as seen from here.

    A proxy resolves the name of a page (also with SOCKS5), so we cannot see what it dials. Still
    refused are addresses in the URL that are not public, and names that do not resolve to public
    addresses here, in case the proxy is in our network. A name that we cannot resolve is left to
    the proxy. The proxy itself, named by the operator, may be anywhere.
    """
    for address in await resolver.attempt(whom.name):
        guard.check_address(url, address)


def shown(proxy: str) -> str:
    """The proxy without its credentials: even the user name says who pays and for which country."""
    return urlsplit(proxy).netloc.rpartition("@")[2]


C = TypeVar("C")


@dataclass(slots=True, eq=False)
class Dialer(Generic[C]):
    """A client, the addresses it was made for, and how many connections it may have."""

    client: C
    addresses: tuple[str, ...]
    busy: int = 0  # requests in flight
    peak: int = 0  # of them at a time, so of its idle connections too
    is_retired: bool = False


@dataclass(slots=True)
class Clients(Generic[C]):
    """The clients of one fetcher, a client per name; the most recently used last.

    Neither library offers more than this: a client made with the addresses of a name does not look
    it up. A name that changes its address between the check and the connection (DNS rebinding)
    gains nothing. The URL keeps the name, for TLS and the Host header. A client costs 0.06 ms and
    50 KB. One whose addresses are replaced is closed when its requests in flight are done.

    `make`: a client for a name and its addresses, or for a proxy. `end`: closes an idle one.
    """

    options: FetchOptions
    make: Callable[[str, tuple[str, ...], str], C]
    end: Callable[[C], None]
    _dialers: OrderedDict[str, Dialer[C]] = field(default_factory=OrderedDict)
    _is_open: bool = False
    _peak: int = 0  # of all

    def open(self) -> None:
        self._is_open = True

    def close(self) -> None:
        for dialer in self._dialers.values():
            self.end(dialer.client)
        self._dialers.clear()
        self._is_open = False

    def take(self, host: str, addresses: tuple[str, ...] = (), *, proxy: str = "") -> Dialer[C]:
        """The client for a host as its URL spells it; without addresses, the host is one itself. A
        proxy has one for all hosts, and shares it with no other: its credentials may be a session.

        The caller must give it back.
        """
        if not self._is_open:  # wreq would raise CancelledError, as if the task were cancelled
            raise RuntimeError("the fetcher is not open: use it in `async with`.")
        # Literal addresses need no look-up, so they share a client.
        name = proxy or (host if addresses else "")
        dialer = self._dialers.get(name)
        if dialer is None or not _are_the_same(dialer.addresses, addresses):
            self._forget(name)
            dialer = self._dialers[name] = Dialer(self.make(name, addresses, proxy), addresses)
        self._dialers.move_to_end(name)
        dialer.busy += 1
        if dialer.busy > dialer.peak:
            self._grow(dialer)
        return dialer

    def give_back(self, dialer: Dialer[C]) -> None:
        dialer.busy -= 1
        if dialer.is_retired and not dialer.busy:
            self.end(dialer.client)

    def _grow(self, dialer: Dialer[C]) -> None:
        """One more connection. A broad crawl visits more hosts than it may open files: clients idle
        for longest make room."""
        dialer.peak += 1
        self._peak += 1
        resting = [name for name, dialer in self._dialers.items() if not dialer.busy]
        for name in resting:
            if self._peak <= self.options.max_idle_connections:
                return
            self._forget(name)

    def _forget(self, name: str) -> None:
        if dialer := self._dialers.pop(name, None):
            self._peak -= dialer.peak
            dialer.is_retired = True
            if not dialer.busy:
                self.end(dialer.client)


def _are_the_same(old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    """In any order, as name servers rotate it."""
    return old == new or set(old) == set(new)


LONGEST_S: Final = 86_400.0

_LONGEST_TEXT: Final = 100  # three times a date; the date parser is slow on more
_SECONDS: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")  # fractions are not allowed, but are sent


def retry_after_s(value: str | None, *, now: float, longest_s: float = LONGEST_S) -> float | None:
    """Seconds from `now` by a Retry-After header, at most `longest_s`; None if it says nothing.

    RFC 9110 10.2.3: seconds, or an HTTP date. A date in the past means no wait.
    """
    text = (value or "").strip()[:_LONGEST_TEXT]
    if _SECONDS.fullmatch(text):
        return min(float(text), longest_s)
    moment = _moment(text)
    return None if moment is None else min(max(0.0, moment - now), longest_s)


def _moment(text: str) -> float | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:  # "-0000", or asctime: HTTP dates are in GMT
        date = date.replace(tzinfo=UTC)
    try:
        return date.timestamp()
    except OverflowError:
        return None
