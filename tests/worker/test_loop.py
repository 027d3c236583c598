"""A worker stops in order, and in any case."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from attempts import attempts_of
from chaos.rig import until
from conftest import rude
from skitter.app import open_crawl
from skitter.cli.child import run_to_the_end
from skitter.crawl.printed import Output
from skitter.embedded import running, start, stop
from skitter.engine import leases, loop, outbox
from skitter.engine.delivery import Delivery
from skitter.engine.loop import Worker
from skitter.engine.parts import WorkerOptions
from skitter.engine.pulse import rss_mb
from skitter.errors import JobMissing, ServerUnreachable, SkitterError, SpiderError
from skitter.fetch.http.fetcher import StaticFetcher
from skitter.frontier.audit.auditor import audit
from skitter.frontier.audit.why import why
from skitter.frontier.dead import dead_letters
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job, open_job, purge_job
from skitter.frontier.records.health import find_warnings
from skitter.frontier.records.schedule import Schedule, read_schedule, set_schedule
from skitter.frontier.sites.learned import free_trapped, hold_unhandled, unhandled
from skitter.frontier.transport.connection import connect
from skitter.frontier.workers import live_workers, read_log, take_back
from skitter.model import Request
from skitter.observe.logs import ClusterLog
from skitter.settings import Politeness, resolve
from skitter.spider import Spider
from waiting import until_async

STANDING_STILL = Path(__file__).parent / "standing_still.py"
SLOW, QUICK = "https://a.test/slow", "https://a.test/quick"


class SlowFetcher(StaticFetcher):
    """One page never ends; `begun` tells that it was asked for."""

    def __init__(self) -> None:
        super().__init__({QUICK: b"quick"})
        self.begun = asyncio.Event()

    async def fetch(self, request, *, leave=None, proxy=None):
        if request.url == SLOW:
            self.begun.set()
            await asyncio.Event().wait()
        return await super().fetch(request, leave=leave, proxy=proxy)


def make_worker(frontier, fetcher, **options) -> Worker:
    spider = Spider("w", ["https://a.test/"])
    spider.page(describe)
    logbook = ClusterLog()
    attempts = attempts_of(spider, fetcher, log=logbook)
    outbox = Delivery(frontier, attempts.parts.memory, logbook)
    return Worker(frontier, attempts, outbox, logbook, WorkerOptions(**options))


def describe(page):
    yield {"url": page.url}


def book(page):
    yield {"book": page.url}


@pytest.fixture
async def frontier(server, job):
    """On the server's own clock: a worker waits for it."""
    return await create_job(server, job, options=rude())


async def test_a_second_signal_hands_back_what_is_under_way_at_once(frontier):
    await frontier.add([Request(url=SLOW), Request(url=QUICK)])
    fetcher = SlowFetcher()
    worker = make_worker(frontier, fetcher, grace_s=3600)
    running_worker = asyncio.create_task(worker.run())
    await fetcher.begun.wait()

    worker.stop()
    worker.stop()
    await running_worker

    stats = await frontier.stats()
    assert (stats.leased, stats.lost, stats.done + stats.pending) == (0, 0, 2)


async def test_results_do_not_wait_for_others_when_nothing_else_is_under_way(frontier, monkeypatch):
    monkeypatch.setattr(outbox, "LINGER_S", 3600.0)
    await frontier.add([Request(url=QUICK)])

    async with asyncio.timeout(30):
        await make_worker(frontier, SlowFetcher()).run()

    assert (await frontier.stats()).done == 1


async def test_a_worker_leases_nothing_while_too_many_results_wait(frontier, monkeypatch):
    monkeypatch.setattr(loop, "MAX_UNSENT", 10)
    urls = [f"https://a.test/{n}" for n in range(60)]
    await frontier.add([Request(url=url) for url in urls])
    worker = make_worker(frontier, StaticFetcher(dict.fromkeys(urls, b"quick")), concurrency=8)
    async with worker.delivery._lines[0].outbox._sending:  # as while the server takes its time
        running_worker = asyncio.create_task(worker.run())
        await until_async(lambda: _is(lambda: len(worker.delivery) > 10 and not worker._active))
        for _ in urls:  # in which all others could be leased
            await frontier.stats()
        assert len(worker.delivery) <= 10 + 8

    await running_worker

    assert (await frontier.stats()).done == 60


