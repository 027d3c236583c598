"""One request, from robots.txt to its outcome."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.engine.memory import RequestMemory
from skitter.errors import ConnectFailed
from skitter.fetch.static import StaticFetcher
from skitter.model import Request, Response
from skitter.spider import Spider
from skitter.worker.attempt import Attempts
from skitter.worker.outcomes import Buried, Completed, Retried
from skitter.worker.verdict import Policy

ROOT = "https://a.test/"


def make_attempts(pages: dict[str, Any]) -> Attempts:
    spider = Spider("s", start=[ROOT])

    @spider.page
    def page(page):
        yield {"url": page.url}
        yield from page.follow_all()

    return Attempts(spider, StaticFetcher(pages), None, RequestMemory(), lambda level, text: None)


def redirect(url: str, to: str, status: int = 301) -> Response:
    return Response(url=url, status=status, headers=(("location", to),))


async def lease_of(frontier, **request):
    await frontier.add([Request(**{"url": ROOT, **request})])
    return (await frontier.lease(1)).leases[0]


async def test_a_page_becomes_items_and_links(frontier):
    attempts = make_attempts({ROOT: b"<a href='/1'>one</a><a href='https://b.test/'>out</a>"})

    outcome = await attempts.make(await lease_of(frontier))

    assert isinstance(outcome, Completed)
    assert list(outcome.completion.items) == [{"url": ROOT}]
    assert [link.url for link in outcome.completion.links] == ["https://a.test/1"]


async def test_a_redirect_is_a_link_that_keeps_handler_and_depth(frontier):
    attempts = make_attempts({ROOT: redirect(ROOT, "/new")})

    outcome = await attempts.make(await lease_of(frontier, depth=3, handler="page"))

    assert isinstance(outcome, Completed)
    [link] = outcome.completion.links
    assert (link.url, link.depth, link.handler) == ("https://a.test/new", 3, "page")


@pytest.mark.parametrize("to", ["/?utm_source=x", "/#part", "/?b=1&a=2"])
async def test_a_redirect_to_what_counts_as_the_same_page_is_followed_at_once(frontier, to):
    asked = ROOT if "b=1" not in to else "https://a.test/?a=2&b=1"
    target = "https://a.test" + to
    attempts = make_attempts({asked: redirect(asked, to), target: b"here", ROOT + "x": b""})

    outcome = await attempts.make(await lease_of(frontier, url=asked))

    assert isinstance(outcome, Completed)
    assert len(outcome.completion.items) == 1


async def test_a_redirect_between_two_spellings_for_ever_is_given_up(frontier):
    one, two = ROOT + "?utm_source=1", ROOT + "?utm_source=2"
    attempts = make_attempts({one: redirect(one, two), two: redirect(two, one)})

    outcome = await attempts.make(await lease_of(frontier, url=one))

    assert isinstance(outcome, Buried)
    assert outcome.failure.error == f"redirect loop: {one} -> {two} -> {one}"


async def test_a_loop_over_two_pages_ends_as_an_error_at_the_second(frontier):
    one, two = ROOT, ROOT + "two"
    attempts = make_attempts({one: redirect(one, two), two: redirect(two, one)})
    first = await attempts.make(await lease_of(frontier))
    assert isinstance(first, Completed)
    await frontier.complete([first.completion])

    second = await attempts.make((await frontier.lease(1)).leases[0])

    assert isinstance(second, Buried)
    assert second.failure.error == f"redirect loop: {one} -> {two} -> {one}"


async def test_a_page_of_an_unwanted_type_is_done_without_its_handler(frontier):
    picture = Response(url=ROOT, status=200, headers=(("content-type", "image/png"),))
    attempts = make_attempts({ROOT: picture})
    attempts.policy = Policy(accept=("text/html",))

    outcome = await attempts.make(await lease_of(frontier))

    assert isinstance(outcome, Completed)
    assert (outcome.completion.items, outcome.skipped) == ((), "image/png is not wanted")


async def test_trouble_on_the_way_is_retried_and_a_hook_that_fails_costs_nothing(frontier):
    attempts = make_attempts({ROOT: ConnectFailed(ROOT, "refused")})

    @attempts.spider.on_error
    def hook(request, error):
        raise RuntimeError("a bug of the user's")

    outcome = await attempts.make(await lease_of(frontier))

    assert isinstance(outcome, Retried)
    assert "refused" in outcome.failure.error
