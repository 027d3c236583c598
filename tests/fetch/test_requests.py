"""What one request may ask for: its method, body, time and size."""

from __future__ import annotations

import pytest

from conftest import rude
from fetch.site import reply, serve, then_wait
from skitter.errors import BadOption, FetchTimeout, ResponseTooLarge, UsageError
from skitter.frontier.feed import parse_message
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.messages import decode_request, encode
from skitter.model import Request
from skitter.spider import Spider
from skitter.spider.page import Page
from web import Answer, serve_web

URL = "https://shop.test/"


def test_a_body_that_is_text_becomes_utf_8():
    assert Request(URL, body="ü").body == b"\xc3\xbc"
    assert Request(URL, body=b"\xff").body == b"\xff"


def test_json_becomes_the_body_and_names_its_type():
    request = Request(URL, method="PUT", json={"a": [1, None]})

    assert (request.body, request.json) == (b'{"a":[1,null]}', None)
    assert request.headers == {"content-type": "application/json"}
    assert decode_request(encode(request)) == request
    assert Page.of("").follow("/x", method="POST", json=[1]).body == b"[1]"
    assert parse_message(b'{"url": "https://a.test/", "json": {"a": 1}}').body == b'{"a":1}'


def test_the_type_of_a_json_body_can_be_another():
    request = Request(URL, json=1, headers={"Content-Type": "application/ld+json", "X-A": "b"})

    assert request.headers == {"content-type": "application/ld+json", "x-a": "b"}


def test_two_bodies_are_refused():
    with pytest.raises(BadOption, match="one of body and json"):
        Request(URL, body="a", json={})


@pytest.mark.parametrize("fields", [{"timeout_s": 0}, {"timeout_s": "5"}, {"max_body_mb": 2000}])
async def test_limits_out_of_range_are_refused_before_they_are_stored(frontier, fields):
    with pytest.raises(UsageError, match=next(iter(fields))):
        await frontier.add([Request(URL, **fields)])


async def test_a_request_may_be_quicker_than_the_configured_time(fetcher):
    async with serve({"/": then_wait(b"")}) as site:
        with pytest.raises(FetchTimeout, match=r"longer than 0\.1 s"):
            await fetcher.fetch(Request(site.url(), timeout_s=0.1))


async def test_a_request_may_take_longer_than_the_configured_time(open_fetcher):
    async def slow(exchange):
        head = Request(site.url("/quick"))
        with pytest.raises(FetchTimeout):  # as long as the configured time, by the same clock
            await fetcher.fetch(head)
        await exchange.send(reply(b"at last"))

    pages = {"/": slow, "/quick": then_wait(b"")}
    async with (
        open_fetcher(total_timeout_s=0.2, first_byte_timeout_s=0.2) as fetcher,
        serve(pages) as site,
    ):
        answer = await fetcher.fetch(Request(site.url(), timeout_s=60))

    assert answer.body == b"at last"


async def test_a_request_may_want_less_than_the_configured_size_and_not_more(open_fetcher):
    async with open_fetcher(max_body_mb=0.001) as fetcher, serve({"/": reply(b"x" * 900)}) as site:
        assert (await fetcher.fetch(Request(site.url()))).body
        with pytest.raises(ResponseTooLarge, match=r"over 0\.0005 MB"):
            await fetcher.fetch(Request(site.url(), max_body_mb=0.0005))
    async with open_fetcher(max_body_mb=0.001) as fetcher, serve({"/": reply(b"x" * 9000)}) as site:
        with pytest.raises(ResponseTooLarge, match=r"over 0\.001 MB"):
            await fetcher.fetch(Request(site.url(), max_body_mb=1000))


async def test_every_method_gets_through_a_crawl(server, job, client):
    """Each with its body, and handled like any other page."""
    sent = {"PUT": b"put", "PATCH": b"patch", "DELETE": b"", "HEAD": b"", "POST": b'{"a":1}'}
    handled = {}
    frontier = await create_job(server, job, options=rude())
    async with serve_web(lambda asked: Answer(asked.body, headers=(("x-m", asked.method),))) as web:
        spider = Spider(job, start=[web.url("/start")])

        @spider.page
        def start(page):
            for method in ("PUT", "PATCH"):
                yield page.follow("/thing", thing, method=method, body=method.lower())
            yield page.follow("/thing", thing, method="POST", json={"a": 1})
            yield Request(url=page.absolute("/thing"), handler="thing", method="DELETE")
            yield page.follow("/thing", thing, method="HEAD")

        @spider.page
        def thing(page):
            handled[page.header("x-m")] = page.body

        await web.crawl(frontier, spider, fetch={"client": client})

    assert {one.method: one.body for one in web.asked if one.path == "/thing"} == sent
    assert handled == sent
