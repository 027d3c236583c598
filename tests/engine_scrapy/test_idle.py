"""A node that has nothing to do asks less and less often, and cheaply."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from skitter.frontier.feed import has_messages
from skitter.scrapy.node.mailbox import Mailbox
from skitter.scrapy.node.prefetch import FeedOptions, FeedReader, pause_s


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


def test_messages_are_read_as_requests_begin_and_not_held_up_by_hosts_that_rest():
    mailbox, prefetch = Mailbox(), SimpleNamespace(is_drained=False)
    reader: Any = FeedReader(
        frontier=cast("Any", None),
        options=FeedOptions(("a",), batch_size=4),
        engine=cast("Any", None),
        mailbox=mailbox,
        prefetch=cast("Any", prefetch),
        read=lambda messages: None,
        on_problem=lambda problem: None,
    )
    reader._look_at = time.monotonic() + 5  # as after a batch
    assert reader._has_room()

    mailbox.fed = 4
    assert not reader._has_room()
    mailbox.begun = 1
    assert reader._has_room()
    mailbox.fed, mailbox.begun = 8, 1
    assert not reader._has_room()
    prefetch.is_drained = True
    assert reader._has_room(), "others have begun them"
    prefetch.is_drained, mailbox.fed = False, 20
    assert not reader._has_room()
    reader._look_at -= 11
    assert reader._has_room(), "nothing has begun for a while"
    mailbox.is_fed = True
    assert not reader._has_room(), "but something is about to"
