"""A node that has nothing to do asks less and less often, and cheaply."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from scrapy import Spider
from scrapy.settings import Settings

from skitter.frontier.feed import has_messages
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.connection import Server, connect
from skitter.model import Completion, Request
from skitter.scrapy.node.cookies import SharedSessions
from skitter.scrapy.node.mailbox import Mailbox
from skitter.scrapy.node.prefetch import FeedOptions, FeedReader, Prefetch, pause_s
from skitter.scrapy.settings import read_options


@pytest.mark.parametrize(
    ("idle_s", "pause"), [(0, 0.25), (2, 0.25), (5, 0.5), (15, 1.5), (20, 2), (10_000, 2)]
)
def test_the_longer_the_cluster_is_idle_the_longer_is_the_pause(idle_s, pause):
    assert pause_s(0.25, idle_s, longest_s=2.0) == pause


async def test_an_idle_node_looks_with_two_commands_and_sees_what_others_add(frontier, job):
    options = read_options(Settings({"SKITTER_JOB": job}), Spider("books"))
    mailbox = Mailbox()
    prefetch = Prefetch(frontier, options, mailbox, SharedSessions(frontier, mailbox))
    [_, lease] = [await frontier.add([Request(url="http://a.test/")]), await frontier.lease(1)]
    await frontier.complete([Completion(lease=lease.leases[0])])
    await prefetch.take()
    prefetch._moved_at -= 60  # nothing has happened for a minute
    await prefetch.take()
    assert mailbox.idle_s > 60
    await prefetch.take()
    before = await calls(frontier.server)

    await prefetch.take()

    after = await calls(frontier.server)
    assert {name: n - before[name] for name, n in after.items() if n != before[name]} == {
        "cmdstat_hmget": 2
    }
    assert mailbox.finished_at == mailbox.version, "it still knows that the crawl is over"
    await frontier.add([Request(url="http://a.test/2")])
    await prefetch.take()
    assert [one.url for one in mailbox.ready] == ["http://a.test/2"]


async def test_the_calls_of_a_node_share_two_connections(server_url, job):
    async with connect(server_url) as server:
        server.use_at_most(2)
        before = server.connections.made
        waiting = asyncio.create_task(server.command("BLMOVE", job, job, "LEFT", "LEFT", 5))

        await create_job(server, job)
        answers = await asyncio.gather(*[server.command("HGETALL", job) for _ in range(20)])

        assert answers == [{}] * 20
        await server.command("LPUSH", job, "found")
        assert await waiting == b"found"
        assert server.connections.made - before <= 1, "one was there"


async def calls(server: Server) -> dict[str, int]:
    stats = await server.command("INFO", "commandstats")
    return {name: one["calls"] for name, one in stats.items() if name != "cmdstat_info"}


async def test_to_look_whether_there_are_messages_costs_one_small_command(frontier, job):
    server, keys = frontier.server, (f"{job}:a", f"{job}:b")
    before = await calls(server)
    assert not await has_messages(frontier, keys)
    after = await calls(server)

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
