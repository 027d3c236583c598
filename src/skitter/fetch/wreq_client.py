"""The client on `wreq`, the default: HTTP/2, and a third of the CPU time of others."""

from __future__ import annotations

from datetime import timedelta
from ipaddress import ip_address
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import wreq
from wreq.redirect import Policy

from skitter.errors import FetchError
from skitter.fetch.call import METHODS, bad_header, read_headers, too_large
from skitter.fetch.clients import Clients, Dialer
from skitter.fetch.wreq_failures import WREQ_ERRORS, explain, explain_proxy
from skitter.model import Response

if TYPE_CHECKING:
    from skitter.fetch.call import Call
    from skitter.settings.fetch import FetchOptions

_METHODS: Final = {name: getattr(wreq.Method, name) for name in METHODS}


class _Wreq(NamedTuple):
    client: wreq.Client
    proxy: wreq.Proxy | None


class WreqClient:
    """wreq has no hook for name resolution, but a client can be made with the addresses of names.
    All clients share one thread pool."""

    def __init__(self, options: FetchOptions) -> None:
        self._options = options
        self._clients = Clients(options, self._make, lambda one: one.client.close())

    def open(self) -> None:
        self._clients.open()

    async def close(self) -> None:
        self._clients.close()

    async def exchange(self, call: Call) -> Response:
        # Before it leaves: making a client takes 15 ms, and more on a busy machine.
        dialer = self._clients.take(call.whom.dialled, call.addresses, proxy=call.proxy)
        try:
            if call.leave is not None:
                await call.leave()
            return await self._exchange(dialer, call)
        finally:
            self._clients.give_back(dialer)

    async def _exchange(self, dialer: Dialer[_Wreq], call: Call) -> Response:
        started = perf_counter()  # nothing is awaited between here and the request
        try:
            answer = await _send(dialer.client, call)
            first_byte_s = perf_counter() - started
            address, headers = await _read_head(call, answer)
            return Response(
                url=call.request.url,
                status=answer.status.as_int(),
                headers=headers,
                body=await _read_body(call, answer),
                remote_address=address,
                elapsed_s=perf_counter() - started,
                first_byte_s=first_byte_s,
            )
        except WREQ_ERRORS as error:
            if call.proxy and (fault := explain_proxy(error, call.url, call.proxy)):
                raise fault from error
            elapsed_s = perf_counter() - started
            raise explain(error, call.url, elapsed_s=elapsed_s, options=call.options) from error

    def _make(self, name: str, addresses: tuple[str, ...], proxy: str) -> _Wreq:
        client = _open_client(self._options, name, addresses)
        return _Wreq(client, wreq.Proxy.all(proxy) if proxy else None)


async def _send(one: _Wreq, call: Call) -> wreq.Response:
    """Send the request, with all that differs from one to the next."""
    request = call.request
    extra: dict[str, Any] = {"proxy": one.proxy} if one.proxy else {}
    if call.headers:
        extra["headers"] = call.headers
    if request.body:
        extra["body"] = request.body
    if request.timeout_s is not None:
        extra["timeout"] = extra["read_timeout"] = timedelta(seconds=request.timeout_s)
    try:
        return await one.client.request(_METHODS[request.method], call.url, **extra)
    except RuntimeError as error:
        if "Invalid header" not in str(error):
            raise
        raise bad_header(call) from error


async def _read_head(
    call: Call, answer: wreq.Response
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """Who answered, and with which headers."""
    try:
        address = _ip(answer.remote_addr)
        if call.check:
            call.check(call.url, address)
        # wreq's own limit is soft: its buffer grows in large steps.
        raw = [(name.tobytes(), value.tobytes()) for name, value in answer.headers]
        return address, read_headers(call, raw)
    except FetchError:
        await answer.close()
        raise


async def _read_body(call: Call, answer: wreq.Response) -> bytes:
    # Known only if the body is neither chunked nor compressed: it is the true size, not a claim.
    length = answer.content_length
    if length is not None and length <= call.options.max_body_bytes:
        return bytes(await answer.bytes())
    async with answer.stream() as stream:  # leaving it releases the connection
        return await _count_body(call, stream)


async def _count_body(call: Call, stream: wreq.Streamer) -> bytes:
    """Count as it arrives: a small gzip can be a huge page. Chunks are not kept: a server may send
    each byte in its own, and ten million of them take gigabytes."""
    body, max_bytes = bytearray(), call.options.max_body_bytes
    async for chunk in stream:
        if isinstance(chunk, memoryview):  # else trailers
            if len(body) + len(chunk) > max_bytes:
                raise too_large(call)
            body += chunk
    return bytes(body)


def _ip(address: wreq.SocketAddr | None) -> str | None:
    """The host of `1.2.3.4:80` or `[::1]:80`; a third of the cost of `address.ip()`."""
    return None if address is None else str(address).rpartition(":")[0].strip("[]")


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
