"""durability = "replicated": what is acknowledged is on a replica too, and survives its primary."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaos.rig import assert_clean, once, progress, results, rude, until
from chaos.servers import Node, in_step, running
from chaos.worker import pages, patient
from skitter.embedded import server_binary
from skitter.errors import ServerUnreachable
from skitter.frontier.control import change_options
from skitter.frontier.jobs import create_job, open_job
from skitter.frontier.transport.connection import connect
from skitter.frontier.transport.sync import WAIT_MS
from skitter.model import Completion, Ended, Request
from skitter.settings import Safety
from storm.wire import Wire, open_wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skitter.frontier.frontier import Frontier

pytestmark = pytest.mark.timeout(300)

SAFE = replace(rude(), safety=Safety(durability="replicated"))
LONG_S = 600.0


@dataclass
class Pair:
    """A primary, its replica, and the wire between them."""

    primary: Node
    replica: Node
    wire: Wire

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.primary.port}"

    def waiting(self) -> int:
        """How many calls wait for the replica."""
        return int(self.primary.ask("INFO", "clients")["blocked_clients"])

    @asynccontextmanager
    async def after_failover(self, job: str) -> AsyncIterator[Frontier]:
        """The job, as the replica has it when its primary has died."""
        self.primary.kill()
        self.replica.ask("REPLICAOF", "NO", "ONE")
        async with connect(f"redis://127.0.0.1:{self.replica.port}") as server:
            yield await open_job(server, job)


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    base = Path(tempfile.mkdtemp(prefix="skr", dir="/tmp"))
    primary = Node(server_binary(), base / "one", **{"repl-diskless-sync-delay": "0"})
    async with open_wire(primary.port) as wire:
        replica = Node(server_binary(), base / "two", replicaof=f"127.0.0.1 {wire.port}")
        with running([primary, replica]):
            for one in (primary, replica):
                await until(one.answers, what="both answer", within_s=30)
            await until(
                lambda: replica.ask("INFO", "replication")["master_link_status"] == "up",
                what="the replica has its primary",
            )
            yield Pair(primary, replica, wire)
    shutil.rmtree(base)


async def leased(frontier: Frontier) -> list[Completion]:
    await frontier.add([Request(url=url) for url in pages(0, 3)])
    found = (await frontier.lease(3)).leases
    return [Completion(lease=lease, items=[{"url": lease.url}]) for lease in found]


async def done(frontier: Frontier) -> int:
    return (await frontier.stats()).done


async def complete_without_the_replica(pair: Pair, frontier: Frontier) -> asyncio.Task[list[Ended]]:
    """The primary has done it, and the call is not over."""
    completions = await leased(frontier)
    pair.wire.hold(LONG_S)
    sent = asyncio.create_task(frontier.complete(completions))
    await until(lambda: done(frontier), what="the primary has it")
    return sent


async def test_a_completion_is_acknowledged_when_the_replica_has_it_and_not_before(pair, job):
    async with patient(pair.url) as server:
        frontier = await create_job(server, job, options=SAFE)
        sent = await complete_without_the_replica(pair, frontier)
        await until(pair.waiting, what="the call waits for the replica")
        assert not sent.done()
        pair.wire.release()
        assert await sent == [Ended.DONE] * 3
        async with pair.after_failover(job) as survivor:
            assert await results(survivor) == once(pages(0, 3))
            await assert_clean(survivor)


async def test_a_replica_that_stays_away_is_an_error_that_says_so_and_may_be_repeated(pair, job):
    async with connect(pair.url) as server:
        frontier = await create_job(server, job, options=SAFE)
        completions = await leased(frontier)
        await until(lambda: in_step(pair.primary, pair.replica), what="the replica has the leases")
        server.patience_s = 0.0
        pair.wire.hold(LONG_S)
        with pytest.raises(ServerUnreachable, match=r"no replica has confirmed.*durability") as no:
            await frontier.complete(completions)
        assert no.value.retryable

        # What was not acknowledged may be lost with its primary: then the repeat is the first.
        async with pair.after_failover(job) as survivor:
            assert await results(survivor) == {}
            await change_options(survivor, {"durability": "primary"})  # it has no replica yet
            assert await survivor.complete(completions) == [Ended.DONE] * 3
            assert await results(survivor) == once(pages(0, 3))
            await assert_clean(survivor)


async def test_a_repeat_on_another_connection_is_not_acknowledged_without_the_replica(pair, job):
    """WAIT on a connection that wrote nothing answers at once, whatever others have written."""
    async with patient(pair.url) as server:
        frontier = await create_job(server, job, options=SAFE)
        sent = await complete_without_the_replica(pair, frontier)
        for _ in range(2):
            pair.primary.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await until(pair.waiting, what="the repeat waits too")
            assert not sent.done()
        pair.wire.release()
        assert await sent == [Ended.DONE] * 3


async def test_without_it_a_completion_waits_for_nobody_and_may_be_lost(pair, job):
    async with patient(pair.url) as server:
        frontier = await create_job(server, job, options=rude())
        completions = await leased(frontier)
        await until(lambda: in_step(pair.primary, pair.replica), what="the replica has the leases")
        pair.wire.hold(LONG_S)
        assert await frontier.complete(completions) == [Ended.DONE] * 3
        async with pair.after_failover(job) as survivor:
            lost = once(pages(0, 3)) - await results(survivor)
            assert lost == once(pages(0, 3)), "this is the window that the docs name"
            stats = await survivor.stats()
            assert stats.pending + stats.leased == 3, "they are done again"
            await assert_clean(survivor)


async def test_it_is_an_option_of_a_job_that_may_change_while_it_runs(pair, job):
    async with patient(pair.url) as server:
        frontier = await create_job(server, job)
        await change_options(frontier, {"durability": "replicated"})
        assert (await open_job(server, job)).options.safety.replicated
        pair.wire.hold(WAIT_MS / 1000)
        await frontier.add([Request(url="https://h.test/")])
        async with pair.after_failover(job) as survivor:
            assert (await survivor.stats()).pending == 1


async def test_nothing_that_workers_heard_to_be_done_is_lost_with_the_primary(pair, fleet, job):
    async with patient(pair.url) as server:
        frontier = await create_job(server, job, options=SAFE)
        await frontier.add([Request(url=url) for url in pages(0, 400)])
        for _ in range(2):
            fleet.start("work", pair.url, job, links=2, lease_s=60)
        await progress(frontier, fleet, by=60)
        pair.wire.hold(LONG_S)
        await until(pair.waiting, what="a worker waits for the replica")
    pair.primary.kill()
    for one in fleet.living:
        fleet.kill(one)
    heard = fleet.oracle.urls("done")
    assert sum(heard.values()) < 1200, "the crawl was under way"
    async with pair.after_failover(job) as survivor:
        assert not heard - await results(survivor)
        await assert_clean(survivor)
