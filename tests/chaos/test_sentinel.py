"""A master that dies, a sentinel that makes its replica the new one, and a crawl that goes on."""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import waiting
from chaos.rig import assert_clean, finished, once, progress, results, rude, until
from chaos.servers import Node, Sentinel, in_step, running
from chaos.worker import pages, patient
from skitter.embedded import server_binary
from skitter.errors import ServerUnreachable
from skitter.frontier.jobs import create_job, open_job
from skitter.frontier.transport.connection import connect
from skitter.model import Request
from skitter.queue import URLQueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

pytestmark = pytest.mark.timeout(300)

SERVICE = "skitter-main"


@pytest.fixture
def base() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="sks", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def url_of() -> Iterator[Callable[[Sentinel], str]]:
    """The first one is not there: whoever answers is asked."""
    with socket.socket() as nobody:  # has the port, and does not listen
        nobody.bind(("127.0.0.1", 0))
        away = f"127.0.0.1:{nobody.getsockname()[1]}"
        yield lambda sentinel: f"redis+sentinel://{away},127.0.0.1:{sentinel.port}/{SERVICE}"


@dataclass
class Pair:
    master: Node
    replica: Node
    url: str


@pytest.fixture
async def pair(base, url_of) -> AsyncIterator[Pair]:
    """A master, its replica, and a sentinel that knows both."""
    master = Node(server_binary(), base / "one", appendonly="yes")
    replica = Node(server_binary(), base / "two", replicaof=f"127.0.0.1 {master.port}")
    sentinel = Sentinel(server_binary(), base / "sentinel", service=SERVICE, master=master)
    with running([master, replica, sentinel]):
        for one in (master, replica, sentinel):
            await until(one.answers, what="everybody answers", within_s=30)
        await until(lambda: sentinel.knows_a_replica(), what="the sentinel has met the replica")
        yield Pair(master, replica, url_of(sentinel))


async def test_a_crawl_goes_on_after_a_failover(pair, fleet, job):
    async with patient(pair.url) as server:
        frontier = await create_job(server, job, options=rude())
        await frontier.add([Request(url=url) for url in pages(0, 600)])
        await until(lambda: in_step(pair.master, pair.replica), what="the replica has the seeds")
        for _ in range(2):
            fleet.start("work", pair.url, job, fetch_s=0.002, lease_s=5)
        await progress(frontier, fleet, by=60)

        pair.master.kill()

        await until(lambda: finished(frontier, fleet), what="the crawl is finished")
        await fleet.dismiss()
        assert pair.replica.ask("ROLE")[0] == b"master"
        # What the replica had not yet heard of is done again; nothing is missing or twice.
        assert await results(frontier) == once(pages(0, 600))
        await assert_clean(frontier)


async def test_who_comes_when_the_master_has_just_died_waits_for_its_replica(pair, job):
    """As `skitter status` of an operator who does not know of it yet; and a queue."""
    async with patient(pair.url) as server:
        await (await create_job(server, job)).add([Request(url="http://a.test/")])
    await until(lambda: in_step(pair.master, pair.replica), what="the replica has the job")
    pair.master.kill()

    async with connect(pair.url) as server:
        assert (await (await open_job(server, job)).stats()).pending == 1
    assert pair.replica.ask("ROLE")[0] == b"master"


async def test_a_queue_that_opens_when_the_master_has_just_died_waits(pair, job):
    def push() -> bool:
        with URLQueue(job, redis=pair.url) as queue:
            return queue.push("http://a.test/")

    pair.master.kill()
    assert await asyncio.to_thread(push)


async def test_a_queue_goes_on_after_a_failover(pair, job):
    def push_and_pop() -> list[str]:
        with URLQueue(job, redis=pair.url, options=rude()) as queue:
            assert queue._frontier is not None
            queue._frontier.server.patience_s = 60
            queue.push("http://a.test/1")
            waiting.until(lambda: in_step(pair.master, pair.replica))
            pair.master.kill()
            queue.push("http://a.test/2")
            return [task.url for task in queue.pop_many(2)]

    assert await asyncio.to_thread(push_and_pop) == ["http://a.test/1", "http://a.test/2"]
    assert pair.replica.ask("ROLE")[0] == b"master"


async def test_a_service_that_no_sentinel_knows_is_unreachable(base, url_of):
    master = Node(server_binary(), base / "one")
    sentinel = Sentinel(server_binary(), base / "sentinel", service="other", master=master)
    with running([master, sentinel]):
        await until(sentinel.answers, what="the sentinel answers", within_s=30)
        with pytest.raises(ServerUnreachable, match="no sentinel there knows a master") as refused:
            async with connect(url_of(sentinel)):
                pass
        assert len(str(refused.value)) < 250


async def test_a_crawl_through_a_sentinel_with_a_password(base, url_of, fleet, job):
    master = Node(server_binary(), base / "one", requirepass="open-sesame")
    sentinel = Sentinel(server_binary(), base / "sentinel", service=SERVICE, master=master)
    url = url_of(sentinel).replace("//", "//:open-sesame@")
    with running([master, sentinel]):
        for one in (master, sentinel):
            await until(one.answers, what="both answer", within_s=30)
        async with connect(url) as server:
            frontier = await create_job(server, job, options=rude())
            await frontier.add([Request(url=url) for url in pages(0, 50)])
            fleet.start("work", url, job)
            await until(lambda: finished(frontier, fleet), what="the crawl is finished")
            await fleet.dismiss()
            await assert_clean(frontier)
