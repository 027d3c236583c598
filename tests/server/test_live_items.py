"""Items as they are found: `GET /api/jobs/JOB/items/live`, and `skitter tail`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from functools import partial

import pytest

from cli.conftest import skitter, skitter_here  # noqa: F401
from server.test_events import parse
from skitter.cli.commands.runs import follow_items
from skitter.frontier.items import ItemStream, put_items
from skitter.frontier.jobs import create_job
from skitter.frontier.records.live import Live
from skitter.model import Completion, Request
from skitter.settings import JobOptions, Layout, Politeness
from waiting import until_async


async def find(frontier, *names: str) -> None:
    """Pages with an item each, which a loader takes away at once."""
    await frontier.add([Request(f"https://{name}.test/") for name in names])
    for lease in (await frontier.lease(100)).leases:
        await frontier.complete([Completion(lease=lease, items=[{"name": lease.host}])])
    loader = ItemStream(frontier, "loader")
    while rows := await loader.read(100, wait_s=0):
        await loader.acknowledge(rows)


async def is_watched(frontier) -> bool:
    return all([await one.command("EXISTS", "watched") for one in frontier.shards])


@pytest.fixture(params=[1, 3])
async def frontier(request, server, job):
    options = JobOptions(politeness=Politeness(delay_s=0))
    return await create_job(server, job, options=options, layout=Layout(shards=request.param))


@asynccontextmanager
async def listening(web, job, after=""):
    headers = {"last-event-id": after} if after else {}
    path = f"/api/jobs/{job}/items/live"
    async with web.stream("GET", path, headers=headers, timeout=60) as answer:
        assert answer.status_code == 200
        async with aclosing(parse(answer)) as told:
            yield told


async def test_each_item_comes_once_also_after_a_pause_and_whoever_stores_it(web, frontier):
    await find(frontier, "before")
    await frontier.add([Request("https://last.test/")])  # so that it is not over
    seen, last = [], ""
    async with listening(web, frontier.job) as told:
        assert (await anext(told)).name == "begin"
        await find(frontier, "a", "b")
        for _ in range(3):  # `last` is done, too
            one = await anext(told)
            seen.append(one.data["name"])
            last = one.id
    await find(frontier, *"cdefg")
    async with listening(web, frontier.job, last) as told:
        again = [one async for one in told]
    assert sorted(seen) == ["a.test", "b.test", "last.test"]
    assert [one.name for one in again] == ["begin", *["item"] * 5, "over"]
    assert sorted(one.data["name"] for one in again[1:-1]) == [f"{name}.test" for name in "cdefg"]
    assert again[-1].data == {"items": 9}


async def test_a_place_that_is_not_kept_is_told(web, frontier):
    live = await Live.open(frontier)
    await find(frontier, "a")
    await live.read()
    for shard in frontier.shards:
        await shard.command("DEL", "live", "watched")
    async with listening(web, frontier.job, live.place) as told:
        assert (await anext(told)).name == "gap"
    assert not (await Live.open(frontier)).has_gap


async def test_items_beside_a_completion_are_seen_and_an_unwatched_job_keeps_no_copies(server, job):
    frontier = await create_job(server, job, options=JobOptions(politeness=Politeness(delay_s=0)))
    await find(frontier, "unseen")
    assert not await frontier.home.command("EXISTS", "live")
    live = await Live.open(frontier)
    await frontier.add([Request("https://a.test/")])
    (lease,) = (await frontier.lease(1)).leases
    await put_items(frontier, lease, [{"name": "part"}])
    assert [one.item for _, one in await live.read()] == [{"name": "part"}]
    assert await live.read() == []


async def follow(frontier) -> list[str]:
    return [row.item["name"] async for found in follow_items(frontier) for _, row in found]


async def test_following_ends_with_the_crawl(frontier):
    await frontier.add([Request("https://last.test/")])
    following = asyncio.create_task(follow(frontier))
    await until_async(partial(is_watched, frontier))
    await find(frontier, "a")
    assert sorted(await following) == ["a.test", "last.test"]


async def test_tail_prints_lines_or_a_field_and_says_when_there_is_nothing(
    server,
    job,
    skitter_here,  # noqa: F811
):
    frontier = await create_job(server, job, options=JobOptions(politeness=Politeness(delay_s=0)))
    await frontier.add([Request("https://last.test/")])
    printing = asyncio.create_task(skitter_here("tail", job, "--field", "name"))
    await until_async(partial(is_watched, frontier))
    await find(frontier, "a")
    said = await printing
    assert (said.exit_code, sorted(said.out.split())) == (0, ["a.test", "last.test"]), said
    assert "2 items since you looked" in said.err
    assert "has its 2 items" in (await skitter_here("tail", job)).err
    empty = await create_job(server, f"{job}-empty")
    await empty.add([Request("https://a.test/")])
    await empty.complete([Completion(lease=one) for one in (await empty.lease(9)).leases])
    assert "no item was found" in (await skitter_here("tail", empty.job)).err
