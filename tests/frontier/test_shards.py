"""Where hosts live in a job of several shards."""

import msgspec

from skitter.frontier.jobs import create_job
from skitter.frontier.transport.keys import JOBS
from skitter.model import Completion, Request
from skitter.settings import Layout

FAMILY = [f"https://{name}.shop.test/" for name in ("www", "cdn", "api", "m", "a", "b", "c")]


async def test_hosts_of_one_domain_share_a_shard(make_frontier):
    frontier = await make_frontier(None, Layout(shards=16))
    assert len({frontier.shard_for(url.split("/")[2]).keys.shard for url in FAMILY}) == 1


async def test_a_job_of_an_older_release_keeps_its_hosts_where_they_are(server, job):
    old = msgspec.to_builtins(Layout(shards=16))
    del old["domains_together"]
    await server.command("HSET", JOBS, job, msgspec.json.encode(old))
    frontier = await create_job(server, job, layout=Layout(shards=16))
    assert len({frontier.shard_for(url.split("/")[2]).keys.shard for url in FAMILY}) > 1

    await frontier.add([Request(url) for url in FAMILY])
    leases = (await frontier.lease(100)).leases
    assert len(leases) == len(FAMILY)
    await frontier.complete([Completion(lease=lease) for lease in leases])
    assert (await frontier.stats()).done == len(FAMILY)
