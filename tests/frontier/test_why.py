"""`why` tells where a URL is and what it waits for."""

from __future__ import annotations

import pytest

from skitter.errors import BadURL
from skitter.frontier.audit.why import why
from skitter.frontier.control import change_options, set_host, set_state
from skitter.model import Completion, Failure, Request, State
from skitter.settings import JobOptions, Limits, Politeness

URL = "https://a.test/page"


async def reasons(frontier, url=URL) -> str:
    return " / ".join((await why(frontier, url)).because)


async def test_an_unknown_url(frontier):
    found = await why(frontier, URL)

    assert found.state == "unknown"
    assert "it was never pushed" in " ".join(found.because)


async def test_no_url_at_all(frontier):
    with pytest.raises(BadURL):
        await why(frontier, "page")


async def test_a_pending_url_that_only_needs_a_worker(frontier):
    await frontier.add([Request(url=URL, parent="https://a.test/", depth=1, priority=3)])

    found = await why(frontier, URL + "#part")

    assert (found.state, found.found_on, found.depth) == ("pending", "https://a.test/", 1)
    assert f"it is the same page as {URL}" in found.because
    assert "it can be leased now: is a worker running?" in found.because


async def test_a_paused_job(frontier):
    await frontier.add([Request(url=URL)])
    await set_state(frontier, State.PAUSED)

    assert "the job is paused: run `skitter resume`" in await reasons(frontier)


async def test_a_host_that_rests(frontier):
    await frontier.add([Request(url=URL)])
    await set_host(frontier, "a.test", blocked_for_s=90)

    assert "the next request to its host may leave in 90.0 s" in await reasons(frontier)


async def test_a_page_for_a_browser(frontier):
    await frontier.add([Request(url=URL, lane="browser")])

    said = "it needs a browser: workers with --only http do not take it"
    assert said in await reasons(frontier)


async def test_a_long_wait_is_told_in_hours(frontier):
    await frontier.add([Request(url=URL)])
    await set_host(frontier, "a.test", blocked_for_s=21_600)

    assert "the next request to its host may leave in 6 h" in await reasons(frontier)


async def test_a_host_with_all_it_may_have_in_flight(make_frontier):
    frontier = await make_frontier(JobOptions(politeness=Politeness(delay_s=0)))
    await frontier.add([Request(url="https://a.test/first"), Request(url=URL)])
    await frontier.lease(1)

    assert "its host has 1 of 1 requests in flight" in await reasons(frontier)


async def test_budgets_that_are_spent(make_frontier):
    polite = Politeness(delay_s=0, max_in_flight=5)
    limits = Limits(max_pages=1, max_pages_per_host=1)
    frontier = await make_frontier(JobOptions(politeness=polite, limits=limits))
    await frontier.add([Request(url="https://a.test/first"), Request(url=URL)])
    [lease] = (await frontier.lease(5)).leases
    await frontier.complete([Completion(lease=lease)])

    said = await reasons(frontier)
    assert "its host's budget is spent: 1 pages" in said
    assert "the crawl's budget is spent: 1 pages (max_pages)" in said


async def test_a_leased_url_names_its_worker(frontier):
    await frontier.add([Request(url=URL)])
    await frontier.lease(1, ttl_s=30)

    worker = frontier.client
    assert f"worker {worker} has it; the lease ends in 30.0 s" in await reasons(frontier)


async def test_a_retry_names_the_error_and_the_moment(frontier):
    await frontier.add([Request(url=URL)])
    [lease] = (await frontier.lease(1)).leases
    await frontier.retry([Failure(lease=lease, error="timeout", after_s=12)])

    found = await why(frontier, URL)
    assert (found.state, found.failures, found.last_error) == ("delayed", 1, "timeout")
    assert "its next attempt is due in 12.0 s, after: timeout" in found.because


async def test_a_dead_url_names_the_reason(frontier):
    await frontier.add([Request(url=URL)])
    [lease] = (await frontier.lease(1)).leases
    await frontier.bury([Failure(lease=lease, error="404")])

    found = await why(frontier, URL)
    assert found.state == "dead"
    assert "given up at 2023-11-14 22:13:20 UTC: 404" in found.because[0]


async def test_a_finished_url(frontier):
    await frontier.add([Request(url=URL)])
    [lease] = (await frontier.lease(1)).leases
    await frontier.complete([Completion(lease=lease)])

    assert (await why(frontier, URL)).state == "done"


async def finish(frontier, lease, *urls):
    depth, parent = lease.request.depth + 1, lease.url
    links = [Request(url=url, depth=depth, parent=parent) for url in urls]
    await frontier.complete([Completion(lease=lease, links=links)])


async def test_a_link_beyond_max_depth_and_the_page_it_is_on(make_frontier):
    frontier = await make_frontier(JobOptions(limits=Limits(max_depth=1)))
    await frontier.add([Request(url="https://a.test/", depth=1)])
    [lease] = (await frontier.lease(1)).leases
    await finish(frontier, lease, "https://a.test/other", URL)

    found = await why(frontier, URL + "?utm_source=x")

    assert (found.state, found.depth, found.found_on) == ("refused", 2, "https://a.test/")
    assert found.because == [
        "it was found at depth 2, on https://a.test/",
        f"the limit is 1: raise it with `skitter set {frontier.job} --max-depth 2`",
    ]
    assert (await why(frontier, "https://a.test/never")).state == "unknown"


async def test_a_link_that_a_raised_limit_will_let_in(make_frontier):
    frontier = await make_frontier(JobOptions(limits=Limits(max_depth=1)))
    await frontier.add([Request(url="https://a.test/", depth=1)])
    [lease] = (await frontier.lease(1)).leases
    await finish(frontier, lease, URL)
    await change_options(frontier, {"max_depth": 2})

    assert "it will be offered again: is a worker running?" in await reasons(frontier)


async def test_a_pending_url_is_as_deep_as_the_shortest_way(make_frontier):
    frontier = await make_frontier(JobOptions(limits=Limits(max_depth=5)))
    await frontier.add([Request(url=URL, depth=4), Request(url=URL, depth=2)])

    assert (await why(frontier, URL)).depth == 2
