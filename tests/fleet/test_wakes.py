"""Nobody waits for a clock when there is something to hear: all pauses here are endless."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import cast

import pytest

from fleet.test_supervisor import STAYS, exits, make, running
from skitter.crawl import supervisor
from skitter.crawl.children import ProcessPool
from skitter.crawl.job_loader import Loader
from skitter.crawl.supervisor import Supervisor
from skitter.frontier.items import ItemStream
from skitter.frontier.jobs import purge_job
from skitter.model import Completion, Request
from skitter.sinks import LoadPace, open_sink
from waiting import until_async

ENDLESS_S, WAIT_S = 3600.0, 30.0
PACE = LoadPace(idle_s=ENDLESS_S, linger_s=ENDLESS_S)


@pytest.fixture
async def busy(frontier):
    await frontier.add([Request(url=f"https://h{n}.test/") for n in range(3)])
    return frontier


async def so(condition) -> None:
    async def found() -> bool:
        return bool(condition())

    await until_async(found)


def workers_of(fleet: Supervisor) -> int:
    return len(cast("ProcessPool", fleet.pool)._workers)


async def complete(frontier, limit: int = 100) -> None:
    leases = (await frontier.lease(limit)).leases
    await frontier.complete([Completion(lease=one, items=[{"url": one.url}]) for one in leases])


async def test_a_process_that_ends_wakes_its_supervisor(busy, monkeypatch):
    monkeypatch.setattr(supervisor, "TICK_S", ENDLESS_S)
    looks = []
    one = make(busy, [], worker_command=exits(0), loader_command=STAYS)

    async def look(stats):
        looks.append(stats)
        if len(looks) == 2:
            one.stop()

    one.on_tick = look
    async with asyncio.timeout(WAIT_S):
        assert not await one.run()

    assert len(looks) == 2


async def test_a_crawl_is_over_when_its_last_process_says_so(busy, monkeypatch):
    """The loader ends by itself when all is stored; nobody looks in between."""
    monkeypatch.setattr(supervisor, "TICK_S", ENDLESS_S)
    await complete(busy)
    one = make(busy, [], loader_command=exits(0))

    async def store(_):
        stream = ItemStream(busy, "loader")
        await stream.acknowledge(await stream.read(100, wait_s=0))

    one.on_tick = store
    async with asyncio.timeout(WAIT_S):
        assert await one.run()


async def test_a_loader_that_ended_is_started_again_for_what_came_after(busy):
    one, starts = make(busy, [], loader_command=exits(0)), set()

    def has_started_twice() -> bool:
        if one._loader and one._loader.process:
            starts.add(one._loader.process.pid)
        return len(starts) == 2

    async with running(one):
        await so(has_started_twice)


@pytest.mark.parametrize(("one_first", "workers"), [(True, 1), (False, 3)])
async def test_only_a_number_that_nobody_asked_for_begins_with_one(busy, one_first, workers):
    fleet = make(busy, [], workers=3, one_first=one_first)
    async with running(fleet):
        await so(lambda: workers_of(fleet) == workers)
        await fleet._look()
        assert workers_of(fleet) == workers


async def test_the_others_begin_when_there_is_work_for_two(busy, monkeypatch):
    monkeypatch.setattr(supervisor, "ALONE_S", -1.0)
    fleet = make(busy, [], workers=3, one_first=True)
    async with running(fleet):
        await so(lambda: workers_of(fleet) == 3)
        await complete(busy)
        await fleet._look()
        assert workers_of(fleet) == 3


# --- the loader -----------------------------------------------------------------------------------


def loader_of(frontier, stop: asyncio.Event, **options) -> Loader:
    return Loader(frontier, "loader", lambda *_: None, stop, pace=PACE, **options)


async def test_an_item_wakes_the_loader_and_the_last_one_ends_it(busy, tmp_path):
    loader = loader_of(busy, asyncio.Event(), until_finished=True)
    out = tmp_path / "rows.jsonl"
    loading = asyncio.create_task(loader.run(lambda: open_sink(str(out), job="shop")))

    async with asyncio.timeout(WAIT_S):
        for number in (1, 2):
            await complete(busy, limit=1)
            await until_async(partial(has_stored, busy, number))
        await complete(busy)
        assert await loading == 3

    assert len(out.read_text().splitlines()) == 3
    assert (await busy.stats()).finished


async def has_stored(frontier, number: int) -> bool:
    return bool((await frontier.stats()).stored == number)


async def test_a_loader_that_waits_notices_that_its_job_is_gone(busy, tmp_path):
    sink = lambda: open_sink(str(tmp_path / "rows.jsonl"), job="shop")  # noqa: E731
    loader = replace(loader_of(busy, asyncio.Event()), until_finished=True)
    loading = asyncio.create_task(loader.run(sink))
    await asyncio.sleep(0.1)

    await purge_job(busy)

    with pytest.raises(Exception, match="job"):
        async with asyncio.timeout(WAIT_S):
            await loading
