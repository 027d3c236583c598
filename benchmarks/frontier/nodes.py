"""nodes: add + lease + complete on clusters of 1, 2 and 3 nodes, and the work of each node.

The time per URL is limited by this machine, with all nodes and the client on its cores. How it
would scale beyond shows in the work of the busiest node: half on two nodes, a third on three.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from benchmarks.cluster import open_cluster, port_of
from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns
from benchmarks.ground import RUDE, add_and_finish, check_done, make_urls
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.connection import connect
from skitter.frontier.transport.keys import ShardKeys
from skitter.settings import Layout

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

JOB, SHARDS = "nodes", 12
TIME = Figure("us/URL", min, inverse=True, name="time")
WORK = Figure("us/URL", min, name="processor time of the busiest node")
CALLS = Figure("calls", min, name="calls to the busiest node per 1,000 URLs")


@dataclass(frozen=True, kw_only=True)
class Nodes(Part):
    """The same job with 12 shards on each cluster."""

    name: ClassVar[str] = "nodes"
    urls: int = 100_000
    hosts: int = 1_000
    nodes: tuple[int, ...] = (1, 2, 3)
    rounds: int = 2

    async def measure(self, ground: Ground) -> list[Row]:
        urls = make_urls(self.urls, hosts=self.hosts)
        clusters = [
            Contender(f"{count} nodes", partial(run, ground, urls, nodes=count))
            for count in self.nodes
        ]
        await take_turns(ground, clusters, part=self.name, rounds=self.rounds)
        return [
            self._row(one, clusters[0], figure, count)
            for figure in (TIME, WORK, CALLS)
            for one, count in zip(clusters, self.nodes, strict=True)
        ]

    def _row(self, one: Contender, first: Contender, figure: Figure, nodes: int) -> Row:
        most = 1.25 / nodes  # hosts are spread by hash, so shards differ a little
        goal = Goal(f"at most {most:.2f} of one node's", most=most)
        return Row(
            what=f"{self.urls:,} URLs, {SHARDS} shards, {one.name}: {figure.name}",
            figure=figure,
            ours=one,
            theirs=None if one is first else first,
            beside="" if one is first else "one node",
            goal=goal if figure is WORK and one is not first else None,
        )


async def run(ground: Ground, urls: list[str], *, nodes: int) -> Sample:
    directory = ground.directory / f"cluster-{time.monotonic_ns()}"
    directory.mkdir()
    keys = [ShardKeys(JOB, number).key("control") for number in range(SHARDS)]
    async with open_cluster(directory, nodes=nodes, keys=keys) as members:
        async with connect(f"redis+cluster://127.0.0.1:{port_of(members[0])}") as server:
            layout = Layout(shards=SHARDS)
            frontier = await create_job(server, JOB, options=RUDE, layout=layout)
            before = [await _work(node) for node in members]
            took = await add_and_finish(frontier, urls)
            await check_done(frontier, len(urls))
        after = [await _work(node) for node in members]
    used = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(before, after, strict=True)]
    return {
        TIME: [took / len(urls) * 1e6],
        WORK: [max(work for work, _ in used) / len(urls)],
        CALLS: [1000 * max(calls for _, calls in used) / len(urls)],
    }


async def _work(node: Redis) -> tuple[float, int]:
    """Microseconds of its main thread, and the number of scripts it ran."""
    info = await node.info("everything")
    spent = info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"]
    return 1e6 * spent, int(info.get("cmdstat_evalsha", {}).get("calls", 0))
