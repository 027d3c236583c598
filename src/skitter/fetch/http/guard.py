"""Whom a crawler may connect to: addresses, their names, and their credentials.

Links, redirects and DNS records are written by strangers and can point into the crawler's own
network: server-side request forgery (SSRF).
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import socket
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from skitter.errors import AddressRefused, BadOption, BadURL
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skitter.settings.fetch import FetchOptions


Address = IPv4Address | IPv6Address

# The IANA registries of special-purpose addresses. `ipaddress` knows most of them, but which ones
# depends on the Python: 3.11 takes 192.0.0.192 (Oracle's metadata) for a public address.
_SPECIAL: Final[tuple[tuple[IPv4Network | IPv6Network, str], ...]] = tuple(
    (ip_network(network), kind)
    for network, kind in (
        ("169.254.169.254/32", "a cloud metadata address"),
        ("168.63.129.16/32", "a cloud metadata address"),  # Azure; public by its number
        ("100.100.100.200/32", "a cloud metadata address"),  # Alibaba
        ("192.0.0.192/32", "a cloud metadata address"),  # Oracle
        ("fd00:ec2::254/128", "a cloud metadata address"),  # AWS
        ("0.0.0.0/8", "an address of this machine"),  # Linux connects 0.0.0.0 to itself
        ("::/128", "an address of this machine"),
        ("127.0.0.0/8", "a loopback address"),
        ("::1/128", "a loopback address"),
        ("10.0.0.0/8", "a private address"),
        ("172.16.0.0/12", "a private address"),
        ("192.168.0.0/16", "a private address"),
        ("fc00::/7", "a private address"),
        ("fec0::/10", "a private address"),
        ("169.254.0.0/16", "a link-local address"),
        ("fe80::/10", "a link-local address"),
        ("100.64.0.0/10", "a provider's internal address"),  # RFC 6598, carrier-grade NAT
        ("224.0.0.0/4", "a multicast address"),
        ("ff00::/8", "a multicast address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.88.99.0/24", "a reserved address"),  # RFC 7526: relays of 6to4, withdrawn
        ("64:ff9b:1::/48", "a reserved address"),
        ("5f00::/16", "a reserved address"),  # RFC 9602: segment routing
        ("3fff::/20", "a reserved address"),  # RFC 9637: documentation
    )
)
# IPv6 networks whose addresses contain an IPv4 address, and its bit offset from the right.
_CARRIERS: Final = (
    (IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped
    (IPv6Network("::ffff:0:0:0/96"), 0),  # IPv4-translated, RFC 2765
    (IPv6Network("::/96"), 0),  # IPv4-compatible
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
# RFC 5214 6.1: under any prefix, ISATAP addresses have one of these before the last 32 bits.
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)
_AUTHORITY: Final = re.compile(r"[A-Za-z]+://[^/?#\\]+")
DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


class Authority(NamedTuple):
    """The host that a URL addresses, as `identify` spells it."""

    name: str  # without the brackets of an IPv6 address
    host: str  # with them
    host_port: str  # even if the port is the scheme's default
    dialled: str  # the name as in the URL, with a trailing dot if it has one


@dataclass(frozen=True, slots=True)
class Guard:
    """Refuses addresses that are not public, except on hosts that the operator allowed. Pure.

    A client asks it about the URL before sending anything, and about every address the name
    resolves to, and dials only those (exchange.py).

    `allowed_hosts`: names with a port (only that one) or without (every port).
    """

    allowed_hosts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "allowed_hosts", frozenset(map(_spell, self.allowed_hosts)))

    @classmethod
    def for_seeds(cls, urls: Iterable[str], *, also: Iterable[str] = ()) -> Self:
        """A seed that is a private address or localhost allows itself, on its own port: not all
        ports of that machine. Other names do not, as their DNS may change."""
        named = (authority_of(url) for url in urls)
        own = frozenset(
            authority.host_port for authority in named if refusal_of_name(authority.name)
        )
        return cls(own | frozenset(also))

    def allows(self, url: str) -> bool:
        """Whether the operator named this host."""
        return bool(self.allowed_hosts) and self.permits(authority_of(url))

    def permits(self, whom: Authority) -> bool:
        """The same, if the authority is known already."""
        return whom.host_port in self.allowed_hosts or whom.host in self.allowed_hosts

    def check_url(self, url: str) -> None:
        """Refuse by the URL alone: addresses in any spelling, and localhost."""
        reason = refusal_of_name(authority_of(url).name)
        if reason and not self.allows(url):
            raise _refused(url, reason)

    def check_address(self, url: str, address: str | None) -> None:
        """Refuse an address that the name resolves to or that answered; also an unknown one."""
        reason = refusal(address) if address else "the address that answered is unknown"
        if reason and not self.allows(url):
            raise _refused(url, reason)


@lru_cache(maxsize=4096)
def refusal(address: str) -> str | None:
    """Why an IP address is off limits; None: it is public."""
    ip = ip_address(address.partition("%")[0])
    kind = _kind(ip)
    return f"{ip} is {kind}" if kind else None


@lru_cache(maxsize=4096)
def refusal_of_name(name: str) -> str | None:
    """Why a host is off limits by its name alone; None: its address decides."""
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761 6.3: always loopback
        return f"{name} is this machine"
    return refusal(name) if is_address(name) else None


def is_address(name: str) -> bool:
    """Whether a host is an IP address; `identify` leaves one spelling of each."""
    return ":" in name or name.rpartition(".")[2].isdigit()


def _refused(url: str, reason: str) -> AddressRefused:
    """The error, with what to type."""
    _, host, host_port, _ = authority_of(url)
    usual = host_port.endswith(tuple(f":{port}" for port in DEFAULT_PORTS.values()))
    word = host if usual else host_port
    return AddressRefused(url, f"{reason}: to fetch it anyway, use --allow-host {word}")


def authority_of(url: str) -> Authority:
    """The authority of a URL. Parsed once per host: the hot path is a look-up."""
    found = _AUTHORITY.match(url)
    try:
        return _understand(found[0] if found else url)
    except BadURL as error:  # only the whole of it shows what may be a password
        raise BadURL(url, error.reason) from None


@lru_cache(maxsize=4096)
def _understand(beginning: str) -> Authority:
    target = identify(beginning)
    host, port = _split_port(target.host)
    port = port or DEFAULT_PORTS[target.url.partition(":")[0]]
    dialled, host = host, host.removesuffix(".")  # the same name
    return Authority(host.strip("[]"), host, f"{host}:{port}", dialled)


def _split_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    return (name, port) if colon and not port.endswith("]") else (host, "")


def _kind(ip: Address) -> str | None:
    if special := next((kind for network, kind in _SPECIAL if ip in network), None):
        return special
    if isinstance(ip, IPv6Address):
        if carried := _carried(ip):
            return _kind(carried)
        if int(ip) >> 32 & 0xFFFF_FFFF in _ISATAP and (kind := _kind(_last_32_bits(ip))):
            return kind
    return None if ip.is_global else "not a public address"


def _carried(ip: IPv6Address) -> IPv4Address | None:
    for network, shift in _CARRIERS:
        if ip in network:
            return IPv4Address(int(ip) >> shift & 0xFFFF_FFFF)
    return None


def _last_32_bits(ip: IPv6Address) -> IPv4Address:
    return IPv4Address(int(ip) & 0xFFFF_FFFF)


def _spell(host: str) -> str:
    """Normalize an operator's host as `identify` does; a given port is kept."""
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    try:
        authority = _understand(f"http://{host}/")
        whole = not set("/?#\\") & set(host)  # not the beginning of a URL
    except BadURL:
        whole = False
    if not whole:
        raise BadOption("allowed_hosts", host, "host names, with or without a port")
    return authority.host_port if _split_port(host)[1] else authority.host


