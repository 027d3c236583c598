"""A fetcher that serves pages from a dict, for tests of spiders and of Skitter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skitter.model import Request, Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skitter.fetch.client import Leave

_HTML: Final = (("content-type", "text/html; charset=utf-8"),)
_MISSING: Final = b"<title>404 Not Found</title>"


class StaticFetcher:
    """Answers from `pages` and remembers the requests.

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
