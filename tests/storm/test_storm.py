"""Anything may happen to a crawl, at any moment: it ends with the exact set of items.

The seed of a storm is printed when it begins. To repeat one:

    STORM_SEED=3 make chaos ARGS="tests/storm -k Celery"
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from needs import need
from storm.clients import open_clients
from storm.crawl import Crawl, open_crawl
from storm.faults import Storm
from storm.scenes import SCENES, Scene
from storm.site import SMALLEST_S, Site, open_site
from waiting import while_there_is_time

AWAKE_S = 1.0  # after it was stopped, a process may do at once what it was going to do
FAULTS = 3000  # of one crawl, if it lasts so long
LONGEST_S = 270  # of one storm: on a busy machine it does less
REPLAY = os.environ.get("STORM_SEED")


@pytest.fixture
def table(record_property) -> dict[str, int]:
    """What is counted, for the table at the end: also of a storm that fails."""
    counts = dict.fromkeys(("begun", "ended", "URLs", "lost", "doubled"), 0)
    record_property("storm", counts)
    return counts


async def weather(
    folder: Path, scene: Scene, table: dict[str, int], *, faults: int, seed: int
) -> None:
    """One crawl in a storm, and after it."""
    print(f"storm {seed}")  # noqa: T201 - shown if it fails
    table["begun"] += 1
    async with (
        open_site(scene.pages, random.Random(seed), poison=scene.poison) as site,
        open_crawl(folder, scene, site, free_ports(2)) as crawl,
    ):
        storm = Storm(crawl, seed)
        async with open_clients(crawl, site, random.Random(seed)) as clients:
            try:
                await rage(storm, site, faults)
            finally:
                await storm.calm()
        for fault, times in storm.faults.items():
            table[fault] = table.get(fault, 0) + times
        await finish(crawl, again=bool(clients.acknowledged))
        rows = crawl.rows()
        expected = {*range(site.pages), *clients.acknowledged}
        lost = expected - set(rows)
        table["ended"] += 1
        table["URLs"] += len(expected)
        table["lost"] += len(lost)
        table["doubled"] += len(rows) - len(set(rows))
        assert not lost, (sorted(lost), crawl.ask("why", "storm", site.url(min(lost))))
        assert set(rows) <= expected | clients.pushed
        assert len(rows) == len(set(rows))
        await crawl.check(site)
        assert_polite(site, storm)


async def rage(storm: Storm, site: Site, faults: int) -> None:
    """From the first page on: that is when there is something to do harm to."""
    crawl, calm_at = storm.crawl, time.monotonic() + LONGEST_S
    while storm.faults.total() < faults and not crawl.is_over and time.monotonic() < calm_at:
        if site.asked:
            await storm.strike()
        else:
            calm_at = time.monotonic() + LONGEST_S
            await asyncio.sleep(0.05)
        crawl.tend()


async def finish(crawl: Crawl, *, again: bool) -> None:
    """Until it is over; and once more if anything came after that."""
    while not crawl.is_over:
        crawl.tend()
        await asyncio.sleep(0.1)
    await crawl.wait_for_loader()
    if await crawl.revive_lost() or again:
        crawl.mains[0].begin()
        await finish(crawl, again=False)


def assert_polite(site: Site, storm: Storm) -> None:
    """By its own log the site was never asked too early, except by a process that was stopped
    between the moment that it was given and the request."""
    early = [(gap, at) for gap, at in site.gaps if gap < SMALLEST_S]
    for gap, at in early:
        assert any(at - AWAKE_S < woken <= at for woken in storm.wakings), (gap, len(site.gaps))


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


@pytest.mark.timeout(300)
async def test_a_crawl_in_a_storm_ends_with_the_exact_set_of_items(short_dir, table):
    scene = replace(SCENES["skitter"], pages=1500)
    await weather(short_dir / "storm", scene, table, faults=60, seed=1)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCENES)
async def test_crawls_in_many_storms_end_with_the_exact_set_of_items(short_dir, table, name):
    if name == "browsers":
        need("chromium")
    scene = SCENES[name]
    for seed in [int(REPLAY)] if REPLAY else while_there_is_time(scene.seconds, least=1):
        await weather(short_dir / f"{name[0]}{seed}", scene, table, faults=FAULTS, seed=seed)
