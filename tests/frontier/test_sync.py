"""Coroutines without an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from skitter import JobOptions, Layout, Politeness, Request
from skitter.app import open_frontier
from skitter.errors import BadOption
from skitter.frontier.transport.blocking import SyncClient
from skitter.frontier.transport.connection import connect
from skitter.frontier.transport.messages import side_by_side
from skitter.frontier.transport.sync import has_loop, in_thread, pause, run_sync
from skitter.model import Added, Completion, Ended

QUICK = JobOptions(politeness=Politeness(delay_s=0, max_in_flight=100))


async def one(value: int) -> int:
    await pause(0)
    return value


async def refuse() -> int:
    raise ValueError("no")


def test_a_coroutine_that_waits_for_nothing_needs_no_loop():
    assert run_sync(one(7)) == 7
    assert run_sync(in_thread(threading.get_ident)) == threading.get_ident()


def test_one_that_waits_for_a_loop_is_refused():
    async def waits() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="waits for an event loop"):
        run_sync(waits())


def test_without_a_loop_work_is_done_in_turn_and_an_error_ends_the_rest():
    assert run_sync(side_by_side([one(1), one(2), one(3)])) == [1, 2, 3]
    with pytest.raises(ValueError, match="no"):  # and no warning of a coroutine never awaited
        run_sync(side_by_side([one(1), refuse(), one(3)]))


async def test_in_a_loop_what_blocks_is_called_in_a_thread():
    assert has_loop()
    assert await in_thread(threading.get_ident) != threading.get_ident()


def test_a_sharded_job_works_from_its_urls_to_its_stats(job, server_url):
    async def crawl() -> tuple[list[Added], list[Ended], int]:
        async with open_frontier(
            job, redis=server_url, options=QUICK, layout=Layout(shards=4)
        ) as frontier:
            assert isinstance(frontier.server.client, SyncClient)
            added = await frontier.add(Request(url=f"https://h{n}.test/") for n in range(20))
            leases = (await frontier.lease(80)).leases
            ended = await frontier.complete([Completion(lease=lease) for lease in leases])
            return added, ended, (await frontier.stats()).done

    assert run_sync(crawl()) == ([Added.NEW] * 20, [Ended.DONE] * 20, 20)


def test_an_interrupted_call_leaves_no_answer_behind_for_the_next(server_url):
    async def interrupted() -> object:
        async with connect(server_url) as server:
            client: Any = server.client
            sha = await client.script_load("return ARGV[1]")
            assert await client.execute_command("EVALSHA", sha, 0, "first") == b"first"
            read, client._connection.read_response = client._connection.read_response, _interrupt
            with pytest.raises(KeyboardInterrupt):
                await client.execute_command("EVALSHA", sha, 0, "second")
            client._connection.read_response = read
            return await client.execute_command("EVALSHA", sha, 0, "third")

    assert run_sync(interrupted()) == b"third"


def _interrupt(*_: object, **__: object) -> object:
    raise KeyboardInterrupt


@pytest.mark.parametrize("url", ["ftp://a", "redis://localhost/jobs", "redis+sentinel://localhost"])
def test_a_bad_address_is_refused_in_the_same_words(url):
    async def open_it() -> None:
        async with connect(url):
            pass

    with pytest.raises(BadOption) as in_sync:
        run_sync(open_it())
    with pytest.raises(BadOption) as in_a_loop:
        asyncio.run(open_it())
    assert str(in_sync.value) == str(in_a_loop.value)
