"""Anything may happen to a crawl, at any moment: it ends with the exact set of items."""

from __future__ import annotations

import asyncio
import random
import socket
from collections import Counter
from pathlib import Path

import pytest

from storm.crawl import open_crawl
from storm.faults import Storm
from storm.site import open_site
from waiting import while_there_is_time

PAUSE_S = 0.2  # between two faults, at the most
CHAOS_S = 10 * 60


async def weather(folder: Path, *, pages: int, faults: int, seed: int) -> Counter[str]:
    """One crawl in a storm, and after it."""
    chance = random.Random(seed)
    async with open_site(pages, chance) as site, open_crawl(folder, site, free_port()) as crawl:
        storm = Storm(crawl, chance)
        while storm.counts.total() < faults and not crawl.is_over:
            await storm.strike()
            await asyncio.sleep(chance.uniform(0, PAUSE_S))
            if not crawl.is_running and not crawl.is_over:
                crawl.begin()
        await storm.calm()
        while not crawl.is_over:
            if not crawl.is_running:
                crawl.begin()
            await asyncio.sleep(0.1)
        await crawl.check(site)
    return storm.counts + Counter(runs=1, URLs=pages)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.timeout(300)
async def test_a_crawl_in_a_storm_ends_with_the_exact_set_of_items(short_dir, record_property):
    counts = await weather(short_dir / "storm", pages=1500, faults=60, seed=1)

    record_property("storm", dict(counts))


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(4))
async def test_crawls_in_many_storms_end_with_the_exact_set_of_items(
    short_dir, record_property, part
):
    """The seed of each is its number; a failure names it, and `weather` repeats it."""
    counts: Counter[str] = Counter()
    for number in while_there_is_time(CHAOS_S, least=1):
        seed = 1000 * part + number
        folder = short_dir / f"storm-{seed}"
        counts += await weather(folder, pages=5000, faults=500, seed=seed)
    record_property("storm", dict(counts))
