"""The client on `aiohttp`, with all that it decompresses.

It has no HTTP/2, takes more CPU time, and has nothing in common with wreq: it exists so that one
young library is not a single point of failure (docs/adr/0033).
"""

from __future__ import annotations

import asyncio
import re
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import brotli  # type: ignore[import-untyped]
from aiohttp.http_exceptions import LineTooLong
from yarl import URL

from skitter.errors import BadResponse, FetchError, FetchTimeout, ResponseTooLarge
from skitter.fetch.http.aiohttp_dial import EXCHANGE, Connector, Exchange, tls_of
from skitter.fetch.http.exchange import Clients, Dialer, bad_header, read_headers, too_large
from skitter.fetch.http.packing import BadPacking, Unpacker, Zlib, unpacked
from skitter.fetch.http.upstream import Upstream
from skitter.model import Response

if TYPE_CHECKING:
    from skitter.fetch.http.exchange import Call
    from skitter.settings.fetch import FetchOptions


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: What can be decompressed here, for Accept-Encoding.
ACCEPTED: Final = "gzip, deflate, br, zstd"
BLOCK_BYTES: Final = 256 * 2**10


def unpacker_of(encoding: str) -> Unpacker | None:
    """None: it is not compressed, or in an unknown way."""
    kind = _KINDS.get(encoding.strip().lower())
    return kind() if kind else None


class _Brotli:
    def __init__(self) -> None:
        self._state = brotli.Decompressor()
        self._has_begun = False

    def feed(self, data: bytes, max_bytes: int) -> bytes:
        self._has_begun = True
        try:
            body = bytearray(self._state.process(data, output_buffer_limit=BLOCK_BYTES))
            while len(body) <= max_bytes and not self._state.can_accept_more_data():
                body += self._state.process(b"", output_buffer_limit=BLOCK_BYTES)
        except brotli.error as error:
            raise BadPacking(str(error)) from error
        return bytes(body)

    def finish(self) -> None:
        if self._has_begun and not self._state.is_finished():
            raise BadPacking("it ends too early")


class _Zstd:
    def __init__(self) -> None:
        self._state: zstd.ZstdDecompressor | None = None

    def feed(self, data: bytes, max_bytes: int) -> bytes:
        self._state = self._state or zstd.ZstdDecompressor()
        try:
            return self._state.decompress(data, max_bytes + 1)
        except (zstd.ZstdError, EOFError) as error:
            raise BadPacking(str(error)) from error

    def finish(self) -> None:
        if self._state and not self._state.eof:
            raise BadPacking("it ends too early")


_KINDS: Final[dict[str, type[Unpacker]]] = {
    "gzip": Zlib,
    "x-gzip": Zlib,
    "deflate": Zlib,
    "br": _Brotli,
    "zstd": _Zstd,
}


_NO_LIMITS: Final = aiohttp.ClientTimeout(
    total=None, connect=None, sock_connect=None, sock_read=None
)
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 5.6.2
_BREAKING: Final = re.compile(r"[\r\n\0]")
_GONE: Final = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
_SAFE: Final = ("GET", "HEAD")  # RFC 9110 9.2.1: harmless to repeat


class _HungUp(BadResponse):
    """The server closed a reused connection, perhaps before it had the request."""


class _Answer(aiohttp.ClientResponse):
    """Remembers who sent it: aiohttp gives the connection back as soon as it can."""

    address: str | None = None

    async def start(self, connection: Any) -> Any:
        peer = connection.transport.get_extra_info("peername") if connection.transport else None
        self.address = peer[0] if peer else None
        return await super().start(connection)