async def test_a_suspect_that_waits_for_its_turn_is_handed_back_unharmed(frontier):
    await frontier.add([Request(url=QUICK)])
    for _ in range(2):
        await frontier.lease(1, ttl_s=0.001)
        await until_async(lambda: frontier.reap())
    await frontier.add([Request(url=SLOW, priority=1)])
    fetcher = SlowFetcher()
    worker = make_worker(frontier, fetcher, grace_s=0, concurrency=8)
    running_worker = asyncio.create_task(worker.run())
    await fetcher.begun.wait()
    await until_async(lambda: _is(lambda: len(worker._held) == 1))

    worker.stop()
    await running_worker

    stats = await frontier.stats()
    assert (stats.pending, stats.leased, stats.lost) == (2, 0, 2)


async def test_a_suspect_that_waits_longer_than_its_lease_is_not_lost(frontier):
    """It waits until it is alone; then it runs, and the server knows that it is alone."""
    await frontier.add([Request(url=QUICK)])
    for _ in range(2):
        await frontier.lease(1, ttl_s=0.001)
        await until_async(lambda: frontier.reap())
    await frontier.add([Request(url=SLOW, priority=1)])
    fetcher = SlowFetcher()
    worker = make_worker(frontier, fetcher, concurrency=8, lease_s=1.0)
    running_worker = asyncio.create_task(worker.run())
    await fetcher.begun.wait()
    await until_async(lambda: _is(lambda: len(worker._held) == 1))
    [held], token_of = worker._held, partial(frontier.home.command, "HGET", "holder")
    assert (await token_of(held.fingerprint)).endswith(b"~")
    expiry_of = partial(frontier.home.command, "ZSCORE", "lease", held.fingerprint)
    first = float(await expiry_of())

    async def is_extended_for_longer_than_a_lease() -> bool:
        await frontier.reap()
        return float(await expiry_of() or 0) > first + 1500

    await until_async(is_extended_for_longer_than_a_lease)
    [slow] = [task for task, (lease, _) in worker._active.items() if lease.url == SLOW]
    slow.cancel()
    await until_async(lambda: _is(lambda: held not in worker._held))
    worker.stop()
    await running_worker

    stats = await frontier.stats()
    assert (stats.done, stats.lost, stats.dead) == (1, 2, 0)


async def test_a_server_that_died_holds_nobody_back_who_wants_to_leave(short_dir, monkeypatch):
    monkeypatch.setattr(loop, "LAST_SEND_S", 0.2)
    home = short_dir / "dies"
    embedded = start(home)
    try:
        async with connect(embedded.url) as server:
            frontier = await create_job(server, "dying", options=rude())
            await frontier.add([Request(url=SLOW), Request(url=QUICK)])
            fetcher = SlowFetcher()
            worker = make_worker(frontier, fetcher, grace_s=0.1)
            running_worker = asyncio.create_task(worker.run())
            await fetcher.begun.wait()

            found = running(home)
            assert found is not None
            os.kill(found.pid, signal.SIGKILL)
            worker.stop()

            with pytest.raises(ServerUnreachable, match="could not be returned"):
                await running_worker
    finally:
        stop(home)


async def test_a_page_that_stalls_its_handler_ends_the_process_and_is_dead_after_a_few(
    frontier, server_url, tmp_path
):
    """Each time the lease is taken back with a loss, as a supervisor does, and the page dies."""
    output = Output(tmp_path / "job.log")
    await frontier.add([Request(url="https://a.test/")])
    losses = frontier.options.retries.max_losses
    for name in [f"still-{n}" for n in range(losses)]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, STANDING_STILL, server_url, frontier.job, name, output.stuck,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, said = await process.communicate()
        assert process.returncode == 1
        assert said == b""  # the place is in a file, and not on anybody's terminal
        assert "reading_a_hostile_page" in output.stuck.read_text()
        stuck = output.find_stuck()
        assert stuck is not None
        assert "a page was blocking it at" in str(stuck)
        assert output.find_stuck() is None
        assert await take_back(frontier, name, seen=True, why=f"stuck at {stuck.line}") == 1

    stats = await frontier.stats()
    assert (stats.dead, stats.lost, stats.crawled) == (1, losses, True)
    [letter] = [one async for one in dead_letters(frontier)]
    assert letter.reason.startswith(f"its worker vanished {losses} times: stuck at ")
    line = 'yield {"words": bool(re.fullmatch("(a|a)+", page.text))}'
    source = Path(__file__).with_name("standing_still.py").read_text().splitlines()
    number = 1 + [one.strip() for one in source].index(line)
    assert letter.reason.endswith(f"/standing_still.py:{number}: {line}")


