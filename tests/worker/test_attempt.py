"""One request, from robots.txt to its outcome."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from attempts import attempts_of
from skitter.engine.attempt import Attempts
from skitter.engine.verdict import Policy
from skitter.engine.visit import Buried, Completed, Retried, Returned
from skitter.errors import (
    ConnectFailed,
    ConnectRefused,
    NamesUnavailable,
    ServerRefused,
    ServerUnreachable,
)
from skitter.fetch import RobotsRules
from skitter.fetch.http.fetcher import StaticFetcher
from skitter.frontier.control import change_options
from skitter.model import Feedback, Request, Response
from skitter.settings import JobOptions, Politeness
from skitter.spider import Spider

ROOT = "https://a.test/"


def make_attempts(pages: dict[str, Any], **parts: Any) -> Attempts:
    spider = Spider("s", start=[ROOT])

    @spider.page
    def page(page):
        yield {"url": page.url}
        yield from page.follow_all()

    if on_error := parts.pop("on_error", None):
        spider.on_error(on_error)
    return attempts_of(spider, StaticFetcher(pages), **parts)


def redirect(url: str, to: str, status: int = 301) -> Response:
    return Response(url=url, status=status, headers=(("location", to),))


async def lease_of(frontier, **request):
    await frontier.add([Request(**{"url": ROOT, **request})])
    return (await frontier.lease(1)).leases[0]


def learned_of(outcome) -> Feedback:
    """About the host, not about the page."""
    ended: Any = outcome.completion if isinstance(outcome, Completed) else outcome.failure
    learned: Feedback = msgspec.structs.replace(ended.feedback, page="")
    return learned


async def test_a_page_becomes_items_and_links(frontier):
    attempts = make_attempts({ROOT: b"<a href='/1'>one</a><a href='https://b.test/'>out</a>"})

    outcome = await attempts.make(await lease_of(frontier))

    assert isinstance(outcome, Completed)
    assert list(outcome.completion.items) == [{"url": ROOT}]
    assert [link.url for link in outcome.completion.links] == ["https://a.test/1"]


async def test_what_the_operator_excludes_is_set_aside_before_it_is_fetched(frontier):
    attempts = make_attempts({})  # whoever asks for a page fails
    attempts.parts.limits = lambda: frontier.options.limits
    lease = await lease_of(frontier, url="https://a.test/private/1?x=2")
    await change_options(frontier, {"exclude": "/public/* /private/*"})

    outcome = await attempts.make(lease)

    assert isinstance(outcome, Buried)
    assert outcome.failure.error == "it matches '/private/*' of the option exclude"
    assert outcome.failure.excluded_by == frontier.options.limits.patterns


async def test_what_the_operator_lets_in_is_followed_from_the_next_page_on(frontier):
    body = b"<a href='https://docs.b.test/1'>b</a><a href='https://c.test/'>c</a>"
    moved = redirect("https://a.test/moved", "https://b.test/2")
    attempts = make_attempts({ROOT: body, "https://a.test/moved": moved})
    attempts.parts.limits = lambda: frontier.options.limits
    first, second = [await lease_of(frontier, url=url) for url in (ROOT, "https://a.test/moved")]
    await change_options(frontier, {"also_hosts": "*.b.test"})

    for lease, link in ((first, "https://docs.b.test/1"), (second, "https://b.test/2")):
        outcome = await attempts.make(lease)
        assert isinstance(outcome, Completed)
        assert [one.url for one in outcome.completion.links] == [link]


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


async def test_a_rest_that_a_redirect_asks_for_travels_with_its_link(frontier):
    moved = Response(url=ROOT, status=302, headers=(("location", "/new"), ("retry-after", "9")))
    attempts = make_attempts({ROOT: moved})

    outcome = await attempts.make(await lease_of(frontier))

    assert isinstance(outcome, Completed)
    assert learned_of(outcome) == Feedback(rest_ms=9000)


async def test_to_another_spelling_of_itself_a_page_is_followed_after_the_rest(frontier):
    headers = (("location", "/?utm_source=x"), ("retry-after", "9"))
    attempts = make_attempts({ROOT: Response(url=ROOT, status=302, headers=headers)})

    outcome = await attempts.make(await lease_of(frontier))

    assert isinstance(outcome, Retried)
    assert (outcome.failure.after_s, learned_of(outcome)) == (9, Feedback(rest_ms=9000))


@pytest.mark.parametrize(
    ("answer", "learned"),
    [
        (Response(url=ROOT, status=429), Feedback(incident=429, latency_ms=0)),
        (Response(url=ROOT, status=503), Feedback(incident=503)),
        (Response(url=ROOT, status=502), Feedback()),
        (Response(url=ROOT, status=404, elapsed_s=0.25), Feedback(latency_ms=250)),
        (Response(url=ROOT, status=200, elapsed_s=0.25), Feedback(latency_ms=250)),
        (ConnectRefused(ROOT, "nothing listens on that port"), Feedback(incident=1)),
        (ConnectFailed(ROOT, "the name does not resolve"), Feedback()),
    ],
)
async def test_what_an_answer_says_about_its_host_is_sent_with_the_end(
    make_frontier, answer, learned
):
    frontier = await make_frontier(JobOptions(politeness=Politeness(delay_s=1)))
    outcome = await make_attempts({ROOT: answer}).make(await lease_of(frontier))

    assert learned_of(outcome) == learned


async def test_a_page_waits_while_no_name_can_be_looked_up(frontier):
    said: list[str] = []
    attempts = make_attempts(
        {ROOT: NamesUnavailable(ROOT)}, log=lambda level, text: said.append(text)
    )
    lease = await lease_of(frontier)

    outcomes = [await attempts.make(lease) for _ in range(3)]

    assert outcomes == [Returned(lease, waits=True)] * 3
    assert said == ["the name server does not answer: pages wait until it does"]
    rules = RobotsRules.unreachable("the name server does not answer", at=0)
    attempts = make_attempts({}, obey_robots=True)
    attempts.parts.robots._remember("a.test", rules, 60)
    assert await attempts.make(lease) == Returned(lease, waits=True)
    gone = RobotsRules.unreachable("host not found: a.test", at=0)
    attempts.parts.robots._remember("a.test", gone, 60)
    retried = await attempts.make(lease)
    assert isinstance(retried, Retried)
    assert retried.failure.error == "host not found: a.test"


async def test_of_a_host_without_a_delay_no_latency_is_sent(frontier):
    outcome = await make_attempts({ROOT: b"page"}).make(await lease_of(frontier))

    assert learned_of(outcome) == Feedback()


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
    attempts.parts.policy = Policy(accept=("text/html",))

    outcome = await attempts.make(await lease_of(frontier))

    assert isinstance(outcome, Completed)
    assert (outcome.completion.items, outcome.skipped) == (
        (),
        "image/png is not a wanted content type",
    )


async def test_trouble_on_the_way_is_retried_and_a_hook_that_fails_costs_nothing(frontier):
    def hook(request, error):
        raise RuntimeError("a bug of the user's")

    attempts = make_attempts({ROOT: ConnectFailed(ROOT, "refused")}, on_error=hook)

    outcome = await attempts.make(await lease_of(frontier))

    assert isinstance(outcome, Retried)
    assert "refused" in outcome.failure.error


@pytest.mark.parametrize("error", [ServerRefused("no rights"), ServerUnreachable("away")])
async def test_trouble_with_our_own_server_costs_the_page_nothing(frontier, error):
    attempts, lease = make_attempts({ROOT: error}), await lease_of(frontier)

    assert await attempts.make(lease) == Returned(lease)