class AiohttpClient:
    """An aiohttp session for each name, and for each proxy."""

    def __init__(self, options: FetchOptions) -> None:
        self._options = options
        ca_file = str(options.ca_file) if options.ca_file else None
        self._tls = tls_of(verify=options.verify_tls, ca_file=ca_file)
        self._clients = Clients(options, self._make, self._end)
        self._ending: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        self._clients.open()

    async def close(self) -> None:
        self._clients.close()
        await asyncio.gather(*self._ending)

    async def exchange(self, call: Call) -> Response:
        headers = _headers(call, self._options)
        dialer = self._clients.take(call.whom.dialled, call.addresses, proxy=call.proxy)
        try:
            try:
                return await self._leave(dialer, call, headers)
            except _HungUp:
                return await self._leave(dialer, call, headers)
        finally:
            self._clients.give_back(dialer)

    async def _leave(
        self, dialer: Dialer[aiohttp.ClientSession], call: Call, headers: dict[str, str]
    ) -> Response:
        if call.leave is not None:
            await call.leave()
        return await self._exchange(dialer, call, headers)

    async def _exchange(
        self, dialer: Dialer[aiohttp.ClientSession], call: Call, headers: dict[str, str]
    ) -> Response:
        options, started = call.options, perf_counter()
        stage = "no response within"
        whole = asyncio.timeout(options.total_timeout_s)
        quiet = asyncio.timeout(options.first_byte_timeout_s)
        EXCHANGE.set(exchange := Exchange(call, quiet))
        try:
            async with whole, quiet, _ask(dialer.client, call, headers) as answer:
                assert isinstance(answer, _Answer)
                first_byte_s = perf_counter() - started
                stage = "the body stalled for"
                try:
                    if call.check:
                        call.check(call.url, answer.address)
                    headers_read = read_headers(call, answer.raw_headers)
                    return Response(
                        url=call.request.url,
                        status=answer.status,
                        headers=headers_read,
                        body=await _body_of(call, answer, quiet, headers_read),
                        remote_address=answer.address,
                        elapsed_s=perf_counter() - started,
                        connect_s=exchange.connect_s,
                        first_byte_s=first_byte_s,
                    )
                except BaseException:
                    answer.close()  # the rest is not read
                    raise
        except TimeoutError:
            if whole.expired():
                slow = f"it took longer than {options.total_timeout_s:g} s in total"
            else:
                slow = f"{stage} {options.first_byte_timeout_s:g} s"
            raise FetchTimeout(call.url, slow) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if exchange.is_reused and isinstance(error, _GONE) and call.request.method in _SAFE:
                raise _HungUp(call.url, "the connection closed before a response came") from error
            raise _explain(error, call) from error

    def _make(self, name: str, addresses: tuple[str, ...], proxy: str) -> aiohttp.ClientSession:
        limit = self._options.max_header_bytes
        session = aiohttp.ClientSession(
            connector=Connector(self._tls, addresses, proxy),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("user-agent", "content-type"),
            response_class=_Answer,
            timeout=_NO_LIMITS,
            auto_decompress=False,
            max_line_size=limit,
            max_field_size=limit,
            max_headers=512,
        )
        # Otherwise it repeats a GET, PUT or DELETE at once if the server hangs up. There is no
        # public option; aiohttp's own test client sets this.
        session._retry_connection = False
        return session

    def _end(self, session: aiohttp.ClientSession) -> None:
        task = asyncio.create_task(session.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def _headers(call: Call, options: FetchOptions) -> dict[str, str]:
    """All headers, in lower case; the request's own win."""
    authority = call.url.split("/", 3)[2]
    headers = {"host": authority, "user-agent": options.user_agent, "accept": options.accept}
    headers["accept-encoding"] = ACCEPTED
    for more in (options.headers, call.headers):
        headers |= {name.lower(): value for name, value in more.items()}
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or _BREAKING.search(value):
            raise bad_header(call)
    if call.proxy and call.url.startswith("http:"):
        upstream = Upstream.of(call.proxy)
        if upstream.is_http and upstream.user:
            line = upstream.credentials.decode().strip()
            headers["proxy-authorization"] = line.partition(": ")[2]
    return headers


def _ask(session: aiohttp.ClientSession, call: Call, headers: dict[str, str]) -> Any:
    target = URL(call.url, encoded=True)
    extra: dict[str, Any] = {}
    if call.proxy.startswith("http") and target.scheme == "http":
        extra["proxy"] = _bare(call.proxy)  # so that the request line has the whole URL
    return session.request(
        call.request.method,
        target,
        headers=headers,
        data=call.request.body or None,
        allow_redirects=False,
        **extra,
    )


def _bare(proxy: str) -> URL:
    return URL(proxy).with_user(None)


async def _body_of(
    call: Call, answer: _Answer, quiet: asyncio.Timeout, headers: tuple[tuple[str, str], ...]
) -> bytes:
    if call.sink is None or not call.sink.begins(answer.status, headers):
        return await _read_body(call, answer, quiet, headers)
    loop, silence_s = asyncio.get_running_loop(), call.options.first_byte_timeout_s
    while piece := await answer.content.readany():
        quiet.reschedule(loop.time() + silence_s)
        call.sink.take(piece)
    return call.sink.end()


async def _read_body(
    call: Call, answer: _Answer, quiet: asyncio.Timeout, headers: tuple[tuple[str, str], ...]
) -> bytes:
    """Count as it arrives. Chunks are not kept: a server may send each byte in its own, and ten
    million of them take gigabytes."""
    body, max_bytes = bytearray(), call.options.max_body_bytes
    unpacker = unpacker_of(answer.headers.get("content-encoding", ""))
    loop, silence_s = asyncio.get_running_loop(), call.options.first_byte_timeout_s
    while chunk := await answer.content.readany():
        quiet.reschedule(loop.time() + silence_s)
        body += unpacker.feed(chunk, max_bytes - len(body)) if unpacker else chunk
        if len(body) > max_bytes:
            raise too_large(call)
    if unpacker:
        unpacker.finish()
        return bytes(body)
    return unpacked(call, headers, bytes(body))


# The first match decides.
_FAILURES: Final[tuple[tuple[type[Exception], type[FetchError], str], ...]] = (
    (BadPacking, BadResponse, "the body does not decompress"),
    (aiohttp.ClientPayloadError, BadResponse, "the body was cut off"),
    (aiohttp.ClientResponseError, BadResponse, "the response is not HTTP"),
    (
        aiohttp.ServerDisconnectedError,
        BadResponse,
        "the connection closed before a response came",
    ),
    (OSError, BadResponse, "the connection was reset"),
    (ValueError, FetchError, "the request cannot be sent"),
)


def _explain(error: Exception, call: Call) -> FetchError:
    if _is_from(error, LineTooLong):
        return ResponseTooLarge(
            call.url, f"the headers are over {call.options.max_header_bytes:,} bytes"
        )
    for kind, ours, reason in _FAILURES:
        if isinstance(error, kind):
            return ours(call.url, reason)
    return BadResponse(call.url, "the exchange failed")


def _is_from(error: BaseException | None, kind: type[Exception]) -> bool:
    while error and not isinstance(error, kind):
        error = error.__cause__
    return error is not None
