"""Whatever happens to the server, it has every URL whose push the API has answered.

There is no crawl, so all of them wait, and each restart of the server is followed by a look. The
seed of a storm is printed when it begins. To repeat one:

    STORM_SEED=3 make chaos ARGS="tests/storm/test_pushes.py"
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.rig import assert_clean, until
from skitter.frontier.jobs import create_job, open_job
from skitter.frontier.transport.connection import connect
from storm.clients import Clients, open_clients
from storm.crawl import Crawl, open_crawl
from storm.faults import Storm
from storm.scenes import PUSHES, Scene
from storm.site import HOSTS, Site
from storm.test_storm import REPLAY, free_ports

LONGEST_S = 100


async def weather(folder: Path, scene: Scene, *, kills: int, seed: int) -> None:
    """Until the server was killed so many times; on a busy machine, fewer."""
    print(f"storm {seed}")  # noqa: T201 - shown if it fails
    site = Site(0, random.Random(seed), ports=[8080] * HOSTS)  # nobody asks it
    async with open_crawl(folder, scene, site, free_ports(2)) as crawl:
        async with connect(crawl.wire.url) as server:
            await create_job(server, "storm")
        storm, calm_at = Storm(crawl, seed), time.monotonic() + LONGEST_S
        async with open_clients(crawl, site, site.chance, at_once=3, pause_s=0.1) as clients:
            try:
                while storm.counts["server killed"] < kills and time.monotonic() < calm_at:
                    await kill_once(storm, clients)
            finally:
                await storm.calm()
        await assert_has_answered(crawl, clients)
        async with connect(crawl.wire.url) as server:
            await assert_clean(await open_job(server, "storm"))


async def kill_once(storm: Storm, clients: Clients) -> None:
    """Faults, from the next push that is answered until the server is killed; and then a look."""
    crawl, kills, before = storm.crawl, storm.counts["server killed"], len(clients.acknowledged)

    def is_answered() -> bool:
        crawl.tend()
        return len(clients.acknowledged) > before

    await until(is_answered, what="a push is answered")
    while storm.counts["server killed"] == kills:
        await storm.strike()
        crawl.tend()
    await until(lambda: not storm.server_is_away, what="the server is back")
    await assert_has_answered(crawl, clients)


async def assert_has_answered(crawl: Crawl, clients: Clients) -> None:
    answered = {clients.site.url(number) for number in clients.acknowledged}
    waiting = await crawl.waiting()
    assert answered - waiting == set()
    assert waiting <= {clients.site.url(number) for number in clients.pushed}


@pytest.mark.timeout(300)
async def test_a_killed_server_has_what_was_answered(short_dir):
    scene = replace(PUSHES, environment=lambda folder: {})  # no other clocks: they start slowly
    await weather(short_dir / "p", scene, kills=2, seed=1)


@pytest.mark.chaos
async def test_a_server_killed_in_many_storms_has_what_was_answered(short_dir):
    await weather(short_dir / "pushes", PUSHES, kills=60, seed=int(REPLAY or 0))
