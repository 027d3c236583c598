"""How aiohttp gets its connections: we dial, so that only addresses the guard checked are used.

aiohttp asks its connector for a connection to a host; ours has the addresses of one name, or one
proxy. aiohttp itself supports only HTTP proxies.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import aiohttp
from aiohappyeyeballs import start_connection
from aiohttp.client_proto import ResponseHandler

from skitter.errors import ConnectFailed, ConnectRefused, FetchError, FetchTimeout, ProxyFault
from skitter.fetch.http.exchange import shown
from skitter.fetch.http.upstream import TargetUnreachable, Upstream, UpstreamError

if TYPE_CHECKING:
    from skitter.fetch.http.exchange import Call

#: RFC 8305 5: how long to try one address before trying the next as well.
NEXT_ADDRESS_S: Final = 0.25
_END: Final = b"\r\n\r\n"
_NO_ROUTE: Final = (errno.ENETUNREACH, errno.EHOSTUNREACH)


@dataclass(slots=True)
class Exchange:
    """One call, and its silence timer, which is stopped while we dial."""

    call: Call
    quiet: asyncio.Timeout
    connect_s: float = 0.0  # spent dialling

    @property
    def is_reused(self) -> bool:
        """Whether its connection was open before."""
        return not self.connect_s


#: The exchange of this task: aiohttp passes nothing of ours to its connector.
EXCHANGE: ContextVar[Exchange] = ContextVar("skitter_exchange")


class _Handler(ResponseHandler):
    """Feeds the head first, then the rest: otherwise bytes beyond the declared length of the body
    would cost the whole response."""

    _at_head = True

    def set_response_params(self, **params: Any) -> None:
        self._at_head = True
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        end = data.find(_END) + len(_END) if self._at_head else 0
        if len(_END) <= end < len(data):
            self._at_head = False
            super().data_received(data[:end])
            data = data[end:]
        super().data_received(data)  # even if empty: a paused parser resumes


class Connector(aiohttp.BaseConnector):
    """Connections to one name, or through one proxy."""

    def __init__(self, tls: ssl.SSLContext, addresses: tuple[str, ...], proxy: str) -> None:
        super().__init__(limit=0)
        self._tls, self._addresses, self._proxy = tls, addresses, proxy
        self._upstream = Upstream.of(proxy, tls=tls) if proxy else None
        # From Python 3.11.5, a writer that is garbage-collected closes its connection.
        self._writers: WeakKeyDictionary[ResponseHandler, object] = WeakKeyDictionary()

    def _make(self) -> ResponseHandler:
        return _Handler(asyncio.get_running_loop())

    async def _create_connection(self, req: Any, *_: Any) -> ResponseHandler:
        exchange = EXCHANGE.get()
        call, loop = exchange.call, asyncio.get_running_loop()
        exchange.quiet.reschedule(None)
        dialled_at = loop.time()
        try:
            async with asyncio.timeout(call.options.connect_timeout_s):
                found = await self._dial(call, req)
        except (OSError, UnicodeError) as error:  # TimeoutError is one, and so is ssl.SSLError
            raise self._explain(error, call) from error
        exchange.connect_s = loop.time() - dialled_at
        exchange.quiet.reschedule(loop.time() + call.options.first_byte_timeout_s)
        return found

    async def _dial(self, call: Call, req: Any) -> ResponseHandler:
        tls = self._tls if req.is_ssl() else None
        if self._upstream:
            return await self._tunnel(self._upstream, call, req.port, tls)
        infos = [_info(address, req.port) for address in self._addresses or (call.whom.name,)]
        wire = await start_connection(infos, happy_eyeballs_delay=NEXT_ADDRESS_S)
        try:
            _, found = await asyncio.get_running_loop().create_connection(
                self._make, sock=wire, ssl=tls, server_hostname=call.whom.name if tls else None
            )
        except BaseException:
            wire.close()
            raise
        return found

    async def _tunnel(
        self, upstream: Upstream, call: Call, port: int, tls: ssl.SSLContext | None
    ) -> ResponseHandler:
        if upstream.is_http and not tls:  # it takes requests without a tunnel
            _, writer = await upstream.open()
        else:
            _, writer = await upstream.tunnel(call.whom.name, port)
        found, transport = self._make(), writer.transport
        if tls:
            loop, name = asyncio.get_running_loop(), call.whom.name
            started = await loop.start_tls(transport, found, tls, server_hostname=name)
            assert started is not None
            transport = started
        else:
            transport.set_protocol(found)
        found.connection_made(transport)
        self._writers[found] = writer
        return found

    def _explain(self, error: Exception, call: Call) -> FetchError:
        if isinstance(error, TargetUnreachable):
            return ConnectFailed(call.url, "the proxy cannot reach it")
        if isinstance(error, UpstreamError):
            said = str(error).removeprefix("the proxy ")
            return ProxyFault(call.url, f"the proxy {shown(self._proxy)} {said}")
        if isinstance(error, TimeoutError):
            if self._proxy:
                return ProxyFault(
                    call.url, f"the proxy {shown(self._proxy)} did not answer in time"
                )
            return FetchTimeout(
                call.url, f"no connection within {call.options.connect_timeout_s:g} s"
            )
        return _explain_socket(error, call.url)


def _explain_socket(error: Exception, url: str) -> FetchError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConnectFailed(url, "the TLS certificate is not trusted")
    if isinstance(error, (ssl.SSLError, ConnectionResetError, EOFError)):
        return ConnectFailed(url, "the TLS handshake failed")
    if isinstance(error, ConnectionRefusedError):
        return ConnectRefused(url, "nothing listens on that port")
    if isinstance(error, OSError) and error.errno in _NO_ROUTE:
        return ConnectFailed(url, "no route to that address")
    return ConnectFailed(url, "the connection failed")


def _info(address: str, port: int) -> Any:
    """An address as getaddrinfo returns it; `%eth0` is the scope of a link-local one."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    where = (address, port, 0, 0) if ":" in address else (address, port)
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", where


def tls_of(*, verify: bool, ca_file: str | None) -> ssl.SSLContext:
    """Trust the system's authorities, or only those in the file."""
    context = ssl.create_default_context(cafile=ca_file if verify else None)
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context
