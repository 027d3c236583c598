"""More jobs on one server than a client has connections, some of them damaged."""

from __future__ import annotations

import asyncio
import re

import pytest

from conftest import rude
from skitter.frontier.jobs import create_job
from skitter.frontier.records.exposition import TOP_JOBS, exposition
from skitter.frontier.records.schedule import new_schedule, set_schedule
from skitter.frontier.transport.connection import Server, connect
from skitter.frontier.transport.keys import ShardKeys
from skitter.model import Request

SOUND = [f"sound-{number}" for number in range(120)]
#: For each key, what makes a job unreadable to some of the questions below.
DAMAGED = {
    "no-counters": ("stats", "SET", "a string"),
    "no-control": ("control", "SET", "a string"),
    "no-schedule": ("schedule", "SET", "a string"),
    "half-purged": ("control", "HSET", "state", "purge"),
}


@pytest.fixture(scope="module", autouse=True)
def jobs(server_url) -> None:
    asyncio.run(_create_all(server_url))


async def _create_all(server_url: str) -> None:
    async with connect(server_url) as server:
        for job in [*SOUND, *DAMAGED]:
            frontier = await create_job(server, job, options=rude())
            await frontier.add([Request(url="http://a.test/")])
            await set_schedule(frontier, new_schedule(every_s=3600, now_ms=0))
        for job, (key, command, *value) in DAMAGED.items():
            name = ShardKeys(job, 0).key(key)
            if command == "SET":
                await server.command("DEL", name)
            await server.command(command, name, *value)


def test_every_sound_job_is_listed_and_the_damaged_are_named(skitter):
    answer = skitter("status", "--json")
    assert set(SOUND) <= {one["job"] for one in answer.json}
    assert "no-control" in answer.err
    assert "half-purged" in answer.err


def test_one_look_shows_every_sound_job(skitter):
    shown = skitter("top", "--once").out.split()
    assert set(SOUND) <= set(shown)


def test_every_schedule_that_can_be_read_is_listed(skitter):
    assert {one["job"] for one in skitter("schedule", "list", "--json").json} >= set(SOUND)


def test_the_doctor_names_the_damaged_ones(skitter):
    answer = skitter("doctor", "--json")
    assert set(SOUND) <= set(answer.json["jobs"])
    assert "half-purged" in answer.out


async def test_prometheus_reads_all_of_them(server: Server):
    text = await exposition(server)
    assert all(f'crawl="{job}"' in text for job in SOUND)
    # 2.2 MB at 200 jobs: nearly all of it histograms.
    detailed = set(re.findall(r'skitter_dns_seconds_count{crawl="([^"]+)"}', text))
    assert len(detailed) == TOP_JOBS
    assert len(text) < 1_000_000
