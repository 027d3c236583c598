"""One request, one exchange: the client on `wreq`, and the one method that stands for it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from time import perf_counter
from typing import Any, Final, Protocol, Self

import wreq

from skitter.errors import ConnectFailed, FetchError, FetchTimeout, ResponseTooLarge
from skitter.fetch.auth import Credentials
from skitter.fetch.clients import Clients, Dialer
from skitter.fetch.failures import WREQ_ERRORS, explain
from skitter.fetch.guard import Authority, Guard, authority_of, is_address
from skitter.fetch.proxies import (
    PROXY_AUTHENTICATION_REQUIRED,
    check_target,
    explain_proxy,
    rejected,
    spell,
)
from skitter.fetch.resolver import Resolver
from skitter.model import Request, Response
from skitter.settings.fetch import FetchOptions, check_ca_file
from skitter.urls import identify

_METHODS: Final = {
    name: getattr(wreq.Method, name)
    for name in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
}
# URLs that no two parsers read differently; anything else takes the spelling of `identify` first,
# so that the guard and wreq cannot disagree about the host.
_PLAIN: Final = re.compile(r"https?://(?:[a-z0-9._-]+|\[[0-9a-f:]+\])(?::[0-9]+)?/[!\"$-\[\]-~]*")


#: Called when all is ready and the request is about to leave; it may wait, or raise.
Leave = Callable[[], Awaitable[None]]


class Fetcher(Protocol):
    """Anything that can fetch a page. A redirect is a response: it is not followed here."""

    async def fetch(
        self, request: Request, *, leave: Leave | None = None, proxy: str | None = None
    ) -> Response:
        """The response, whatever its status, or a FetchError.

        `proxy`: http://, https:// or socks5://, with credentials or without; None: direct.
        """
        ...


class HttpFetcher:
    """The real thing. Use it as `async with HttpFetcher(options) as fetcher`.

    Cookies are neither kept nor sent; proxies from the environment are not used.
    """

    def __init__(
        self,
        options: FetchOptions | None = None,
        *,
        guard: Guard | None = None,
        resolver: Resolver | None = None,
    ) -> None:
        self._options = options or FetchOptions()
        check_ca_file(self._options)
        self._guard = guard or Guard()
        self._resolver = resolver or Resolver()
        self._clients = Clients(self._options)
        self._credentials = Credentials(self._options)

    async def __aenter__(self) -> Self:
        self._clients.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._clients.close()
        await self._resolver.close()

    async def fetch(
        self, request: Request, *, leave: Leave | None = None, proxy: str | None = None
    ) -> Response:
        proxy = spell(proxy) if proxy else ""
        url, options = request.url, self._options_for(request)
        if not _PLAIN.fullmatch(url):
            url = identify(url).url
        whom = authority_of(url)
        allowed = self._guard.permits(whom)
        if proxy:
            addresses = await self._check_target(url, whom, allowed=allowed)
        else:
            addresses = await self._addresses(url, whom, allowed=allowed)
        # Before it leaves: a client takes 15 ms to make, and more on a busy machine.
        dialer, started = self._clients.dialer(whom.dialled, addresses, proxy=proxy), perf_counter()
        try:
            if leave is not None:
                await leave()
                started = perf_counter()  # nothing is awaited between here and the request
            answer = await self._send(dialer, request, url, whom)
            if proxy and answer.status.as_int() == PROXY_AUTHENTICATION_REQUIRED:
                raise rejected(url, proxy)
            address, headers = await self._read_head(url, answer, allowed=allowed or bool(proxy))
            return Response(
                url=request.url,
                status=answer.status.as_int(),
                headers=headers,
                body=await _read_body(url, answer, most_bytes=options.max_body_bytes),
                remote_address=address,
                elapsed_s=perf_counter() - started,
            )
        except WREQ_ERRORS as error:
            if proxy and (fault := explain_proxy(error, url, proxy)):
                raise fault from error
            elapsed_s = perf_counter() - started
            raise explain(error, url, elapsed_s=elapsed_s, options=options) from error
        finally:
            dialer.busy -= 1

    def _options_for(self, request: Request) -> FetchOptions:
        """With what the request wants otherwise. It may take longer, and not bring more: memory is
        the operator's to give. Raises BadOption."""
        options = self._options
        if (time_s := request.timeout_s) is not None:
            options = replace(options, total_timeout_s=time_s, first_byte_timeout_s=time_s)
        if request.max_body_mb is not None:
            options = replace(options, max_body_mb=min(request.max_body_mb, options.max_body_mb))
        return options

    async def _read_head(
        self, url: str, answer: wreq.Response, *, allowed: bool
    ) -> tuple[str | None, tuple[tuple[str, str], ...]]:
        """Who answered, and with which headers."""
        try:
            address = _ip(answer.remote_addr)
            if not allowed:  # again: the address that answered must be one of those we allowed
                self._guard.check_address(url, address)
            return address, self._read_headers(url, answer.headers)
        except FetchError:
            await answer.close()
            raise

    async def _send(
        self, dialer: Dialer, request: Request, url: str, whom: Authority
    ) -> wreq.Response:
        """Everything that differs from request to request."""
        extra: dict[str, Any] = {"proxy": dialer.proxy} if dialer.proxy else {}
        if request.headers:
            extra["headers"] = request.headers
        if self._credentials and (header := self._credentials.header_for(url, whom)):
            extra["headers"] = {"authorization": header, **_lower(request.headers)}
        if request.body:
            extra["body"] = request.body
        if request.timeout_s is not None:
            extra["timeout"] = extra["read_timeout"] = timedelta(seconds=request.timeout_s)
        method = _METHODS.get(request.method)
        if method is None:
            raise FetchError(url, f"{request.method} is not a method that can be sent")
        try:
            return await dialer.client.request(method, url, **extra)
        except RuntimeError as error:
            if "Invalid header" not in str(error):
                raise
            raise FetchError(url, "a header of the request cannot be sent") from error

    def _read_headers(self, url: str, headers: wreq.HeaderMap) -> tuple[tuple[str, str], ...]:
        raw = [(name.tobytes(), value.tobytes()) for name, value in headers]
        # wreq's own limit is soft: it grows its buffer in large steps.
        if sum([len(name) + len(value) for name, value in raw]) > self._options.max_header_bytes:
            raise ResponseTooLarge(
                url, f"the headers are over {self._options.max_header_bytes:,} bytes"
            )
        try:
            return tuple([(name.decode(), value.decode()) for name, value in raw])
        except UnicodeDecodeError:
            return tuple([(name.decode(), _text(value)) for name, value in raw])

    async def _addresses(self, url: str, whom: Authority, *, allowed: bool) -> tuple[str, ...]:
        """What may be dialled: each address of the name, all of them checked. Empty: the URL
        has one in place of a name."""
        if not allowed:
            self._guard.check_url(url)
        if is_address(whom.name):
            return ()
        addresses = self._resolver.known(whom.name) or await self._resolve(url, whom.name)
        if not allowed:
            for address in addresses:
                self._guard.check_address(url, address)
        return addresses

    async def _check_target(self, url: str, whom: Authority, *, allowed: bool) -> tuple[str, ...]:
        """What may be dialled is the proxy's business, except for what we know to be private."""
        if not allowed:
            self._guard.check_url(url)
            if not is_address(whom.name):
                await check_target(self._guard, self._resolver, url, whom)
        return ()

    async def _resolve(self, url: str, name: str) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                return await self._resolver.resolve(name)
        except TimeoutError:
            slow = f"the name did not resolve within {self._options.connect_timeout_s:g} s"
            raise FetchTimeout(url, slow) from None
        except (OSError, UnicodeError) as error:  # UnicodeError: a label over 63 characters
            raise ConnectFailed(url, "the name does not resolve") from error


