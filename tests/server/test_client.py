"""The client of the HTTP API, in ordinary code and in an event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from conftest import rude
from skitter.client import ApiError, AsyncClient, Client
from skitter.errors import ServerUnreachable
from skitter.frontier.records.operators import new_token
from skitter.model import Completion, Request


@pytest.fixture
async def token(server) -> str:
    return await new_token(server, name="a producer", scopes=["operate"])


def produce(address: str, token: str, job: str) -> tuple[Any, ...]:
    with Client(address, token=token) as skitter:
        skitter.create(job, delay_s=0.0)
        pushed = skitter.push(job, ["http://a.test/1", {"url": "http://a.test/2"}, "nope"])
        skitter.call("POST", f"api/jobs/{job}/pause")
        story = skitter.why(job, "http://a.test/1")
        return pushed, skitter.job(job), story, list(skitter.items(job))


async def test_a_program_pushes_and_looks_at_its_job(address, token, job):
    pushed, seen, story, items = await asyncio.to_thread(produce, address, token, job)

    assert (pushed.new, [one.line for one in pushed.bad]) == (2, [3])
    assert (seen["pending"], seen["state"]) == (2, "paused")
    assert (story["state"], items) == ("pending", [])


async def test_the_same_in_an_event_loop(address, token, frontier, job):
    await frontier.add([Request("http://a.test/0")])
    [lease] = (await frontier.lease(1)).leases
    await frontier.complete([Completion(lease=lease, items=[{"n": 1}])])

    async with AsyncClient(address, token=token) as skitter:
        pushed = await skitter.push(job, (f"http://a.test/{i}" for i in range(2500)))
        items = [one async for one in skitter.items(job)]
        done = (await skitter.job(job))["done"]
        story = await skitter.why(job, "http://a.test/0")

    assert (pushed.new, pushed.seen) == (2499, 1)
    assert ([one["n"] for one in items], done, story["state"]) == ([1], 1, "done")


async def test_problems_are_errors_with_their_facts(address, token, server, job):
    async with AsyncClient(address, token=token) as skitter:
        with pytest.raises(ApiError, match="there is no job") as missing:
            await skitter.job(job)
    async with AsyncClient(address, token="skt_wrong") as skitter:
        with pytest.raises(ApiError, match="skitter token new") as wrong:
            await skitter.push(job, ["http://a.test/"])

    assert (missing.value.status, missing.value.field) == (404, "job")
    assert (wrong.value.status, wrong.value.type) == (401, "urn:skitter:unauthorized")


async def test_a_full_queue_is_an_error_or_waited_for(
    address, token, make_frontier, job, monkeypatch
):
    frontier = await make_frontier(rude(max_pending=2))
    pauses = []

    async def make_room(seconds: float) -> None:
        pauses.append(seconds)
        leases = (await frontier.lease(10)).leases
        await frontier.complete([Completion(lease=one) for one in leases])

    async with AsyncClient(address, token=token) as skitter:
        with pytest.raises(ApiError, match="max_pending") as full:
            await skitter.push(job, [f"http://a.test/{i}" for i in range(4)])
        monkeypatch.setattr(AsyncClient, "_sleep", staticmethod(make_room))
        await skitter.push(job, [f"http://a.test/{i}" for i in range(4)], wait=True)

    assert full.value.retry_after_s == 2
    assert pauses[0] == 2
    assert (await frontier.stats()).seen == 4


async def test_a_server_that_is_not_there_is_told_apart(token):
    async with AsyncClient("http://127.0.0.1:9", token=token, timeout_s=5) as skitter:
        with pytest.raises(ServerUnreachable, match=r"answer \(ConnectionError\): .*skitter serve"):
            await skitter.job("x")
