"""Quotas: what all jobs of a tenant may have together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from skitter.crawl.watch import Watcher
from skitter.errors import BadOption, QueueFull, QuotaReached, UsageError
from skitter.frontier import quotas
from skitter.frontier.dead import dead_letters
from skitter.frontier.feed import feed
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job, list_jobs, open_job, purge_job
from skitter.frontier.quotas import list_tenants, remove_tenant, set_tenant, uses_of
from skitter.frontier.records.failed import retry
from skitter.frontier.transport.connection import Server
from skitter.frontier.transport.keys import TENANTS
from skitter.model import Added, Completion, Failure, Request, State
from skitter.settings import JobOptions, Layout, Limits, Politeness

DAY_MS = 86_400_000


@pytest.fixture
async def tenant(server: Server, job: str) -> AsyncIterator[str]:
    """A pattern that no job of another test matches."""
    pattern = f"{job}-*"
    yield pattern
    await server.command("HDEL", TENANTS, pattern)


class Clock:
    def __init__(self) -> None:
        self.ms = 20_000 * DAY_MS + 1000

    def __call__(self) -> int:
        return self.ms


async def made(server: Server, job: str, clock: Clock | None = None, shards: int = 1) -> Frontier:
    """A job that hands out everything at once."""
    options = JobOptions(politeness=Politeness(delay_s=0, max_in_flight=1000))
    return await create_job(server, job, options=options, layout=Layout(shards=shards), clock=clock)


def requests(first: int, last: int) -> list[Request]:
    return [Request(f"http://h{n % 7}.example/{n}") for n in range(first, last)]


async def used(server: Server, tenant: str) -> dict[str, int]:
    mine = [one for one in await list_tenants(server) if one.jobs == tenant]
    return {use.quota: use.used for use in await uses_of(server, mine)}


async def test_jobs_of_a_tenant_are_counted_and_the_one_too_many_is_refused(server, job, tenant):
    await set_tenant(server, tenant, {"max_jobs": 2})
    one, two = await made(server, f"{job}-1"), await made(server, f"{job}-2")

    with pytest.raises(QuotaReached, match=r"there are 2 jobs .*: `skitter tenant set '.*' --max-"):
        await made(server, f"{job}-3")
    assert f"{job}-3" not in await list_jobs(server)
    await made(server, f"{job}-2")  # there already
    await made(server, f"other-{job}-3")  # of nobody
    await purge_job(two)
    await made(server, f"{job}-3")
    assert (await used(server, tenant))["max_jobs"] == 2
    assert (await one.stats()).state is State.RUNNING


async def test_two_jobs_that_come_together_are_not_both_the_last(server, job, tenant):
    await set_tenant(server, tenant, {"max_jobs": 3})

    made_together = (made(server, f"{job}-{n}") for n in range(12))
    said = await asyncio.gather(*made_together, return_exceptions=True)

    assert sum(isinstance(one, Frontier) for one in said) == 3
    assert sum(isinstance(one, QuotaReached) for one in said) == 9


async def test_the_jobs_of_a_tenant_share_the_room_for_waiting_urls(server, job, tenant):
    await set_tenant(server, tenant, {"max_pending": 10})
    one, two = await made(server, f"{job}-1"), await made(server, f"{job}-2", shards=3)

    assert (await one.add(requests(0, 7))).count(Added.NEW) == 7
    said = await two.add(requests(0, 7))
    assert (said.count(Added.NEW), said.count(Added.FULL)) == (3, 4)
    with pytest.raises(QueueFull, match=r"jobs .*-\* have the 10 waiting URLs .*0 of these"):
        await feed(one, [one.offer(Request("http://new.example/"))], wait=False)
    assert await one.add(requests(90, 95), links=True) == [Added.NEW] * 5  # never lost


async def test_room_comes_back_as_pages_are_done(server, job, tenant, monkeypatch):
    monkeypatch.setattr(quotas, "COUNTED_S", 0.0)
    await set_tenant(server, tenant, {"max_pending": 4})
    one = await made(server, f"{job}-1")
    await one.add(requests(0, 4))

    leased = await one.lease(3)
    await one.complete([Completion(lease=lease) for lease in leased.leases])

    assert (await one.add(requests(4, 9))).count(Added.NEW) == 3


async def test_known_urls_take_up_no_room(server, job, tenant):
    await set_tenant(server, tenant, {"max_pending": 10})
    one = await made(server, f"{job}-1")
    await one.add(requests(0, 5))

    assert await one.add(requests(0, 5)) == [Added.SEEN] * 5
    assert (await one.add(requests(5, 10))).count(Added.NEW) == 5


async def test_dead_letters_come_back_as_far_as_there_is_room(server, job, tenant, monkeypatch):
    monkeypatch.setattr(quotas, "COUNTED_S", 0.0)
    await set_tenant(server, tenant, {"max_pending": 10})
    one = await made(server, f"{job}-1")
    await one.add(requests(0, 8))
    leased = await one.lease(8)
    await one.bury([Failure(lease=lease, error="404") for lease in leased.leases])
    await one.add(requests(8, 13))

    letters = [letter async for letter in dead_letters(one)]
    with pytest.raises(QueueFull, match=r"5 of these went in"):
        await retry(one, letters)
    stats = await one.stats()
    assert (stats.pending, stats.dead) == (10, 3)


async def test_a_quota_that_has_just_had_room_again_is_named(server, job, tenant):
    """Counts are up to a second old: a push may find a quota reached that is not any more."""
    await set_tenant(server, tenant, {"max_pending": 3})
    one = await made(server, f"{job}-1")
    await one.add(requests(0, 3))
    await one.complete([Completion(lease=lease) for lease in (await one.lease(3)).leases])

    with pytest.raises(QueueFull, match=r"jobs .*-\* have the 3 waiting URLs .*0 of these"):
        await feed(one, [one.offer(request) for request in requests(3, 4)], wait=False)


async def test_a_push_of_many_tasks_does_not_pass_the_quota(server, job, tenant):
    await set_tenant(server, tenant, {"max_pending": 50})
    one = await made(server, f"{job}-1")

    parts = (one.add(requests(20 * n, 20 * n + 20)) for n in range(10))
    said = [answer for part in await asyncio.gather(*parts) for answer in part]

    assert said.count(Added.NEW) == 50 == (await one.stats()).pending


async def test_a_days_pages_are_shared_by_jobs_and_processes_and_never_passed(server, job, tenant):
    clock = Clock()
    await set_tenant(server, tenant, {"max_pages_per_day": 20})
    one, two = await made(server, f"{job}-1", clock), await made(server, f"{job}-2", clock, 3)
    again = await open_job(server, f"{job}-1", clock=clock)
    for frontier in (one, two):
        await frontier.add(requests(0, 40))

    async def take(frontier: Frontier) -> int:
        found = 0
        while leases := (await frontier.lease(3)).leases:
            await frontier.complete([Completion(lease=lease) for lease in leases])
            found += len(leases)
        return found

    assert sum(await asyncio.gather(take(one), take(two), take(again))) == 20
    leased = await one.lease(3)
    assert (leased.leases, leased.state) == ([], State.RUNNING)
    assert leased.again_in_s == pytest.approx(86_399, abs=2)
    restarted = await open_job(server, f"{job}-2", clock=clock)
    assert (await restarted.lease(3)).leases == []
    clock.ms += DAY_MS  # tomorrow
    assert sum(await asyncio.gather(take(one), take(two))) == 20


async def test_what_was_not_there_to_begin_is_left_to_others(server, job, tenant):
    clock = Clock()
    await set_tenant(server, tenant, {"max_pages_per_day": 10})
    one, two = await made(server, f"{job}-1", clock), await made(server, f"{job}-2", clock)
    await one.add(requests(0, 2))
    await two.add(requests(0, 20))

    assert len((await one.lease(10)).leases) == 2
    assert len((await two.lease(10)).leases) == 8


async def test_leases_that_are_returned_can_be_begun_by_others_on_the_same_day_only(
    server, job, tenant
):
    clock = Clock()
    await set_tenant(server, tenant, {"max_pages_per_day": 10})
    one, two = await made(server, f"{job}-1", clock), await made(server, f"{job}-2", clock)
    for frontier in (one, two):
        await frontier.add(requests(0, 40))
    leased = (await one.lease(10, in_company=True)).leases

    await one.release(leased[:4])
    assert len((await two.lease(10)).leases) == 4
    clock.ms += DAY_MS
    assert len((await two.lease(7)).leases) == 7
    await one.release(leased[4:])
    assert len((await two.lease(9)).leases) == 3


async def test_what_is_given_back_on_the_next_day_does_not_add_to_that_day(server, job, tenant):
    clock = Clock()
    await set_tenant(server, tenant, {"max_pages_per_day": 10})
    one = await made(server, f"{job}-1", clock)
    await one.quotas.refresh()
    granted = await one.quotas.take(8)
    clock.ms += DAY_MS
    assert (await one.quotas.take(10)).pages == 10

    await one.quotas.give_back(8, granted.day)

    assert (await one.quotas.take(1)).pages == 0


async def test_a_job_whose_tenant_has_no_pages_left_still_hears_that_it_was_cancelled(
    server, job, tenant
):
    await set_tenant(server, tenant, {"max_pages_per_day": 1})
    one = await made(server, f"{job}-1")
    await one.add(requests(0, 5))
    assert len((await one.lease(5)).leases) == 1

    await one.home.control([("state", "cancel")], create=0)

    assert (await one.lease(5)).state is State.CANCELLED


async def test_a_quota_that_is_used_up_is_told_and_is_no_stuck_crawl(server, job, tenant):
    await set_tenant(server, tenant, {"max_pages_per_day": 2, "max_jobs": 5})
    one = await made(server, f"{job}-1")
    await one.add(requests(0, 5))
    await one.lease(5)

    look = await Watcher(server).look(f"{job}-1")

    assert [(use.quota, use.used, use.limit) for use in look.quotas] == [
        ("max_jobs", 1, 5),
        ("max_pages_per_day", 2, 2),
    ]
    assert any("2 pages that their quota gives them a day" in note for note in look.notes)
    assert "stuck" not in {trouble.kind for trouble in look.troubles}


async def test_a_new_quota_is_obeyed_by_running_processes_and_a_removed_one_is_not(
    server, job, tenant, monkeypatch
):
    monkeypatch.setattr(quotas, "FRESH_S", 0.0)
    one = await made(server, f"{job}-1")
    await one.add(requests(0, 9))
    assert len((await one.lease(1)).leases) == 1

    await set_tenant(server, tenant, {"max_pages_per_day": 3})
    assert len((await one.lease(9)).leases) == 3
    await set_tenant(server, tenant, {"max_pages_per_day": 4})
    assert len((await one.lease(9)).leases) == 1
    await remove_tenant(server, tenant)
    assert len((await one.lease(9)).leases) == 4


async def test_a_tenant_keeps_what_a_newer_release_has_set(server, tenant):
    await server.command("HSET", TENANTS, tenant, b'{"max_jobs": 3, "max_fun": 7}')

    await set_tenant(server, tenant, {"max_jobs": None, "max_pending": 5})

    assert await server.command("HGET", TENANTS, tenant) == (
        b'{"max_jobs":null,"max_fun":7,"max_pending":5}'
    )


async def test_nonsense_is_refused_and_an_unreadable_record_stops_nobody(server, job, tenant):
    with pytest.raises(BadOption, match="max_jobs"):
        await set_tenant(server, tenant, {"max_jobs": 0})
    with pytest.raises(BadOption, match="pattern"):
        await set_tenant(server, "", {"max_jobs": 1})
    with pytest.raises(UsageError, match="no tenant"):
        await remove_tenant(server, tenant)
    await server.command("HSET", TENANTS, tenant, b"{")
    await made(server, f"{job}-1")


async def test_limits_of_the_job_itself_hold_beside_a_quota(server, job, tenant):
    await set_tenant(server, tenant, {"max_pages_per_day": 5})
    options = JobOptions(
        politeness=Politeness(delay_s=0, max_in_flight=9), limits=Limits(max_pages=2)
    )
    one = await create_job(server, f"{job}-1", options=options)
    await one.add(requests(0, 9))

    assert len((await one.lease(9)).leases) == 2
    assert (await used(server, tenant))["max_pages_per_day"] == 2