async def _is(condition) -> bool:
    return bool(condition())


async def test_what_ends_a_worker_after_it_began_is_not_told_as_a_mistake_of_its_caller(frontier):
    """Exit code 2 would end the whole fleet: "the worker cannot start"."""
    worker = make_worker(frontier, SlowFetcher())
    object.__setattr__(worker.options, "lease_s", 0)  # which `lease` refuses

    with pytest.raises(SkitterError, match="ttl_s must be") as caught:
        await run_to_the_end(worker)
    assert caught.value.exit_code == 1


async def test_a_worker_ends_when_its_job_is_removed(frontier):
    await frontier.add([Request(url=SLOW)])
    fetcher = SlowFetcher()
    worker = make_worker(frontier, fetcher, grace_s=0.1)
    running_worker = asyncio.create_task(run_to_the_end(worker))
    await fetcher.begun.wait()

    await purge_job(frontier)

    with pytest.raises(JobMissing):
        await running_worker


async def test_a_worker_that_stays_waits_until_its_job_is_made_again(frontier, monkeypatch):
    monkeypatch.setattr(loop, "GONE_S", 0.05)
    await frontier.add([Request(url=SLOW), Request(url=QUICK)])
    fetcher = SlowFetcher()
    worker = make_worker(frontier, fetcher, grace_s=0.1, keep_alive=True)
    running_worker = asyncio.create_task(run_to_the_end(worker))
    await fetcher.begun.wait()
    await until(lambda: worker.delivery.tally.pages, what="a page is done")
    await purge_job(frontier)
    await until(lambda: worker._is_gone, what="it has noticed")

    again = await create_job(frontier.server, frontier.job, options=rude())
    await again.add([Request(url=QUICK)])
    await until(lambda: worker.delivery.tally.pages > 1, what="the page is fetched again")
    worker.stop()
    await running_worker

    stats = await again.stats()
    assert (stats.done, stats.leased, stats.seen) == (1, 0, 1)
    told = [event.text for event in await read_log(again)]
    assert told.count("the job was removed; waiting until it is created again") == 1


async def test_a_worker_that_stays_can_be_stopped_while_its_job_is_gone(frontier):
    await frontier.add([Request(url=SLOW)])
    fetcher = SlowFetcher()
    worker = make_worker(frontier, fetcher, grace_s=0.1, keep_alive=True)
    running_worker = asyncio.create_task(run_to_the_end(worker))
    await fetcher.begun.wait()
    await purge_job(frontier)
    await until(lambda: worker._is_gone, what="it has noticed")

    worker.stop()
    await running_worker


async def test_a_worker_that_cannot_begin_says_so_by_its_exit_code(frontier):
    worker = make_worker(frontier, SlowFetcher())
    worker.attempts.spider.on_start(lambda: 1 / 0)

    with pytest.raises(SpiderError) as caught:
        await run_to_the_end(worker)
    assert caught.value.exit_code == 2


async def test_a_bug_that_a_page_finds_is_the_end_of_that_page(frontier):
    class Broken(StaticFetcher):
        async def fetch(self, request, *, leave=None, proxy=None):
            if request.url == SLOW:
                raise RecursionError("a page that nobody thought of")
            return await super().fetch(request, leave=leave, proxy=proxy)

    await frontier.add([Request(url=SLOW), Request(url=QUICK)])
    worker = make_worker(frontier, Broken({QUICK: b"quick"}))
    running_worker = asyncio.create_task(worker.run())
    tally = worker.delivery.tally
    await until(lambda: tally.pages and tally.errors, what="both have ended")
    worker.stop()
    await running_worker

    assert (await frontier.stats()).delayed == 1


async def test_a_worker_over_its_memory_finishes_up_and_hands_back_the_rest(frontier, monkeypatch):
    monkeypatch.setattr(loop, "MEMORY_S", 0.01)
    await frontier.add([Request(url=QUICK), Request(url=SLOW)])
    fetcher = SlowFetcher()
    worker = make_worker(frontier, fetcher, max_memory_mb=50, keep_alive=True, grace_s=0.1)

    await worker.run()

    stats = await frontier.stats()
    assert (stats.done, stats.pending, stats.lost) == (1, 1, 0)
    assert any("over --max-memory 50" in event.text for event in await read_log(frontier))


