"""Lanes: pages for a browser wait beside those for plain HTTP; a host has one clock for both."""

import pytest

from skitter.errors import BadOption
from skitter.frontier.audit.auditor import audit
from skitter.frontier.delays import Departure
from skitter.model import Completion, Feedback, Lane, Request
from skitter.settings import JobOptions, Layout, Limits, Politeness, Retries

PLAIN = Request("https://a.test/plain")
RENDERED = Request("https://a.test/rendered", lane="browser")
POLITE = JobOptions(politeness=Politeness(delay_s=10, latency_factor=0))


async def take(frontier, lane: Lane = "", limit: int = 10):
    return (await frontier.lease(limit, lane=lane, ttl_s=1000)).leases


async def urls(frontier, lane: Lane = ""):
    return [one.url for one in await take(frontier, lane)]


async def is_sound(frontier) -> bool:
    report = await audit(frontier)
    assert report.problems == set()
    return True


async def test_a_lane_gets_its_own_requests_and_no_others(frontier):
    await frontier.add([PLAIN, RENDERED])
    assert await urls(frontier, "browser") == [RENDERED.url]
    assert await urls(frontier) == [PLAIN.url]
    assert await urls(frontier) == await urls(frontier, "browser") == []
    assert await is_sound(frontier)


async def test_a_lease_names_the_host_alone(frontier):
    await frontier.add([RENDERED])
    [lease] = await take(frontier, "browser")
    assert (lease.host, lease.request.lane) == ("a.test", "browser")
    await frontier.complete([Completion(lease=lease)])
    assert (await frontier.stats()).done == 1


async def test_the_same_page_in_another_lane_is_a_duplicate(frontier):
    await frontier.add([RENDERED, Request(RENDERED.url)])
    assert (await frontier.stats()).seen == 1


@pytest.mark.parametrize("first", ["", "browser"])
async def test_a_host_has_one_clock_for_its_lanes(make_frontier, clock, first: Lane):
    frontier = await make_frontier(POLITE)
    second: Lane = "browser" if first == "" else ""
    await frontier.add([PLAIN, RENDERED])
    assert len(await take(frontier, first)) == 1
    clock.advance(9)
    assert await take(frontier, second) == []
    assert await is_sound(frontier)
    clock.advance(1)
    assert len(await take(frontier, second)) == 1  # although the other is still under way
    assert await is_sound(frontier)


async def test_a_rest_that_one_lane_is_asked_for_holds_for_the_other(make_frontier, clock):
    frontier = await make_frontier(POLITE)
    await frontier.add([PLAIN, RENDERED])
    [lease] = await take(frontier, "browser")
    await frontier.complete([Completion(lease=lease, feedback=Feedback(rest_ms=60_000))])
    clock.advance(59)
    assert await take(frontier) == []
    clock.advance(1)
    assert len(await take(frontier)) == 1


async def test_a_request_that_leaves_late_puts_both_lanes_off(make_frontier, clock):
    frontier = await make_frontier(POLITE)
    await frontier.add([PLAIN, RENDERED])
    [lease] = await take(frontier, "browser")
    clock.advance(5)
    await frontier.depart([Departure(host=lease.host, ago_s=0)])
    clock.advance(9)
    assert await take(frontier) == []
    clock.advance(1)
    assert len(await take(frontier)) == 1


async def test_a_lease_that_runs_out_comes_back_in_its_lane(frontier, clock):
    await frontier.add([RENDERED])
    await take(frontier, "browser")
    clock.advance(1001)
    assert await urls(frontier) == []
    assert await urls(frontier, "browser") == [RENDERED.url]
    assert await is_sound(frontier)


async def test_lanes_of_a_host_live_in_one_shard(make_frontier):
    options = JobOptions(politeness=Politeness(delay_s=0))
    frontier = await make_frontier(options, Layout(shards=7))
    pages = [f"https://h{n}.test/" for n in range(20)]
    await frontier.add([Request(url, lane="browser") for url in pages])
    leases = await take(frontier, "browser", 100)
    assert sorted(one.url for one in leases) == sorted(pages)
    await frontier.complete([Completion(lease=one) for one in leases])
    assert (await frontier.stats()).done == 20
    assert await is_sound(frontier)


async def test_a_budget_of_pages_holds_over_both_lanes(make_frontier):
    options = JobOptions(
        politeness=Politeness(delay_s=0), retries=Retries(), limits=Limits(max_pages=1)
    )
    frontier = await make_frontier(options)
    await frontier.add([PLAIN, RENDERED])
    assert len(await take(frontier, "browser")) == 1
    assert await take(frontier) == []


async def test_there_is_no_other_lane(frontier):
    with pytest.raises(BadOption, match="browser, file, or empty"):
        await frontier.add([Request("https://a.test/", lane="fax")])  # type: ignore[arg-type]
