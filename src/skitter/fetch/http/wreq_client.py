"""The client on `wreq`, and what its errors mean.

It is the default: HTTP/2, and a third of the CPU time of others.
"""

from __future__ import annotations

import re
from datetime import timedelta
from ipaddress import ip_address
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import wreq
from wreq import exceptions as wreq_errors
from wreq.redirect import Policy

from skitter.errors import (
    BadResponse,
    ConnectFailed,
    ConnectRefused,
    FetchError,
    FetchTimeout,
    ProxyFault,
    ResponseTooLarge,
)
from skitter.fetch.http.exchange import (
    METHODS,
    Clients,
    bad_header,
    read_headers,
    shown,
    too_large,
)
from skitter.fetch.http.packing import unpacked
from skitter.model import Response

if TYPE_CHECKING:
    from skitter.fetch.http.exchange import Call
    from skitter.settings.fetch import FetchOptions


WREQ_ERRORS: Final = (
    wreq_errors.BodyError,
    wreq_errors.BuilderError,
    wreq_errors.ConnectionError,
    wreq_errors.ConnectionResetError,
    wreq_errors.DecodingError,
    wreq_errors.ProxyConnectionError,
    wreq_errors.RequestError,
    wreq_errors.TimeoutError,
    wreq_errors.TlsError,
    wreq_errors.UpgradeError,
)
_CONNECTING: Final = (
    wreq_errors.ConnectionError,
    wreq_errors.ProxyConnectionError,
    wreq_errors.TlsError,
)

# The first match in the message decides.
_CAUSES: Final[tuple[tuple[str, type[FetchError], str], ...]] = (
    ("dns error", ConnectFailed, "the name does not resolve"),
    ("CERTIFICATE_VERIFY_FAILED", ConnectFailed, "the TLS certificate is not trusted"),
    ("SSL", ConnectFailed, "the TLS handshake failed"),
    ("ConnectionRefused", ConnectRefused, "nothing listens on that port"),
    ("Unreachable", ConnectFailed, "no route to that address"),
    ("Parse(TooLarge)", ResponseTooLarge, "the headers are over the limit"),
    ("Parse(", BadResponse, "the response is not HTTP"),
    ("IncompleteMessage", BadResponse, "the connection closed before a response came"),
    # HTTP/2 (RFC 9113 7): the same as a 429, or a port that refuses.
    ("REFUSED_STREAM", ConnectRefused, "the server refuses requests on this connection"),
    ("ENHANCE_YOUR_CALM", ConnectRefused, "the server says we send too much"),
    ("GoAway", BadResponse, "the server ended the connection before the request"),
    ("Canceled", BadResponse, "the connection closed before a response came"),  # HTTP/2
    ("IncompleteBody", BadResponse, "the body was cut off"),
    ("unexpected EOF", BadResponse, "the body was cut off"),
    ("ConnectionReset", BadResponse, "the connection was reset"),
    ("BrokenPipe", BadResponse, "the connection was reset"),
)
# The rest, by class.
_STAGES: Final[tuple[tuple[tuple[type[Exception], ...], type[FetchError], str], ...]] = (
    (_CONNECTING, ConnectFailed, "the connection failed"),
    ((wreq_errors.ConnectionResetError,), BadResponse, "the connection was reset"),
    ((wreq_errors.DecodingError,), BadResponse, "the body does not decompress"),
    ((wreq_errors.BodyError,), BadResponse, "the body was cut off"),
    ((wreq_errors.BuilderError,), FetchError, "the request cannot be sent"),
)
#: What wreq's message says, and what it means. SOCKS5 tells the target's failures from its own
#: (RFC 1928 6); HTTP proxies do not.
_PROXY_TARGET: Final = re.compile(r"Socks\((?:HostUnreachable|ConnectionRefused|TTLExpired)")
_PROXY_CAUSES: Final = (
    ("ProxyAuthRequired", "rejects our credentials (407)"),
    ("NoAcceptableAuthMethods", "rejects our credentials"),
    ("PasswordAuthFailure", "rejects our credentials"),
    ("TunnelUnsuccessful", "did not open a tunnel (usually a 502)"),
    ("dns error", "has a name that does not resolve"),
    ("ConnectionRefused", "does not listen on its port"),
    ("TimedOut", "did not answer in time"),
    ("SSL", "failed the TLS handshake"),
    ("CERTIFICATE_VERIFY_FAILED", "has a TLS certificate that is not trusted"),
)