async def test_a_worker_that_has_ended_no_page_does_not_give_up_because_of_its_memory(
    frontier, monkeypatch
):
    """The next one would have as much, and nothing would ever be fetched."""
    looks: list[float] = []

    def look() -> float:
        looks.append(rss_mb())
        return looks[-1]

    monkeypatch.setattr(loop, "MEMORY_S", 0.01)
    monkeypatch.setattr(loop, "rss_mb", look)
    await frontier.add([Request(url=SLOW)])
    fetcher = SlowFetcher()
    worker = make_worker(frontier, fetcher, max_memory_mb=50)
    running_worker = asyncio.create_task(worker.run())
    await fetcher.begun.wait()
    await until_async(lambda: _is(lambda: len(looks) > 3))

    assert min(looks) > 50
    assert not worker._stop.is_set()

    worker.stop()
    worker.stop()
    await running_worker


async def test_a_slow_page_of_one_lane_holds_up_nobody_in_the_other(frontier):
    quick = [f"https://a.test/{n}" for n in range(5)]
    await frontier.add([Request(SLOW, lane="browser"), *map(Request, quick)])
    fetcher = SlowFetcher()
    worker = make_worker(frontier, fetcher, lanes={"": 1, "browser": 1}, grace_s=0)
    running_worker = asyncio.create_task(worker.run())
    await fetcher.begun.wait()
    await until(lambda: _done(frontier, len(quick)), what="the quick pages")

    worker.stop()
    await running_worker
    assert (await frontier.stats()).pending == 1  # the slow one was returned


async def test_a_worker_of_one_lane_leaves_the_other_alone(frontier):
    await frontier.add([Request(QUICK, lane="browser"), Request("https://a.test/1")])
    worker = make_worker(frontier, StaticFetcher(), lanes={"": 4})
    running_worker = asyncio.create_task(worker.run())
    await until(lambda: _done(frontier, 1), what="the page")
    worker.stop()
    await running_worker
    assert (await frontier.stats()).pending == 1

    await make_worker(frontier, StaticFetcher({QUICK: b"quick"}), lanes={"browser": 1}).run()
    assert (await frontier.stats()).crawled


async def _done(frontier: Frontier, count: int) -> bool:
    stats = await frontier.stats()
    return stats.done + stats.dead == count


async def test_a_worker_that_stays_begins_the_rounds_of_a_schedule(frontier):
    now_ms = round(1000 * await frontier.server_time())
    await set_schedule(frontier, Schedule(every_s=3600, next_ms=now_ms))
    fetcher = StaticFetcher({"https://a.test/": b"home"})
    worker = make_worker(frontier, fetcher, keep_alive=True)
    running_worker = asyncio.create_task(worker.run())

    async def is_done():
        return (await frontier.stats()).done == 1

    await until_async(is_done)
    worker.stop()
    await running_worker
    stored = await read_schedule(frontier)
    assert stored
    assert stored.rounds == 1


async def test_what_ends_while_a_worker_asks_for_more_is_not_forgotten(server, job, monkeypatch):
    """A host takes one at a time, and its page ends before the answer that it is busy is read."""
    monkeypatch.setattr(loop, "IDLE_S", 3600.0)
    one_at_a_time = replace(rude(), politeness=Politeness(delay_s=0, max_in_flight=1))
    frontier = await create_job(server, job, options=one_at_a_time)
    urls = [f"https://a.test/{n}" for n in range(5)]
    await frontier.add([Request(url=url) for url in urls])
    worker = make_worker(frontier, StaticFetcher(dict.fromkeys(urls, b"quick")), concurrency=8)
    lease = frontier.lease

    async def answered_late(*words, **how):
        leased = await lease(*words, **how)
        await until_async(lambda: _is(lambda: leased.leases or worker.is_idle))
        return leased

    monkeypatch.setattr(worker, "frontier", Late(frontier, answered_late))
    async with asyncio.timeout(30):
        await worker.run()

    assert (await frontier.stats()).done == 5


class Late:
    """A frontier whose `lease` is another."""

    def __init__(self, frontier: Frontier, lease) -> None:
        self._frontier, self.lease = frontier, lease

    def __getattr__(self, name: str):
        return getattr(self._frontier, name)


