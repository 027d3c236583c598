"""A node that has nothing to do asks less and less often, and cheaply."""

from __future__ import annotations

import pytest

from skitter.frontier.batches import has_messages
from skitter.scrapy.prefetch import pause_s


@pytest.mark.parametrize(
    ("idle_s", "pause"), [(0, 0.25), (2, 0.25), (5, 0.5), (15, 1.5), (20, 2), (10_000, 2)]
)
def test_the_longer_the_cluster_is_idle_the_longer_is_the_pause(idle_s, pause):
    assert pause_s(0.25, idle_s, longest_s=2.0) == pause


async def test_to_look_whether_there_are_messages_costs_one_small_command(frontier, job):
    server, keys = frontier.server, (f"{job}:a", f"{job}:b")

    async def calls() -> dict[str, int]:
        stats = await server.command("INFO", "commandstats")
        return {name: one["calls"] for name, one in stats.items() if name != "cmdstat_info"}

    before = await calls()
    assert not await has_messages(frontier, keys)
    after = await calls()

    spent = {name: n - before.get(name, 0) for name, n in after.items() if n != before.get(name)}
    assert spent == {"cmdstat_exists": 1}
    await server.command("LPUSH", f"{job}:b", "http://a.test/")
    assert await has_messages(frontier, keys)
