"""One request, one exchange: the `Fetcher` protocol and our own fetchers."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol, Self

from skitter.errors import (
    ClientMissing,
    ConnectFailed,
    FetchTimeout,
    HostNotFound,
    NamesUnavailable,
)
from skitter.fetch.http.exchange import (
    BODY_SINK,
    PROXY_AUTHENTICATION_REQUIRED,
    Call,
    check_method,
    check_target,
    rejected,
    spell,
)
from skitter.fetch.http.exchange import Leave as Leave
from skitter.fetch.http.guard import (
    Authority,
    Credentials,
    Guard,
    Resolver,
    authority_of,
    is_address,
    is_no_such_name,
)
from skitter.model import Request, Response
from skitter.settings.fetch import FetchOptions, check_ca_file, outbound_of
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skitter.fetch.http.exchange import Client


# URLs that all parsers read alike; others are normalized by `identify` first, so that the guard and
# the client cannot disagree about the host.
_PLAIN: Final = re.compile(r"https?://(?:[a-z0-9._-]+|\[[0-9a-f:]+\])(?::[0-9]+)?/[!\"$-\[\]-~]*")


class Fetcher(Protocol):
    """Anything that can fetch a page. A redirect is a response: it is not followed here."""

    async def fetch(
        self, request: Request, *, leave: Leave | None = None, proxy: str | None = None
    ) -> Response:
        """The response, whatever its status, or a FetchError.

        `proxy`: http://, https:// or socks5://, with or without credentials; None: direct, or
        through the proxy of this network.
        """
        ...


class HttpFetcher:
    """Fetches with the client that the options name.

    Use it as `async with HttpFetcher(options) as fetcher`. Cookies are neither kept nor sent;
    proxies from the environment are ignored.
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
        self._client = client_of(self._options)
        self._credentials = Credentials(self._options)
        self._outbound = outbound_of(self._options.proxy, os.environ)

    async def __aenter__(self) -> Self:
        self._client.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.close()
        await self._resolver.close()

    async def fetch(
        self, request: Request, *, leave: Leave | None = None, proxy: str | None = None
    ) -> Response:
        if not proxy and self._outbound:
            proxy = self._outbound.proxy_for(request.url)
        call = await self._prepare(request, spell(proxy) if proxy else "", leave)
        response = await self._client.exchange(call)
        if proxy and response.status == PROXY_AUTHENTICATION_REQUIRED:
            raise rejected(call.url, proxy)
        return response

    async def _prepare(self, request: Request, proxy: str, leave: Leave | None) -> Call:
        url, options = request.url, self._options_for(request)
        if not _PLAIN.fullmatch(url):
            url = identify(url).url
        whom = authority_of(url)
        allowed = self._guard.permits(whom)
        call = Call(
            request=request,
            url=url,
            whom=whom,
            addresses=(),
            proxy=proxy,
            headers=self._headers_for(request, url, whom),
            options=options,
            leave=leave,
            # once more: the address that answers must be one that we allow
            check=None if allowed or proxy else self._guard.check_address,
            sink=BODY_SINK.get(),
        )
        check_method(call)
        if proxy:
            await self._check_target(url, whom, allowed=allowed)
        else:
            call.addresses = await self._addresses(url, whom, allowed=allowed)
        return call

    def _options_for(self, request: Request) -> FetchOptions:
        """The options, with the request's own limits. It may take longer but not bring more:
        memory is for the operator to grant. Raises BadOption."""
        options = self._options
        if (time_s := request.timeout_s) is not None:
            options = replace(options, total_timeout_s=time_s, first_byte_timeout_s=time_s)
        if sink := BODY_SINK.get():
            options = replace(options, total_timeout_s=sink.max_time_s)
        if request.max_body_mb is not None:
            options = replace(options, max_body_mb=min(request.max_body_mb, options.max_body_mb))
        return options

    def _headers_for(self, request: Request, url: str, whom: Authority) -> dict[str, str]:
        if self._credentials and (header := self._credentials.header_for(url, whom)):
            return {"authorization": header, **_lower(request.headers)}
        return request.headers

    async def _addresses(self, url: str, whom: Authority, *, allowed: bool) -> tuple[str, ...]:
        """What may be dialled: all addresses of the name, checked. Empty: the URL has an address
        instead of a name."""
        if not allowed:
            self._guard.check_url(url)
        if is_address(whom.name):
            return ()
        addresses = self._resolver.known(whom.name) or await self._resolve(url, whom.name)
        if not allowed:
            for address in addresses:
                self._guard.check_address(url, address)
        return addresses

    async def _check_target(self, url: str, whom: Authority, *, allowed: bool) -> None:
        """The proxy decides what to dial, except for what we know to be private."""
        if not allowed:
            self._guard.check_url(url)
            if not is_address(whom.name):
                await check_target(self._guard, self._resolver, url, whom)

    async def _resolve(self, url: str, name: str) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                return await self._resolver.resolve(name)
        except TimeoutError:
            if self._resolver.is_away():
                raise NamesUnavailable(url) from None
            slow = f"the name did not resolve within {self._options.connect_timeout_s:g} s"
            raise FetchTimeout(url, slow) from None
        except (OSError, UnicodeError) as error:
            if is_no_such_name(error):
                raise HostNotFound(url, name) from error
            if self._resolver.is_away():
                raise NamesUnavailable(url) from error
            raise ConnectFailed(url, "the name does not resolve for now") from error


def client_of(options: FetchOptions) -> Client:
    """The client that the options name; the other one is not imported. Raises ClientMissing."""
    try:
        if options.client == "aiohttp":
            from skitter.fetch.http.aiohttp_client import AiohttpClient

            return AiohttpClient(options)
        from skitter.fetch.http.wreq_client import WreqClient

        return WreqClient(options)
    except ImportError as error:
        raise ClientMissing(options.client, error) from error


def _lower(headers: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


_HTML: Final = (("content-type", "text/html; charset=utf-8"),)
_MISSING: Final = b"<title>404 Not Found</title>"


class StaticFetcher:
    """Answers from `pages` and remembers the requests: for tests of spiders and of Skitter.

    A page is its HTML, a whole Response, or an error to raise; any other URL is a 404.
    """

    def __init__(self, pages: Mapping[str, bytes | Response | Exception] | None = None) -> None:
        self.pages = dict(pages or {})
        self.asked: list[Request] = []
        self.proxies: list[str | None] = []  # of each request

    @property
    def asked_urls(self) -> list[str]:
        return [request.url for request in self.asked]

    async def fetch(
        self, request: Request, *, leave: Leave | None = None, proxy: str | None = None
    ) -> Response:
        if leave is not None:
            await leave()
        self.asked.append(request)
        self.proxies.append(proxy)
        page = self.pages.get(request.url)
        if isinstance(page, Exception):
            raise page
        if isinstance(page, Response):
            return page
        if page is None:
            return Response(url=request.url, status=404, headers=_HTML, body=_MISSING)
        return Response(url=request.url, status=200, headers=_HTML, body=page)