def explain(error: Exception, url: str, *, elapsed_s: float, options: FetchOptions) -> FetchError:
    """Our error for one of wreq's, with a useful reason.

    wreq has a class for each stage; the cause is only in the message, the `Debug` form of a Rust
    error. So a failure is recognized by its class and by words of that message, in one table; the
    tests provoke each on a real socket, and would notice if a release changed the words.
    """
    text = str(error)
    if "TimedOut" in text or isinstance(error, wreq_errors.TimeoutError):
        return FetchTimeout(url, _what_was_slow(error, elapsed_s, options))
    for words, kind, reason in _CAUSES:
        if words in text:
            return kind(url, reason)
    for stage, kind, reason in _STAGES:
        if isinstance(error, stage):
            return kind(url, reason)
    return BadResponse(url, "the exchange failed")


def explain_proxy(error: Exception, url: str, proxy: str) -> FetchError | None:
    """The proxy's failure; None: it is the page's own."""
    if not isinstance(error, wreq_errors.ProxyConnectionError):
        return None
    text = str(error)
    if _PROXY_TARGET.search(text):
        return ConnectFailed(url, "the proxy cannot reach it")
    reason = next((reason for words, reason in _PROXY_CAUSES if words in text), "failed")
    return ProxyFault(url, f"the proxy {shown(proxy)} {reason}")


def _what_was_slow(error: Exception, elapsed_s: float, options: FetchOptions) -> str:
    if elapsed_s >= options.total_timeout_s:
        return f"it took longer than {options.total_timeout_s:g} s in total"
    if isinstance(error, _CONNECTING):
        return f"no connection within {options.connect_timeout_s:g} s"
    if isinstance(error, wreq_errors.TimeoutError):
        return f"no response within {options.first_byte_timeout_s:g} s"
    return f"the body stalled for {options.first_byte_timeout_s:g} s"


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
        started = 0.0
        try:
            if call.leave is not None:
                await call.leave()
            started = perf_counter()  # nothing is awaited between here and the request
            answer = await _send(dialer.client, call)
            first_byte_s = perf_counter() - started
            address, headers = await _read_head(call, answer)
            status = answer.status.as_int()
            takes = call.sink is not None and call.sink.begins(status, headers)
            body = await (_pour if takes else _read_body)(call, answer)
            return Response(
                url=call.request.url,
                status=status,
                headers=headers,
                body=body if takes else unpacked(call, headers, body),
                remote_address=address,
                elapsed_s=perf_counter() - started,
                first_byte_s=first_byte_s,
            )
        except WREQ_ERRORS as error:
            if call.proxy and (fault := explain_proxy(error, call.url, call.proxy)):
                raise fault from error
            elapsed_s = perf_counter() - started
            raise explain(error, call.url, elapsed_s=elapsed_s, options=call.options) from error
        finally:
            self._clients.give_back(dialer)

    def _make(self, name: str, addresses: tuple[str, ...], proxy: str) -> _Wreq:
        client = _open_client(self._options, name, addresses)
        return _Wreq(client, wreq.Proxy.all(proxy) if proxy else None)


async def _send(dialer: _Wreq, call: Call) -> wreq.Response:
    """Send the request, with all that differs from one to the next."""
    request = call.request
    extra: dict[str, Any] = {"proxy": dialer.proxy} if dialer.proxy else {}
    if call.headers:
        extra["headers"] = call.headers
    if request.body:
        extra["body"] = request.body
    if request.timeout_s is not None:
        extra["timeout"] = extra["read_timeout"] = timedelta(seconds=request.timeout_s)
    if call.sink:
        extra["timeout"] = timedelta(seconds=call.sink.max_time_s)
    try:
        return await dialer.client.request(_METHODS[request.method], call.url, **extra)
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


async def _pour(call: Call, answer: wreq.Response) -> bytes:
    assert call.sink is not None
    async with answer.stream() as stream:
        async for piece in stream:
            if isinstance(piece, memoryview):  # else trailers
                call.sink.take(piece)
    return call.sink.end()


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
        dns.add_resolve(name, [ip_address(address.partition("%")[0]) for address in addresses])
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