async def test_pages_for_a_handler_that_only_others_have_go_to_them(frontier, monkeypatch):
    """A rolling deploy: one worker has the new version of the spider, the other one has not."""
    monkeypatch.setattr(leases, "ELSEWHERE_S", 0.05)
    monkeypatch.setattr(leases, "NOWHERE_S", 0.05)
    urls = [f"https://a.test/{n}" for n in range(20)]
    await frontier.add([Request(url=url, handler="book") for url in urls])
    fetcher = StaticFetcher(dict.fromkeys([*urls, QUICK], b"page"))
    old = make_worker(frontier, fetcher, keep_alive=True)
    work = asyncio.create_task(old.run())
    await until_async(lambda: _is(lambda: old.strays and old.strays.note))
    await old._pulse().beat()
    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.pending + stats.delayed + stats.leased) == (0, 0, 20)
    [said] = await find_warnings(frontier, stats)
    assert said == "worker: no worker has handler 'book': its pages wait"
    [heart] = await live_workers(frontier)
    assert re.fullmatch("w [0-9a-f]{7}", heart.spider)

    other = await open_job(frontier.server, frontier.job)
    new = make_worker(other, fetcher)
    new.attempts.spider.page(book)
    await new.run()
    old.stop()
    await work

    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.lost) == (20, 0, 0)
    told = [one.text for one in await read_log(frontier) if "handler 'book'" in one.text]
    assert len(told) == 1


async def test_pages_for_a_handler_that_nobody_has_are_held_until_a_worker_has_it(
    frontier, monkeypatch
):
    monkeypatch.setattr(leases, "PATIENCE_S", 0.2)
    monkeypatch.setattr(leases, "NOWHERE_S", 0.05)
    urls = [f"https://a.test/{n}" for n in range(5)]
    await frontier.add([Request(url=url, handler="book") for url in urls])
    await frontier.add([Request(url=QUICK)])
    fetcher = StaticFetcher(dict.fromkeys([*urls, QUICK], b"page"))

    await make_worker(frontier, fetcher).run()  # it ends, though pages are left

    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.unhandled, stats.trapped) == (1, 0, 5, 0)
    assert stats.crawled
    assert await unhandled(frontier) == {"book": 5}
    assert (await audit(frontier)).clean
    said = await why(frontier, urls[0])
    assert (said.state, said.because[0][:29]) == ("unhandled", "no worker has handler 'book':")
    await free_trapped(frontier)  # as after a change of the budget of shapes
    assert (await frontier.stats()).unhandled == 5

    new = make_worker(await open_job(frontier.server, frontier.job), fetcher)
    new.attempts.spider.page(book)
    await new.run()

    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.unhandled) == (6, 0, 0)
    assert (await audit(frontier)).clean


async def test_a_run_with_the_handler_queues_what_waited_for_it(frontier):
    """Celery sends pumps for pages that are queued, and none for pages that are held."""
    await frontier.add([Request(url=QUICK, handler="book")])
    await hold_unhandled(frontier, (await frontier.lease(1, ttl_s=60)).leases)
    spider = Spider("books")
    config = resolve({}, job=frontier.job, spider=spider.tables)
    spider.page(describe)

    await open_crawl(frontier.server, frontier.job, spider, config)
    assert (await frontier.stats()).unhandled == 1
    spider.page(book)
    await open_crawl(frontier.server, frontier.job, spider, config)

    stats = await frontier.stats()
    assert (stats.unhandled, stats.pending) == (0, 1)


async def test_a_lane_that_has_looked_does_not_keep_the_news_from_another(frontier, monkeypatch):
    """A page is asked for between the looks of two lanes: neither waits for its next one."""
    monkeypatch.setattr(loop, "IDLE_S", 3600.0)
    worker = make_worker(
        frontier, SlowFetcher(), lanes={"": 1, "browser": 1}, keep_alive=True, grace_s=0
    )
    lease, looks = frontier.lease, list[str]()

    async def lease_then_hear(limit, **terms):
        leased = await lease(limit, **terms)
        looks.append(terms["lane"])
        if looks == [""]:
            await frontier.add([Request(QUICK)])
            worker._wake()
        return leased

    monkeypatch.setattr(worker, "frontier", Late(frontier, lease_then_hear))
    running_worker = asyncio.create_task(worker.run())
    await until_async(lambda: _done(frontier, 1))
    worker.stop()
    await running_worker
    assert looks[:2] == ["", "browser"]