_LOG: Final = logging.getLogger("skitter.fetch")


class Credentials:
    """Authorization headers by origin: for those the operator named, and no other.

    The target of each request chooses, so that a redirect cannot take a header elsewhere.
    """

    def __init__(self, options: FetchOptions) -> None:
        self._headers: dict[str, str] = {}
        self._warned: set[str] = set()
        for host, pair in options.basic_auth.items():
            self._add(host, f"Basic {b64encode(pair.encode()).decode()}")
        for host, token in options.bearer_auth.items():
            self._add(host, f"Bearer {token}")

    def __bool__(self) -> bool:
        return bool(self._headers)

    def header_for(self, url: str, whom: Authority) -> str | None:
        """The header for this URL's origin."""
        scheme = url.partition(":")[0]
        header = self._headers.get(f"{scheme}://{whom.host_port}")
        if header and scheme == "http" and whom.host_port not in self._warned:
            self._warned.add(whom.host_port)
            _LOG.warning(
                "the credentials for %s are sent unencrypted: use https if it is available.",
                whom.host,
            )
        return header

    def _add(self, host: str, header: str) -> None:
        """A host without a port means the default ports of http and https."""
        for scheme in DEFAULT_PORTS:
            whom = authority_of(f"{scheme}://{host}/")
            self._headers[f"{scheme}://{whom.host_port}"] = header


