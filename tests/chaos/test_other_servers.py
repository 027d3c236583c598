"""The oldest server we support, a cluster, and servers that we refuse: each for a clear reason."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaos.rig import assert_clean, finished, once, progress, results, rude, slow, until
from chaos.servers import (
    Node,
    cluster_facts,
    free_ports,
    join,
    move_slot,
    running,
    slots_on,
)
from chaos.worker import links_of, pages, patient
from needs import need
from skitter.embedded import server_binary
from skitter.errors import ServerRefused, ServerUnfit, ServerUnreachable
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.connection import connect, inspect
from skitter.model import Request
from skitter.settings import Layout, Limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.timeout(300)

DOCS = Path(__file__).parents[2] / "docs"
PASSWORD = "open-sesame"


@pytest.fixture
async def old_redis(tmp_path) -> AsyncIterator[Node]:
    """Redis 7.0 with a password, as Debian 12 has it."""
    with running([Node(need("redis-server"), tmp_path / "redis", requirepass=PASSWORD)]) as [one]:
        await until(one.answers, what="Redis answers", within_s=30)
        yield one


def url_of(one: Node, password: str) -> str:
    return f"redis://:{password}@127.0.0.1:{one.port}/0"


async def crawl(url: str, fleet, job: str, *, layout: Layout, urls: int) -> None:
    """A small crawl with links to other hosts, by two workers; everything is done once."""
    async with connect(url) as server:
        frontier = await create_job(server, job, options=rude(), layout=layout)
        await frontier.add([Request(url=url) for url in pages(0, urls)])
        for _ in range(2):
            fleet.start("work", url, job, links=2)
        await until(lambda: finished(frontier, fleet), what="the crawl is finished")
        await fleet.dismiss()
        links = [link for url in pages(0, urls) for link in links_of(url, 2)]
        assert await results(frontier) == once([*pages(0, urls), *links])
        assert (await frontier.stats()).done == 3 * urls
        await assert_clean(frontier)


@pytest.mark.parametrize("urls", [200, slow(10_000)])
async def test_the_oldest_redis_that_we_support_carries_a_crawl(old_redis, fleet, job, urls):
    url = url_of(old_redis, PASSWORD)
    async with connect(url) as server:
        assert (await inspect(server))[0].version.startswith("7.")
    await crawl(url, fleet, job, layout=Layout(), urls=urls)


async def test_a_server_that_evicts_keys_is_refused(old_redis):
    old_redis.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with pytest.raises(ServerUnfit, match=r"allkeys-lru.*noeviction"):
        async with connect(url_of(old_redis, PASSWORD)):
            pass


@pytest.mark.parametrize("url", ["redis://:wrong@127.0.0.1:{}", "redis://127.0.0.1:{}"])
async def test_a_wrong_password_and_none_are_refused_with_what_to_do(old_redis, url):
    with pytest.raises(ServerRefused, match="password") as refused:
        async with connect(url.format(old_redis.port)):
            pass
    assert "wrong@" not in str(refused.value)


async def test_a_port_where_nobody_listens_is_unreachable():
    [port] = free_ports(1)
    with pytest.raises(ServerUnreachable, match=rf"127\.0\.0\.1:{port} does not answer"):
        async with connect(f"redis://127.0.0.1:{port}"):
            pass


CLUSTER = {
    "cluster-enabled": "yes",
    "cluster-node-timeout": "2000",
    "appendonly": "yes",
    "appendfsync": "no",  # what is answered is written, and a kill leaves it there
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[list[Node]]:
    """Three nodes that share the slots."""
    base = Path(tempfile.mkdtemp(prefix="skc", dir="/tmp"))
    try:
        nodes = [Node(server_binary(), base / str(number), **CLUSTER) for number in range(3)]
        with running(nodes):
            asyncio.run(join(nodes))
            yield nodes
    finally:
        shutil.rmtree(base)


def cluster_url(nodes: list[Node]) -> str:
    return f"redis+cluster://127.0.0.1:{nodes[0].port}"


@pytest.mark.parametrize("urls", [200, slow(10_000)])
async def test_a_job_of_six_shards_is_crawled_on_a_cluster_of_three_nodes(
    cluster, fleet, job, urls
):
    await crawl(cluster_url(cluster), fleet, job, layout=Layout(shards=6), urls=urls)
    keys = [one.ask("DBSIZE") for one in cluster]
    assert min(keys) > 0, f"a node had no part in it: {keys}"


def least_rights() -> list[str]:
    """What docs/security.md gives a user, with what docs/howto/cluster.md adds."""
    found = re.search(r"user crawler on >PASSWORD (.+)", (DOCS / "security.md").read_text())
    more = re.search(r"also needs `(.+?)`", (DOCS / "howto/cluster.md").read_text())
    assert found
    assert more
    return [*found[1].split(), more[1]]


async def test_a_user_with_least_rights_crawls_on_a_cluster(cluster, fleet, job):
    for one in cluster:
        one.ask("ACL", "SETUSER", "crawler", "on", f">{PASSWORD}", *least_rights())
        one.ask("ACL", "LOG", "RESET")
    url = cluster_url(cluster).replace("//", f"//crawler:{PASSWORD}@")

    await crawl(url, fleet, job, layout=Layout(shards=6), urls=50)
    refused = [entry for one in cluster for entry in one.ask("ACL LOG")]
    assert {entry["object"] for entry in refused} <= {"config|get"}  # which it can do without


async def test_max_pages_is_exact_over_the_nodes_of_a_cluster(cluster, fleet, job):
    options = replace(rude(), limits=Limits(max_pages=57))
    async with patient(cluster_url(cluster)) as server:
        frontier = await create_job(server, job, options=options, layout=Layout(shards=6))
        await frontier.add([Request(url=url) for url in pages(0, 200)])
        for _ in range(2):
            fleet.start("work", cluster_url(cluster), job, batch=8)
        await fleet.ready(2)
        await until(lambda: finished(frontier, fleet), what="the crawl is finished")
        await fleet.dismiss()
        assert len(await results(frontier)) == (await frontier.stats()).done == 57
        await assert_clean(frontier)


async def begin(server, cluster, fleet, job, *, urls):
    """A job of six shards and two workers that have begun."""
    frontier = await create_job(server, job, options=rude(), layout=Layout(shards=6))
    await frontier.add([Request(url=url) for url in pages(0, urls)])
    for _ in range(2):
        fleet.start("work", cluster_url(cluster), job, fetch_s=0.001, lease_s=60)
    await progress(frontier, fleet, by=urls // 10)
    return frontier


async def test_workers_ride_through_a_node_of_the_cluster_that_is_killed(cluster, fleet, job):
    async with patient(cluster_url(cluster)) as server:
        frontier = await begin(server, cluster, fleet, job, urls=1000)
        cluster[1].kill()
        await until(
            lambda: "cluster_state:fail" in cluster_facts(cluster[0]), what="the others noticed"
        )
        cluster[1].start()
        await until(lambda: finished(frontier, fleet), what="the crawl is finished")
        await fleet.dismiss()
        assert fleet.oracle.urls("done") == await results(frontier) == once(pages(0, 1000))
        await assert_clean(frontier)


async def test_workers_follow_shards_that_move_to_another_node(cluster, fleet, job):
    async with patient(cluster_url(cluster)) as server:
        frontier = await begin(server, cluster, fleet, job, urls=300)
        for source, target, other in (cluster, cluster[::-1]):
            moving = slots_on(frontier, source)
            assert moving
            for slot in moving:
                await asyncio.to_thread(move_slot, slot, source, target, [other])
        await until(lambda: finished(frontier, fleet), what="the crawl is finished")
        await fleet.dismiss()
        assert fleet.oracle.urls("done") == await results(frontier) == once(pages(0, 300))
        await assert_clean(frontier)


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_a_cluster_of_which_one_node_evicts_keys_is_refused(cluster, number):
    cluster[number].ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(ServerUnfit, match="allkeys-lru"):
            async with connect(cluster_url(cluster)):
                pass
    finally:
        cluster[number].ask("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_a_cluster_of_which_no_node_listens_is_unreachable():
    [port] = free_ports(1)
    with pytest.raises(ServerUnreachable, match=rf"127\.0\.0\.1:{port} does not answer"):
        async with connect(f"redis+cluster://127.0.0.1:{port}"):
            pass


async def test_a_cluster_that_wants_a_password_says_so(old_redis):
    with pytest.raises(ServerRefused, match="password"):
        async with connect(f"redis+cluster://127.0.0.1:{old_redis.port}"):
            pass


async def test_a_single_server_taken_for_a_cluster_is_unfit(old_redis):
    with pytest.raises(ServerUnfit, match="cluster"):
        async with connect(f"redis+cluster://:{PASSWORD}@127.0.0.1:{old_redis.port}"):
            pass
