"""One look at a job: what everything that shows it shows."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from conftest import rude
from skitter.cli.show.progress import eta_of
from skitter.crawl.watch import WARM_UP_S, Overview, Rates, Watcher
from skitter.frontier.control import change_options, set_state
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import purge_job
from skitter.frontier.records.metrics import record
from skitter.frontier.sites.hosts import Bound, eta_s
from skitter.frontier.workers import Heartbeat, Wish, beat, set_wanted_workers
from skitter.model import Completion, Request, State, Stats
from skitter.observe.metrics import Batch
from skitter.settings import Layout


async def at_work(
    frontier: Frontier, name: str = "w", *, kind: str = "worker", **ago: float
) -> None:
    """A worker that began 100 seconds ago and did 2 pages a second, or as long `ago`."""
    now = await frontier.server_time()
    at, started_at = now - ago.get("at", 0), now - ago.get("started_at", 100)
    one = Heartbeat(name=name, host="h", pid=1, started_at=started_at, at=at, kind=kind, pages=200)
    await beat(frontier, one)


async def crawl(frontier: Frontier, pages: int, *, items: int = 0) -> None:
    leased = await frontier.lease(pages)
    assert len(leased.leases) == pages
    found = [{"n": n} for n in range(items)]
    await frontier.complete([Completion(lease=one, items=found) for one in leased.leases])


async def add(frontier: Frontier, pages: int) -> None:
    await frontier.add([Request(url=f"https://h{n}.test/") for n in range(pages)])


async def test_a_look_has_the_counts_and_what_is_not_among_them(frontier, server):
    await add(frontier, 3)
    await crawl(frontier, 1, items=2)
    await at_work(frontier)
    await at_work(frontier, "l", kind="loader")
    await set_wanted_workers(frontier, Wish(4))

    look = await Watcher(server).look_at(frontier)

    assert (look.pending, look.done, look.items, look.remaining) == (2, 1, 2, 2)
    assert look.processes == {"worker": 1, "loader": 1}
    assert (look.fetching, look.wanted_workers, look.silent_workers) == (1, 4, 0)
    assert look.elapsed_s == pytest.approx(100)


async def test_its_json_says_what_people_are_shown_and_what_the_operator_wants(frontier, server):
    await add(frontier, 1)
    await crawl(frontier, 1)

    shown = msgspec.to_builtins(await Watcher(server).look(frontier.job))

    assert (shown["state"], shown["wanted"]) == ("finished", "running")
    assert shown["eta_s"] is None


async def test_rates_are_those_between_two_looks_of_the_server_s_clock(frontier, server, clock):
    watcher = Watcher(server)
    await add(frontier, 60)
    await watcher.look_at(frontier)
    clock.advance(10)
    await crawl(frontier, 20, items=3)
    await at_work(frontier)

    look = await watcher.look_at(frontier)

    assert (look.pages_per_s, look.items_per_s) == (2.0, 6.0)
    assert look.eta_s == 20.0


def counted(done: int) -> Stats:
    return Stats(job="j", state=State.RUNNING, done=done)


def test_a_rate_is_over_the_last_seconds_and_of_the_workers_before():
    rates, crew = Rates(), [Heartbeat(name="w", host="h", pid=1, started_at=0, at=100, pages=200)]

    assert rates.update(counted(500), 100.0, crew) == (2.0, 0.0)  # nothing to compare it with
    twice = msgspec.structs.replace(counted(500), stored=1000)
    assert Rates().update(twice, 100.0, crew) == (2.0, 4.0)  # two items to a page
    assert rates.update(counted(505), 101.0, crew)[0] == 5.0
    for second in range(2, 60):
        rate, _ = rates.update(counted(505), 100.0 + second, crew)
    assert rate == 0.0
    assert rates.update(counted(3), 161.0, crew)[0] == 2.0  # the job was made anew
    assert rates.update(counted(9000), 900.0, crew)[0] == 2.0  # nobody looked for minutes


@pytest.mark.parametrize("state", [State.PAUSED, State.CANCELLED])
async def test_there_is_no_estimate_for_a_job_that_stands(frontier, server, state):
    await add(frontier, 3)
    await at_work(frontier)
    assert (await Watcher(server).look_at(frontier)).eta_s == 1.5
    await set_state(frontier, state)

    assert (await Watcher(server).look_at(frontier)).eta_s is None


async def test_there_is_no_estimate_without_workers_or_in_their_first_seconds(frontier, server):
    await add(frontier, 3)
    assert (await Watcher(server).look_at(frontier)).eta_s is None

    await at_work(frontier, started_at=WARM_UP_S - 1)
    look = await Watcher(server).look_at(frontier)
    assert look.pages_per_s > 0
    assert look.eta_s is None


async def test_max_pages_bounds_what_remains(frontier, server):
    await add(frontier, 30)
    await change_options(frontier, {"max_pages": 10})
    await at_work(frontier)

    look = await Watcher(server).look_at(frontier)

    assert (look.pending, look.remaining, look.eta_s) == (30, 10, 5.0)


async def test_the_slowest_host_decides_when_it_will_be_over(frontier, server):
    await change_options(frontier, {"delay_s": 60.0})
    await frontier.add([Request(url=f"https://slow.test/{n}") for n in range(3)])
    await at_work(frontier)

    look = await Watcher(server).look_at(frontier)

    assert look.bound
    assert (look.bound.host, look.bound.queued, look.eta_s) == ("slow.test", 3, 180.0)


@pytest.mark.parametrize(("delay_s", "seconds"), [(0.1, None), (10.0, 100.0)])
def test_a_crawl_that_stands_still_has_no_estimate_unless_a_delay_explains_it(delay_s, seconds):
    bound = Bound("a.test", queued=10, delay_s=delay_s, seconds=10 * delay_s)

    assert eta_s(30, 0.0, bound) == seconds
    assert eta_s(30, 0.0, None) is None
    assert eta_s(30, 2.0, bound) == max(15.0, 10 * delay_s)


async def test_the_age_of_the_oldest_request_is_that_of_the_longest_wait(frontier, server, clock):
    assert (await Watcher(server).look_at(frontier)).oldest_pending_s is None
    await frontier.add([Request(url="https://a.test/1")])
    clock.advance(100)
    await frontier.add([Request(url="https://b.test/1"), Request(url="https://a.test/2")])
    clock.advance(50)

    assert (await Watcher(server).look_at(frontier)).oldest_pending_s == 150.0
    [lease] = (await frontier.lease(1)).leases
    assert lease.url == "https://a.test/1"
    assert (await Watcher(server).look_at(frontier)).oldest_pending_s == 50.0
    await frontier.release([lease])  # it goes to the end of the line


async def test_a_job_of_several_shards_has_one_oldest_request(make_frontier, server, clock):
    frontier = await make_frontier(rude(), Layout(shards=4))
    for number in range(20):
        await frontier.add([Request(url=f"https://h{number}.test/")])
        clock.advance(10)

    assert (await Watcher(server).look_at(frontier)).oldest_pending_s == 200.0


async def test_what_it_costs_is_that_of_the_figures(frontier, server):
    assert (await Watcher(server).look_at(frontier)).bytes is None
    counts = {"bytes": 5000, "browser_ms": 2500, "proxy_money_micro": 30_000}
    counts |= {"archived": 3, "archived_bytes": 10**6, "unarchived": 1}
    await record(frontier, Batch(counts=Counter(counts)))

    look = await Watcher(server).look_at(frontier)

    assert (look.bytes, look.browser_s, look.proxy_money) == (5000, 2.5, 0.03)
    assert (look.archived, look.archived_bytes, look.unarchived) == (3, 10**6, 1)


async def test_a_worker_that_is_not_heard_of_any_more_is_counted_as_silent(frontier, server):
    await at_work(frontier, "here")
    await at_work(frontier, "late", at=10)
    await at_work(frontier, "gone", at=60)

    look = await Watcher(server).look_at(frontier)

    assert [one.name for one in look.workers] == ["here", "late"]
    assert look.silent_workers == 2


async def test_all_jobs_are_looked_at_and_a_damaged_one_does_not_hide_them(frontier, server):
    damaged, said = f"{frontier.job}-damaged", list[str]()
    await server.command("HSET", "skitter:jobs", damaged, "nonsense")
    try:
        looks = await Watcher(server).look_at_all(said.append)
    finally:
        await server.command("HDEL", "skitter:jobs", damaged)

    assert frontier.job in [look.job for look in looks]
    assert [line for line in said if damaged in line]


async def test_two_looks_at_all_jobs_may_overlap_while_a_job_is_purged(frontier, server, job):
    """The second one ends first, and has not seen it."""

    async def purge_and_look(seen: Frontier) -> list[str]:
        if seen.job == job:
            await purge_job(seen)
            assert job not in [one.job for one in await watcher.look_at_all(print)]
        return []

    watcher = Watcher(server, find_bad=purge_and_look)
    assert job in [one.job for one in await watcher.look_at_all(print)]


def test_the_rate_at_which_urls_are_found_belongs_to_the_time_left():
    """75 s were left where it took 830 s: every page brought new ones."""
    rates, stats = Rates(), Stats(job="j", state=State.RUNNING)
    for at in range(11):
        now = msgspec.structs.replace(stats, done=10 * at, seen=100 + 40 * at)
        pages, _ = rates.update(now, 100.0 + at, [])
    assert (pages, rates.found_per_s) == (10.0, 40.0)
    look = Overview(
        job="j",
        state=State.RUNNING,
        status="running",
        at=1.0,
        remaining=9,
        eta_s=75.0,
        pages_per_s=pages,
        found_per_s=rates.found_per_s,
    )
    assert eta_of(look) == "1 min 15 s+"
    assert eta_of(msgspec.structs.replace(look, found_per_s=0.0)) == "1 min 15 s"
