"""max_pages over many shards: exact, whoever asks, and whatever gets lost on the way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from conftest import rude
from skitter.frontier import totals
from skitter.frontier.audit.auditor import audit
from skitter.frontier.audit.why import why
from skitter.frontier.control import configure
from skitter.frontier.frontier import Frontier
from skitter.frontier.records.health import day_note, find_warnings
from skitter.frontier.transport.shard import Shard
from skitter.model import Completion, Failure, Feedback, Request
from skitter.settings import Layout
from skitter.urls import shard_of

SHARDS = 3


def page(shard: int, number: int) -> Request:
    """A page that lives in that shard."""
    host = next(f"h{n}.test" for n in range(99) if shard_of(f"h{n}.test", SHARDS) == shard)
    return Request(url=f"https://{host}/{number}")


def site(*sizes: int) -> list[Request]:
    """So many pages in each shard."""
    return [page(shard, n) for shard, size in enumerate(sizes) for n in range(size)]


@pytest.fixture
def make(make_frontier):
    async def make(max_pages: int | None = None) -> Any:
        return await make_frontier(rude(max_pages=max_pages), Layout(shards=SHARDS))

    return make


async def crawl(frontier: Frontier, *, batch: int) -> int:
    """Complete all that is handed out. Returns how many that were."""
    done = 0
    while leases := (await frontier.lease(batch)).leases:
        done += len(await frontier.complete([Completion(lease=lease) for lease in leases]))
    return done


@pytest.mark.parametrize("batch", [1, 2, 7, 60])
@pytest.mark.parametrize(
    ("sizes", "done"), [((90, 9, 2), 57), ((0, 0, 90), 57), ((20, 20, 20), 57), ((20, 3, 9), 32)]
)
async def test_exactly_so_many_pages_are_done_wherever_they_are(make, sizes, done, batch):
    frontier = await make(max_pages=57)
    await frontier.add(site(*sizes))

    assert await crawl(frontier, batch=batch) == done

    stats = await frontier.stats()
    assert (stats.done, stats.crawled) == (done, True)
    report = await audit(frontier)
    assert (report.problems, report.unchecked) == (set(), [])


async def test_many_clients_at_once_lease_no_more_than_the_limit(make, make_frontier):
    frontier = await make(max_pages=57)
    clients = [frontier, *[await make_frontier() for _ in range(5)]]
    await frontier.add(site(80, 40, 1))

    for _ in range(10):
        await asyncio.gather(*(client.lease(9) for client in clients))

    assert (await frontier.stats()).leased == 57
    assert (await audit(frontier)).clean


async def test_a_day_has_so_many_pages_whoever_asks_and_the_next_one_as_many(make_frontier, clock):
    limited = rude(max_pages_per_day=6)
    frontier, other = await make_frontier(limited), await make_frontier()
    await frontier.add([Request(url=f"https://h{n}.test/") for n in range(20)])
    held = (await other.lease(2)).leases  # in flight, which counts

    assert await crawl(frontier, batch=3) == 4
    nothing = await frontier.lease(5)
    assert nothing.leases == []
    assert await other.complete([Completion(lease=lease) for lease in held])
    stats = await frontier.stats()
    assert (stats.today, stats.done, stats.crawled) == (6, 6, False)
    assert (
        "the day's budget is spent until 00:00 UTC: 6 pages"
        in (await why(frontier, "https://h19.test/")).because
    )
    assert "today's 6 pages are done (max_pages_per_day=6): it goes on at 00:00 UTC" in (
        await find_warnings(frontier, stats)
    )
    waits_s = (await frontier.lease(5)).again_in_s
    assert waits_s == 86_400 - clock() / 1000 % 86_400

    clock.advance(waits_s - 1)
    assert await crawl(frontier, batch=3) == 0
    clock.advance(1)
    assert (await frontier.stats()).today == 0
    assert await crawl(frontier, batch=4) == 6
    await configure(frontier, rude(max_pages_per_day=None))
    assert await crawl(frontier, batch=4) == 8
    assert (await audit(frontier)).clean


async def test_shards_share_the_pages_of_a_day(make_frontier):
    frontier = await make_frontier(rude(max_pages_per_day=11), Layout(shards=SHARDS))
    await frontier.add(site(9, 9, 9))
    assert await crawl(frontier, batch=4) == 9  # 3 each: never more than 11
    assert day_note(frontier, await frontier.stats()).startswith("today's 9 pages are done")


async def test_pages_that_are_buried_do_not_count(make):
    frontier = await make(max_pages=10)
    await frontier.add(site(10, 10, 10))
    leases = (await frontier.lease(10)).leases
    await frontier.bury([Failure(lease=lease, error="gone") for lease in leases[3:]])

    assert await crawl(frontier, batch=4) == 7


async def test_a_share_of_a_shard_whose_hosts_must_wait_goes_to_the_others(make, clock):
    frontier = await make(max_pages=10)
    await frontier.add(site(50, 0, 0))
    await frontier.complete(
        [
            Completion(lease=lease, feedback=Feedback(rest_ms=60_000))
            for lease in (await frontier.lease(3)).leases
        ]
    )
    await frontier.add(site(0, 50, 0))

    assert await crawl(frontier, batch=6) == 9
    assert (await frontier.stats()).done == 10


async def test_a_raised_limit_is_used_and_a_lowered_one_obeyed(make, make_frontier):
    frontier = await make(max_pages=5)
    worker = await make_frontier()
    await frontier.add(site(50, 50, 50))
    assert await crawl(worker, batch=6) == 5

    await configure(frontier, rude(max_pages=30))
    assert len((await worker.lease(12)).leases) == 12
    await configure(frontier, rude(max_pages=20))
    assert len((await worker.lease(12)).leases) == 3
    await configure(frontier, rude(max_pages=10))

    assert (await worker.lease(12)).leases == []
    assert (await audit(frontier)).clean


async def test_a_limit_that_is_set_late_counts_what_was_done_before(make, make_frontier):
    frontier = await make()
    worker = await make_frontier()
    await frontier.add(site(50, 50, 50))
    leases = (await worker.lease(30)).leases
    await frontier.complete([Completion(lease=lease) for lease in leases[:20]])

    await configure(frontier, rude(max_pages=35))

    assert len((await worker.lease(30)).leases) == 5
    await configure(frontier, rude())
    assert len((await worker.lease(30)).leases) == 30
    await configure(frontier, rude(max_pages=70))
    assert len((await worker.lease(30)).leases) == 5
    assert (await audit(frontier)).clean


@pytest.fixture
def count_calls(monkeypatch):
    """The verbs that were called, in order."""
    verbs: list[str] = []
    call = Shard.call

    async def counted(self, verb, *args, **values):
        verbs.append(verb)
        return await call(self, verb, *args, **values)

    monkeypatch.setattr(Shard, "call", counted)
    return verbs


async def test_a_shard_with_enough_asks_nobody(make, count_calls):
    frontier = await make(max_pages=100_000)
    await frontier.add(site(40, 40, 40))
    await frontier.lease(3)
    count_calls.clear()

    for _ in range(9):
        assert len((await frontier.lease(6)).leases) == 6

    assert count_calls == ["lease"] * 9 * SHARDS


async def test_a_spent_limit_costs_no_second_round(make, count_calls):
    frontier = await make(max_pages=6)
    await frontier.add(site(40, 40, 40))
    await frontier.lease(6)
    count_calls.clear()

    assert (await frontier.lease(6)).leases == []

    assert count_calls == ["lease"] * SHARDS + ["allow"] * SHARDS + ["grant"]


@pytest.mark.parametrize("step", range(1, 8))
async def test_a_client_that_dies_at_any_step_takes_no_page_with_it(
    make, make_frontier, monkeypatch, step
):
    """The one that asks for more dies after so many of its calls, each of which arrived."""
    frontier, victim = await make(max_pages=12), await make_frontier()
    await frontier.add(site(9, 9, 0))
    await frontier.complete(
        [Completion(lease=lease) for lease in (await frontier.lease(8)).leases[:4]]
    )
    dying = victim.client
    call, calls = Shard.call, iter(range(1, 99))

    async def deadly(self, verb, *args, **values):
        answer = await call(self, verb, *args, **values)
        if self.client == dying and verb in ("allow", "grant") and next(calls) >= step:
            raise asyncio.CancelledError
        return answer

    async def lease_until_death():
        while True:
            await victim.lease(3)

    monkeypatch.setattr(Shard, "call", deadly)
    with pytest.raises(asyncio.CancelledError):
        await lease_until_death()
    lost = (await frontier.stats()).leased

    assert await crawl(frontier, batch=5) == 12 - 4 - lost
    assert (await audit(frontier)).clean


async def test_a_limit_that_only_some_shards_know_grants_nothing(make):
    frontier = await make(max_pages=9)
    await frontier.add(site(5, 5, 5))
    await frontier.shards[2].call("control", ["max_pages", ""], create=0)

    assert await totals.refill(frontier.shards, {0: 5}) == []


async def test_why_knows_that_the_limit_of_all_shards_is_spent(make):
    frontier = await make(max_pages=4)
    await frontier.add(site(0, 9, 9))
    await crawl(frontier, batch=4)
    left = [page.url for page in site(0, 9, 9) if (await why(frontier, page.url)).state != "done"]

    told = (await why(frontier, left[0])).because

    assert len(left) == 14
    assert "the crawl's budget is spent: 4 pages (max_pages)" in told


#: In which shard, a command, its key and what follows; and what the audit says of it.
DAMAGE: dict[str, tuple[int, list[Any], str]] = {
    "a share that is too small": (1, ["HINCRBY", "stats", "granted", -3], "but was granted 0"),
    "a budget that took too much": (0, ["HSET", "pot", "ceded:1", 9], "but 9 were taken back"),
    "a budget that gave too much": (
        0,
        ["HINCRBY", "pot", "granted:1", 90],
        "granted 99 pages, over the limit of 9",
    ),
    "a budget in words": (0, ["HSET", "pot", "granted:1", "few"], "has 'few' for granted:1"),
}


@pytest.mark.parametrize("name", DAMAGE)
async def test_damage_to_the_shares_is_found_and_named(make, name):
    shard, (command, key, *words), expected = DAMAGE[name]
    frontier = await make(max_pages=9)
    await frontier.add(site(3, 3, 3))
    assert len((await frontier.lease(9)).leases) == 9
    keys = frontier.shards[shard].keys
    await frontier.server.command(command, keys.prefix + key, *words)

    said = [problem.says for problem in (await audit(frontier)).problems]

    assert any(expected in says for says in said), said