async def _read_body(url: str, answer: wreq.Response, *, most_bytes: int) -> bytes:
    # Known only where nothing is chunked or packed: it is not what the server claims.
    length = answer.content_length
    if length is not None and length <= most_bytes:
        return bytes(await answer.bytes())
    async with answer.stream() as stream:  # leaving it lets go of the connection
        return await _count_body(url, stream, most_bytes=most_bytes)


async def _count_body(url: str, stream: wreq.Streamer, *, most_bytes: int) -> bytes:
    """Count while it comes: a small gzip can be a huge page. Not kept in pieces: a server may
    send each byte in a chunk of its own, and ten million of those are gigabytes."""
    body = bytearray()
    async for chunk in stream:
        if isinstance(chunk, memoryview):  # else trailers
            if len(body) + len(chunk) > most_bytes:
                raise ResponseTooLarge(url, f"the body is over {most_bytes:,} bytes")
            body += chunk
    return bytes(body)


def _lower(headers: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _ip(address: wreq.SocketAddr | None) -> str | None:
    """The host of `1.2.3.4:80` or `[::1]:80`; a third of the cost of `address.ip()`."""
    return None if address is None else str(address).rpartition(":")[0].strip("[]")


def _text(value: bytes) -> str:
    """UTF-8 where it is, as browsers read Location; else bytes one by one (RFC 9110 5.5)."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
