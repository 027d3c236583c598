"""A wreq client per name, which dials the addresses that were checked and no others.

wreq offers no hook for names, but a client can be made with the addresses of some: it then asks no
name server for those. A name that changes its address between the check and the connection (DNS
rebinding) gains nothing. The URL keeps the name, so that TLS and the Host header do. Such a client
costs 0.06 ms and 50 KB; all share one pool of threads. One whose addresses are replaced is
dropped, not closed: its requests under way go on, and its idle connections go with the last.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

import wreq
from wreq.redirect import Policy

if TYPE_CHECKING:
    from skitter.settings.fetch import FetchOptions


@dataclass(slots=True, eq=False)
class Dialer:
    """A client, the addresses it was made for, and how many connections it may have."""

    client: wreq.Client
    addresses: tuple[str, ...]
    proxy: wreq.Proxy | None = None
    busy: int = 0  # requests under way
    most: int = 0  # at a time: it has no more idle connections than that


@dataclass(slots=True)
class Clients:
    """The clients of one fetcher, the one used last at the end."""

    options: FetchOptions
    _dialers: OrderedDict[str, Dialer] = field(default_factory=OrderedDict)
    _is_open: bool = False
    _most: int = 0  # of all

    def open(self) -> None:
        self._is_open = True

    def close(self) -> None:
        for dialer in self._dialers.values():
            dialer.client.close()
        self._dialers.clear()
        self._is_open = False

    def dialer(self, host: str, addresses: tuple[str, ...] = (), *, proxy: str = "") -> Dialer:
        """The client for a host as its URL spells it; without addresses, it is one itself. A proxy
        has one for all hosts: its credentials may stand for a session, which nobody else joins.

        It is busy from here on: whoever asked for it takes that back.
        """
        if not self._is_open:  # wreq would raise CancelledError, as if the task were cancelled
            raise RuntimeError("the fetcher is not open: use it in `async with`.")
        # Literal addresses need no name server, so that they share a client.
        name = proxy or (host if addresses else "")
        dialer = self._dialers.get(name)
        if dialer is None or not _are_the_same(dialer.addresses, addresses):
            self._forget(name)
            through = wreq.Proxy.all(proxy) if proxy else None
            dialer = Dialer(_open_client(self.options, name, addresses), addresses, through)
            self._dialers[name] = dialer
        self._dialers.move_to_end(name)
        dialer.busy += 1
        if dialer.busy > dialer.most:
            self._grow(dialer)
        return dialer

    def _grow(self, dialer: Dialer) -> None:
        """One connection more. A broad crawl meets more hosts than it may open files: those that
        rested longest make room."""
        dialer.most += 1
        self._most += 1
        resting = [name for name, one in self._dialers.items() if not one.busy]
        for name in resting:
            if self._most <= self.options.max_idle_connections:
                return
            self._forget(name)

    def _forget(self, name: str) -> None:
        if dialer := self._dialers.pop(name, None):
            self._most -= dialer.most


def _are_the_same(old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    """In any order: name servers rotate it."""
    return old == new or set(old) == set(new)


def _open_client(options: FetchOptions, name: str, addresses: tuple[str, ...]) -> wreq.Client:
    dns = wreq.DnsOptions()
    if addresses:
        dns.add_resolve(name, [ip_address(one.partition("%")[0]) for one in addresses])
    return wreq.Client(
        user_agent=options.user_agent,
        headers={"accept": options.accept, **options.headers},
        redirect=Policy.none(),
        cookie_store=False,
        referer=False,
        no_proxy=True,
        dns_options=dns,
        connect_timeout=timedelta(seconds=options.connect_timeout_s),
        read_timeout=timedelta(seconds=options.first_byte_timeout_s),
        timeout=timedelta(seconds=options.total_timeout_s),
        http1_only=not options.http2,
        http1_options=wreq.Http1Options(max_buf_size=options.max_header_bytes, max_headers=512),
        pool_max_size=options.max_idle_connections,
        tls_verify=options.ca_file
        if options.verify_tls and options.ca_file
        else options.verify_tls,
        gzip=True,
        brotli=True,
        deflate=True,
        zstd=True,
    )