Lookup = Callable[[str], Awaitable[tuple[str, ...]]]

KEEP_S: Final = 60.0
MAX_NAMES: Final = 10_000
ATTEMPT_S: Final = 2.0
#: The name server counts as away if it has answered nothing for this long, but not for ever: a
#: domain whose own servers are broken looks the same.
SILENT_S: Final = 10.0
AWAY_S: Final = 600.0
NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", -5)})
THREADS: Final = 64  # getaddrinfo blocks, for 10 s and more on a dead name server


class Resolver:
    """Addresses of names, kept for a minute: clients dial the very addresses that the guard
    checked.

    wreq would resolve names itself, to unchecked addresses. It gets ours instead (exchange.py).
    """

    def __init__(
        self,
        *,
        lookup: Lookup | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_answer: Callable[[float], None] = lambda _: None,  # gets the seconds it took
    ) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="skitter-names")
        self._lookup: Lookup = lookup or self._ask_system
        self._clock, self._on_answer = clock, on_answer
        self._known: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._asking: dict[str, asyncio.Task[tuple[str, ...]]] = {}
        self._answered_at = -math.inf
        self._silent_since: float | None = None  # the first failure since then

    def known(self, name: str) -> tuple[str, ...] | None:
        """The addresses, if they were looked up recently."""
        entry = self._known.get(name)
        return entry[1] if entry and entry[0] > self._clock() else None

    def is_away(self) -> bool:
        """After a failure: whether no name can be looked up, as far as this process knows."""
        now = self._clock()
        self._silent_since = now if self._silent_since is None else self._silent_since
        return now - self._answered_at > SILENT_S and now - self._silent_since < AWAY_S

    async def resolve(self, name: str) -> tuple[str, ...]:
        """Every address of a name; OSError if it has none. Concurrent callers share a look-up."""
        if addresses := self.known(name):
            return addresses
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = asyncio.create_task(self._ask(name))
            task.add_done_callback(_take_exception)
        # Shielded: a caller that gives up must not cancel the look-up for others.
        return await asyncio.shield(task)

    async def attempt(self, name: str) -> tuple[str, ...]:
        """The addresses, or none if it does not resolve soon; that is remembered too."""
        entry = self._known.get(name)
        if entry and entry[0] > self._clock():
            return entry[1]
        try:
            async with asyncio.timeout(ATTEMPT_S):
                return await self.resolve(name)
        except (TimeoutError, OSError, UnicodeError):
            return self._keep(name, ())

    async def close(self) -> None:
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, name: str) -> tuple[str, ...]:
        asked_at = self._clock()
        try:
            addresses = await self._lookup(name)
        except socket.gaierror as error:
            if is_no_such_name(error):
                self._note_answer()
            raise
        finally:
            del self._asking[name]
            self._on_answer(self._clock() - asked_at)
        self._note_answer()
        return self._keep(name, addresses)

    def _note_answer(self) -> None:
        self._answered_at, self._silent_since = self._clock(), None

    def _keep(self, name: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
        if len(self._known) >= MAX_NAMES:
            del self._known[next(iter(self._known))]  # the oldest
        self._known[name] = (self._clock() + KEEP_S, addresses)
        return addresses

    async def _ask_system(self, name: str) -> tuple[str, ...]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _system_addresses, name)


def is_no_such_name(error: BaseException) -> bool:
    """Whether the name server says so; else it has not answered, or could not find out."""
    if isinstance(error, UnicodeError):  # a label over 63 characters
        return True
    return isinstance(error, socket.gaierror) and error.errno in NO_SUCH_NAME


def _system_addresses(name: str) -> tuple[str, ...]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def _take_exception(task: asyncio.Task[tuple[str, ...]]) -> None:
    """Retrieve the exception even if every caller has gone, or asyncio warns about it."""
    if not task.cancelled():
        task.exception()
