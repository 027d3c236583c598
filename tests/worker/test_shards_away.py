"""One server of many is away: pages of the others go on, and nothing becomes a dead letter."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from attempts import attempts_of
from chaos.rig import PrivateServer
from chaos.servers import Node, join, running, slots_on
from conftest import rude
from skitter.embedded import server_binary
from skitter.engine.delivery import Delivery
from skitter.engine.loop import Worker
from skitter.engine.parts import WorkerOptions
from skitter.fetch.http.fetcher import StaticFetcher
from skitter.frontier.audit.auditor import audit
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job
from skitter.frontier.transport import shard_calls
from skitter.frontier.transport.connection import connect
from skitter.frontier.workers import read_log
from skitter.model import Request
from skitter.observe.logs import ClusterLog
from skitter.settings import Layout
from skitter.spider import Spider
from waiting import until_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

pytestmark = pytest.mark.timeout(60)

HOSTS = [f"h{number}.test" for number in range(40)]
SHARDS = 3
LEASE_S = 1.0


@dataclass
class Spread:
    """A job over several servers, and the numbers of the shards on that which goes away."""

    frontier: Frontier
    theirs: set[int]
    stop: Callable[[], None]
    resume: Callable[[], None]

    def urls(self, *, away: bool, path: str) -> list[str]:
        """Pages of hosts whose shards are away, or are not."""
        of = self.frontier.layout.shard_of
        return [f"https://{host}/{path}" for host in HOSTS if (of(host) in self.theirs) is away]


@pytest.fixture
async def make_spread(job: str) -> AsyncIterator[Callable[[int], Awaitable[Spread]]]:
    """Shards on two servers, the last or the first of them on the one that goes away."""
    servers = [PrivateServer(), PrivateServer()]
    async with AsyncExitStack() as stack:
        for one in servers:
            stack.callback(one.close)
            one.start()

        async def make(theirs: int) -> Spread:
            layout = Layout(shards=SHARDS)
            here, there = [
                await create_job(
                    await stack.enter_async_context(connect(one.url)),
                    job,
                    options=rude(),
                    layout=layout,
                )
                for one in servers
            ]
            here.shards[theirs] = there.shards[theirs]
            pid = int((servers[1].home.directory / "valkey.pid").read_text())
            stack.callback(os.kill, pid, signal.SIGCONT)
            return Spread(
                here,
                {theirs},
                lambda: os.kill(pid, signal.SIGSTOP),
                lambda: os.kill(pid, signal.SIGCONT),
            )

        yield make


def make_worker(frontier: Frontier, fetcher: StaticFetcher, **options) -> Worker:
    spider = Spider("w", [f"https://{host}/" for host in HOSTS])

    @spider.page
    def describe(page):
        yield {"url": page.url}
        yield from page.follow_all()

    logbook = ClusterLog()
    attempts = attempts_of(spider, fetcher, log=logbook)
    outbox = Delivery(frontier, attempts.parts.memory, logbook)
    return Worker(frontier, attempts, outbox, logbook, WorkerOptions(**options))


async def done_on(frontier: Frontier, shards: set[int]) -> int:
    counts = [await frontier.shards[number].counts() for number in shards]
    return sum(one.get("done", 0) for _, one in counts)


async def crawl_while_it_is_away(spread: Spread) -> None:
    """Pages of healthy shards are done meanwhile, but for those that link to one that is away."""
    frontier, healthy = spread.frontier, set(range(len(spread.frontier.shards))) - spread.theirs
    first, later, absent_ones = (
        spread.urls(away=False, path="first"),
        spread.urls(away=False, path="later"),
        spread.urls(away=True, path="absent"),
    )
    linking = spread.urls(away=False, path="linking")
    links = spread.urls(away=True, path="linked")
    body = "".join(f'<a href="{url}">x</a>' for url in links).encode()
    bodies = dict.fromkeys([*first, *later, *absent_ones, *links], b"page")
    bodies |= dict.fromkeys(linking, body)
    await frontier.add([Request(url=url) for url in first])
    worker = make_worker(frontier, StaticFetcher(bodies), lease_s=LEASE_S, keep_alive=True)
    work = asyncio.create_task(worker.run())
    await until_async(lambda: all_done(frontier, healthy, len(first)))
    await frontier.add([Request(url=url) for url in absent_ones])
    spread.stop()

    began = asyncio.get_running_loop().time()
    await frontier.add([Request(url=url) for url in linking])
    for number in range(3):  # longer than leases last, each time
        some = later[number::3]
        await frontier.add([Request(url=url) for url in some])
        count = len(first) + sum(len(later[n::3]) for n in range(number + 1))
        await until_async(partial(all_done, frontier, healthy, count))
        passed_s = asyncio.get_running_loop().time() - began
        await asyncio.sleep((number + 1) * 1.5 * LEASE_S - passed_s)
    assert not work.done()

    spread.resume()
    total = len(bodies)
    await until_async(lambda: all_done(frontier, healthy | spread.theirs, total))
    worker.stop()
    await work
    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.leased, stats.crawled) == (total, 0, 0, True)
    report = await audit(frontier)
    assert report.clean, sorted(report.problems)[:20]


async def all_done(frontier: Frontier, shards: set[int], count: int) -> bool:
    return await done_on(frontier, shards) >= count


@pytest.mark.parametrize("theirs", [SHARDS - 1, 0], ids=["another", "the job's own"])
async def test_a_server_that_hangs_holds_up_only_its_own_shard(make_spread, monkeypatch, theirs):
    monkeypatch.setattr(shard_calls, "SLOW_S", 0.5)
    spread = await make_spread(theirs)

    await crawl_while_it_is_away(spread)

    said = [one.text for one in await read_log(spread.frontier)]
    assert sum(text.startswith("1 of 3 shards away") for text in said) == 1
    assert sum(text == "all shards are back" for text in said) == 1


async def test_what_a_cancelled_call_was_given_is_given_back(make_spread):
    spread = await make_spread(SHARDS - 1)
    frontier: Frontier = spread.frontier
    await frontier.add([Request(url=f"https://{host}/") for host in HOSTS])
    spread.stop()
    call = asyncio.create_task(frontier.lease(len(HOSTS) * SHARDS))

    async def the_others_have_answered() -> bool:
        counts = [await frontier.shards[number].counts() for number in range(SHARDS - 1)]
        return all(one.get("leased", 0) > 0 for _, one in counts)

    await until_async(the_others_have_answered)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    spread.resume()

    async def all_is_pending() -> bool:
        stats = await frontier.stats()
        return stats.pending == len(HOSTS)

    await until_async(all_is_pending)
    stats = await frontier.stats()
    assert (stats.leased, stats.lost) == (0, 0)


@pytest.fixture
async def cluster() -> AsyncIterator[list[Node]]:
    """Three nodes without replicas, of which those that are left go on."""
    base = Path(tempfile.mkdtemp(prefix="skw", dir="/tmp"))
    options = {
        "cluster-enabled": "yes",
        "cluster-node-timeout": "2000",
        "cluster-require-full-coverage": "no",
        "appendonly": "yes",
        "appendfsync": "no",
    }
    nodes = [Node(server_binary(), base / str(number), **options) for number in range(3)]
    try:
        with running(nodes):
            await join(nodes)
            yield nodes
    finally:
        shutil.rmtree(base)


@pytest.mark.chaos
@pytest.mark.parametrize("how", ["hangs", "is killed"])
async def test_a_node_of_a_cluster_that_is_away_holds_up_only_its_shards(
    cluster, job, monkeypatch, how
):
    monkeypatch.setattr(shard_calls, "SLOW_S", 1.0)
    url = f"redis+cluster://127.0.0.1:{cluster[0].port}"
    async with connect(url) as server:
        frontier = await create_job(server, job, options=rude(), layout=Layout(shards=12))
        node = next(one for one in cluster[1:] if slots_on(frontier, one))
        slots = slots_on(frontier, node)
        theirs = {
            shard.keys.shard
            for shard in frontier.shards
            if node.ask("CLUSTER", "KEYSLOT", shard.keys.key("control")) in slots
        }
        stop, resume = (
            (lambda: node.send(signal.SIGSTOP), lambda: node.send(signal.SIGCONT))
            if how == "hangs"
            else (node.kill, node.start)
        )
        await crawl_while_it_is_away(Spread(frontier, theirs, stop, resume))
