"""A cluster that changes under a crawl: a primary dies, slots move, a node joins."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaos.rig import assert_clean, finished, once, progress, results, rude, until
from chaos.servers import (
    Node,
    cluster_facts,
    follow,
    free_ports,
    in_step,
    join,
    meet,
    move_slot,
    node_id,
    running,
    slots_on,
)
from chaos.worker import links_of, pages, patient
from skitter.crawl.job_loader import Loader
from skitter.embedded import server_binary
from skitter.errors import ServerUnreachable
from skitter.frontier.jobs import create_job, open_job
from skitter.frontier.transport.blocking import blocking_client
from skitter.frontier.transport.connection import connect
from skitter.model import Completion, Request
from skitter.settings import Layout, Safety
from skitter.sinks import open_sink

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skitter.frontier.frontier import Frontier

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

OPTIONS = {
    "cluster-enabled": "yes",
    "cluster-node-timeout": "2000",
    "cluster-replica-validity-factor": "0",
    "repl-diskless-sync-delay": "0",
    "appendonly": "yes",
    "appendfsync": "no",
}
URLS = 3000


@dataclass
class Cluster:
    """Three primaries, a replica of each, and two nodes that are not yet part of it."""

    primaries: list[Node]
    replicas: list[Node]
    newcomer: Node
    its_replica: Node

    @property
    def url(self) -> str:
        return f"redis+cluster://127.0.0.1:{self.primaries[0].port}"

    def in_step(self) -> bool:
        return all(in_step(*pair) for pair in zip(self.primaries, self.replicas, strict=True))

    def all_have_met(self) -> bool:
        new = node_id(self.newcomer)
        known = all(new in one.ask("CLUSTER", "NODES") for one in self.primaries)
        return known and "cluster_state:ok" in cluster_facts(self.newcomer)

    async def fail_over(self, number: int) -> None:
        """A primary dies, its replica takes over, and the dead one comes back as its replica."""
        dead, heir = self.primaries[number], self.replicas[number]
        dead.kill()
        await until(lambda: heir.ask("ROLE")[0] == b"master", what="the replica took over")
        self.primaries[number], self.replicas[number] = heir, dead
        dead.start()
        await until(dead.answers, what="the dead node is back", within_s=30)

    async def move(self, slots: list[int], source: Node, target: Node) -> None:
        others = [one for one in self.primaries if one not in (source, target)]
        for slot in slots:
            await asyncio.to_thread(move_slot, slot, source, target, others)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    base = Path(tempfile.mkdtemp(prefix="skw", dir="/tmp"))
    nodes = [Node(server_binary(), base / str(number), **OPTIONS) for number in range(8)]
    primaries, replicas = nodes[:3], nodes[3:6]
    try:
        with running(nodes):
            await join(primaries)
            for replica, primary in zip(replicas, primaries, strict=True):
                await follow(replica, primary)
            yield Cluster(primaries, replicas, *nodes[6:])
    finally:
        shutil.rmtree(base)


@pytest.mark.parametrize("durability", ["primary", "replicated"])
async def test_a_crawl_of_twelve_shards_ends_exactly_while_the_cluster_changes(
    cluster, fleet, job, durability
):
    options = replace(rude(), safety=Safety(durability=durability))
    async with patient(cluster.url) as server:
        frontier = await create_job(server, job, options=options, layout=Layout(shards=12))
        await frontier.add([Request(url=url) for url in pages(0, URLS)])
        await until(cluster.in_step, what="the replicas have the seeds")
        for _ in range(3):
            fleet.start("work", cluster.url, job, links=2, fetch_s=0.001, lease_s=10)

        await progress(frontier, fleet, by=300)
        await cluster.fail_over(1)

        await progress(frontier, fleet, by=300)
        one, heir, _ = cluster.primaries
        await cluster.move(slots_on(frontier, one), one, heir)

        await progress(frontier, fleet, by=300)
        await meet(cluster.newcomer, one)
        await until(cluster.all_have_met, what="everybody knows the new node")
        await follow(cluster.its_replica, cluster.newcomer)
        moving = slots_on(frontier, heir)
        await cluster.move(moving[::2], heir, cluster.newcomer)
        assert slots_on(frontier, cluster.newcomer) == moving[::2]

        await until(lambda: finished(frontier, fleet), what="the crawl is finished")
        await fleet.dismiss()
        links = [link for url in pages(0, URLS) for link in links_of(url, 2)]
        assert await results(frontier) == once([*pages(0, URLS), *links])
        if durability == "replicated":  # what was acknowledged was never done again
            assert fleet.oracle.urls("done") == once([*pages(0, URLS), *links])
        await assert_clean(frontier)


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_loader_that_waits_goes_on_where_its_items_are_now(cluster, job, tmp_path, shards):
    """Its slot moves to another node, and that node dies, while it waits for the next item."""
    out, stop = tmp_path / "rows.jsonl", asyncio.Event()
    async with patient(cluster.url) as server:
        frontier = await create_job(server, job, options=rude(), layout=Layout(shards=shards))
        loader = Loader(frontier, "loader", lambda *_: None, stop)
        loading = asyncio.create_task(loader.run(lambda: open_sink(str(out), job=job)))

        await store_one(frontier, out, 1)
        one, heir, _ = cluster.primaries
        home = next(node for node in cluster.primaries if slots_on(frontier, node))
        target = heir if home is one else one
        await cluster.move(slots_on(frontier, home), home, target)
        await store_one(frontier, out, 2)
        await until(cluster.in_step, what="the replicas have it")
        await cluster.fail_over(cluster.primaries.index(target))
        await store_one(frontier, out, 3)

        stop.set()
        assert await loading == 3


async def store_one(frontier: Frontier, out: Path, number: int) -> None:
    await frontier.add([Request(url=f"https://a.test/{number}")])
    [lease] = (await frontier.lease(1)).leases
    await frontier.complete([Completion(lease=lease, items=[{"number": number}])])
    await until(
        lambda: out.exists() and len(out.read_text().splitlines()) == number,
        what=f"row {number} is stored",
    )


async def test_a_cluster_is_found_by_the_second_node_when_the_first_is_down(cluster, job):
    [dead] = free_ports(1)
    url = cluster.url.replace("127.0.0.1:", f"127.0.0.1:{dead},127.0.0.1:")
    async with connect(url) as server:
        frontier = await create_job(server, job, options=rude())
        await frontier.add([Request(url="http://a.test/")])
        assert (await frontier.stats()).pending == 1
    assert await asyncio.to_thread(lambda: blocking_client(url).ping())


async def test_who_comes_when_the_first_node_has_just_died_waits_for_its_replica(cluster, job):
    """As `skitter run` and `skitter status` of an operator who does not know of it yet."""
    url = ",".join((cluster.url, *(f"127.0.0.1:{one.port}" for one in cluster.primaries[1:])))
    async with connect(url) as server:
        await create_job(server, job, layout=Layout(shards=12))
    cluster.primaries[0].kill()

    async with connect(url) as server:
        assert (await (await open_job(server, job)).stats()).seen == 0
    assert cluster.replicas[0].ask("ROLE")[0] == b"master"


async def test_an_address_of_dead_nodes_only_is_told_as_such(cluster):
    for one in (*cluster.primaries, *cluster.replicas):
        one.kill()
    url = f"{cluster.url},127.0.0.1:{cluster.primaries[1].port}"
    with pytest.raises(ServerUnreachable, match="none of these nodes answers"):
        async with connect(url):
            pass
