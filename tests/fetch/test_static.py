from __future__ import annotations

import pytest

from skitter.errors import FetchTimeout
from skitter.fetch import Fetcher, StaticFetcher
from skitter.model import Request, Response

URL = "https://example.com/"


async def test_a_page_is_its_html_a_response_or_an_error_and_else_a_404():
    moved = Response(url=URL + "old", status=301, headers=(("location", "/"),))
    fetcher: Fetcher = StaticFetcher(
        {URL: b"<h1>hi</h1>", URL + "old": moved, URL + "slow": FetchTimeout(URL, "slow")}
    )
    home = await fetcher.fetch(Request(url=URL))
    assert (home.status, home.body, home.url) == (200, b"<h1>hi</h1>", URL)
    assert home.header("content-type") == "text/html; charset=utf-8"
    assert await fetcher.fetch(Request(url=URL + "old")) is moved
    assert (await fetcher.fetch(Request(url=URL + "no"))).status == 404
    with pytest.raises(FetchTimeout):
        await fetcher.fetch(Request(url=URL + "slow"))


async def test_it_remembers_what_was_asked():
    fetcher = StaticFetcher()
    await fetcher.fetch(Request(url=URL, method="POST"))
    assert fetcher.asked_urls == [URL]
    assert fetcher.asked[0].method == "POST"
