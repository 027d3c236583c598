"""Requests that leave by a clock which others share: jobs, or hosts at one address."""

from __future__ import annotations

import asyncio

import pytest

from skitter.engine.departures import HOLDS_S, TOLERANCE_S, Departures, SharedGate, TooEarly
from skitter.fetch.http.guard import Resolver
from skitter.frontier.jobs import create_job
from skitter.model import Request
from skitter.settings import JobOptions, Politeness
from skitter.spider import Spider
from web import Answer, Asked, serve_web


@pytest.fixture
def open_gate(server, job, clock):
    """Lease the one page of a job of its own, and open its gate."""

    async def make(name, url, *, lookup=None, **politeness):
        options = JobOptions(politeness=Politeness(**({"delay_s": 30.0} | politeness)))
        frontier = await create_job(server, f"{job}-{name}", options=options, clock=clock)
        await frontier.add([Request(url=url)])
        [lease] = (await frontier.lease(1)).leases
        resolver = Resolver(lookup=lookup) if lookup else None
        gate = Departures(frontier, resolver).gate(lease)
        assert isinstance(gate, SharedGate)
        return frontier, lease, gate

    return make


async def rests_s(frontier, lease):
    await frontier.release([lease])
    leased = await frontier.lease(1)
    return leased.again_in_s if not leased.leases else 0


async def test_two_jobs_that_share_keep_the_delay_of_a_host_together(open_gate, job, clock):
    url = f"https://{job}.test/"
    _, _, first = await open_gate("a", url, shared=True)
    other, lease, second = await open_gate("b", url, shared=True)
    await first.leave()
    await first.close()
    clock.advance(10)

    with pytest.raises(TooEarly):
        await second.leave()

    rest_s = await rests_s(other, lease)
    assert round(rest_s - 20 - TOLERANCE_S, 3) in HOLDS_S  # on a busy machine it asks again
    clock.advance(rest_s)
    await second.leave()


async def test_a_rest_that_one_job_was_asked_for_holds_in_the_other(open_gate, job):
    url = f"https://{job}.test/"
    _, _, first = await open_gate("a", url, shared=True, delay_s=0, max_in_flight=2)
    other, lease, second = await open_gate("b", url, shared=True, delay_s=0, max_in_flight=2)
    await first.leave()
    await second.leave()

    await first.rest(120)

    with pytest.raises(TooEarly):
        await second.leave()
    assert await rests_s(other, lease) == 120


async def test_hosts_at_one_address_share_a_clock_within_their_job(open_gate, job, clock):
    async def lookup(name):
        return {"a": ("10.9.9.9", "10.0.0.1"), "b": ("10.0.0.1",)}.get(name[0], ("10.0.0.2",))

    options = {"lookup": lookup, "per": "address"}
    _, _, first = await open_gate("same", "https://a.test/", **options)
    _, _, second = await open_gate("same", "https://b.test/", **options)
    _, _, third = await open_gate("same", "https://c.test/", **options)
    _, _, elsewhere = await open_gate("other", "https://a.test/", **options)
    await first.leave()

    with pytest.raises(TooEarly):
        await second.leave()
    await third.leave()
    await elsewhere.leave()


async def test_a_name_without_an_address_has_a_clock_of_its_own(open_gate):
    async def lookup(name):
        raise OSError(name)

    _, _, gate = await open_gate("a", "https://a.test/", lookup=lookup, per="address")

    await gate.leave()


async def test_the_clock_of_the_host_itself_counts_from_when_the_request_left(open_gate, clock):
    frontier, lease, gate = await open_gate("a", "https://a.test/", per="address")
    clock.advance(20)
    await gate.leave()

    await gate.departures.report([lease])

    assert (await rests_s(frontier, lease) or 0) > 29


async def test_two_jobs_that_share_have_no_more_under_way_than_one(open_gate, job):
    url = f"https://{job}.test/"
    _, _, first = await open_gate("a", url, shared=True, delay_s=0)
    other, lease, second = await open_gate("b", url, shared=True, delay_s=0)
    await first.leave()

    with pytest.raises(TooEarly):
        await second.leave()
    assert 0 < await rests_s(other, lease) < 1

    await first.close()
    await second.leave()


async def test_hosts_at_one_address_have_no_more_under_way_than_one_host(open_gate, job):
    async def lookup(name):
        return ("10.0.0.7",)

    options = {"lookup": lookup, "per": "address", "delay_s": 0, "max_in_flight": 2}
    gates = [await open_gate("x", f"https://{name}-{job}.test/", **options) for name in "abc"]
    (_, _, first), (_, _, second), (frontier, lease, third) = gates
    await first.leave()
    await second.leave()

    with pytest.raises(TooEarly):
        await third.leave()
    assert 0 < await rests_s(frontier, lease) < 1

    await first.close()
    await third.leave()


def follow(page):
    yield from page.follow_all()


async def test_two_crawls_that_share_never_ask_their_host_at_once(server, job):
    busy: list[int] = []

    async def slow(asked: Asked) -> Answer:
        busy.append(busy[-1] + 1 if busy else 1)
        await asyncio.sleep(0.02)
        busy.append(busy[-1] - 1)
        return Answer("".join(f"<a href=/{n}>" for n in range(5)))

    async def crawl(name: str) -> int:
        spider = Spider(name, [web.url()])
        spider.page(follow)
        polite = Politeness(delay_s=0.01, latency_factor=0, shared=True)
        frontier = await create_job(server, name, options=JobOptions(politeness=polite))
        await web.crawl(frontier, spider)
        return (await frontier.stats()).done

    async with serve_web(slow) as web:
        done = await asyncio.gather(crawl(f"{job}-a"), crawl(f"{job}-b"))

    assert [*done] == [6, 6]
    assert max(busy) == 1
