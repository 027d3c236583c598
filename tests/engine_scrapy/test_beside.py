"""What a node does beside the pump, without an engine: the real frontier, and nothing else."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from skitter.frontier.control import change_options, set_state
from skitter.frontier.dead import excluded_letters
from skitter.frontier.identities import SCRAPY, scrapy_identity
from skitter.frontier.jobs import note_fingerprinter
from skitter.frontier.workers import Heartbeat, beat
from skitter.model import Completion, Request, State
from skitter.scrapy.node.cookies import SharedSessions
from skitter.scrapy.node.housekeeping import Housekeeping
from skitter.scrapy.node.mailbox import EngineCalls, Mailbox, OpenLease
from skitter.scrapy.node.node import Node
from skitter.scrapy.node.prefetch import IDLE_S, Prefetch
from skitter.scrapy.settings import read_options
from skitter.scrapy.stats import RedisStatsCollector


class Books(Spider):
    name = "books"


@pytest.fixture
def node(frontier, job) -> Node:
    """At work on a job, with an engine that is told nothing."""
    engine: Any = SimpleNamespace(call=lambda *args: None, wake=lambda: None, is_closing=False)
    options = read_options(Settings({"SKITTER_LEASE_S": 0.2, "SKITTER_JOB": job}), Books())
    node = Node(options, Mailbox(), engine, EngineCalls(), feed=None)
    node.frontier = frontier
    node.prefetch = Prefetch(
        frontier, options, node.mailbox, SharedSessions(frontier, node.mailbox)
    )
    node.housekeeping = Housekeeping(
        frontier=frontier,
        options=options,
        mailbox=node.mailbox,
        engine=engine,
        calls=node.calls,
        prefetch=node.prefetch,
        say=node.say,
    )
    return node


async def a_lease(node: Node) -> Any:
    await node.frontier.add([Request(url="http://a.test/")])
    [lease] = (await node.frontier.lease(1, ttl_s=0.2)).leases
    node.mailbox.ready.append(lease)
    return lease


async def test_leases_are_kept_while_a_step_beside_them_fails_and_that_is_said_once(
    node, server, job, clock, caplog
):
    await a_lease(node)
    await server.command("SET", f"{job}:stats", "no hash")
    node.calls.statistics = lambda: [("HSET", f"{job}:stats", "a", 1)]

    with node.logbook.attached(), caplog.at_level(logging.ERROR):
        for _ in range(6):  # each a part of the lease: together more than it lasts
            clock.now_ms += 100
            assert await node.housekeeping.attempt(node.housekeeping.extend_leases)
            assert not await node.housekeeping.attempt(node.housekeeping.send_statistics)
            await node.frontier.reap()

    assert len(node.mailbox.held) == 1
    assert (await node.frontier.stats()).leased == 1
    assert [one.message.partition(":")[0] for one in caplog.records] == ["send statistics"]


async def test_a_page_that_is_handed_in_while_leases_are_kept_does_not_count_as_lost(node, caplog):
    lease = await a_lease(node)
    node.mailbox.ready.clear()
    node.mailbox.outbox.add(OpenLease(lease, 0.0))  # the answer to its completion is on the way
    await node.frontier.complete([Completion(lease=lease)])

    with caplog.at_level(logging.WARNING):
        assert await node.housekeeping.attempt(node.housekeeping.extend_leases)

    assert caplog.records == []


async def test_a_node_that_closes_takes_nothing_and_hands_back_what_it_has_not_begun(node):
    await a_lease(node)
    await node.frontier.add([Request(url="http://b.test/")])
    node.engine.is_closing = True

    assert await node._supply() == (False, IDLE_S)

    stats = await node.frontier.stats()
    assert (stats.leased, stats.pending) == (0, 2)
    assert not node.mailbox.ready


@pytest.mark.parametrize("ago_s", [10, 3600])
async def test_what_a_node_held_that_died_on_this_machine_is_taken_over_however_long_ago(
    node, make_frontier, dead_pid, ago_s
):
    victim = await make_frontier()
    await victim.add([Request(url="http://a.test/")])
    assert (await victim.lease(1, ttl_s=100_000)).leases
    now = await victim.server_time()
    last = Heartbeat(
        name=victim.client,
        host=socket.gethostname(),
        pid=dead_pid,
        kind="scrapy",
        started_at=now - 5000,
        at=now - ago_s,
    )
    await beat(victim, last)

    await node.housekeeping.look_after_others()

    stats = await node.frontier.stats()
    assert (stats.leased, stats.pending) == (0, 1)


async def test_scrapy_may_end_although_the_thread_of_the_node_hangs(node, monkeypatch):
    monkeypatch.setattr("skitter.scrapy.node.node.GIVE_UP_S", 0.01)
    node.engine.call = lambda tell, *args: tell(*args)
    node._loop = asyncio.new_event_loop()  # which nobody runs
    closed = threading.Event()

    node.stop("finished", closed.set)

    assert await asyncio.to_thread(closed.wait, 30)
    node._loop.close()


async def test_statistics_count_once_although_their_answer_was_lost(server, job):
    """The client repeats a call without an answer, and the node what its client gave up on."""
    stats = RedisStatsCollector(Crawler(Books))
    stats.key = f"{job}:stats"
    stats.inc_value("pages", 2)
    stats.set_value("place", "here")

    for command in stats.commands("books"):
        for _ in range(2):
            await server.command(*command)
    stats.inc_value("pages", 3)
    await server.command(*next(stats.commands("books")))  # and its answer was lost
    stats.inc_value("pages", 4)
    for command in stats.commands("books"):
        await server.command(*command)

    assert await server.command("HGETALL", stats.key) == {b"pages": b"9", b"place": b"here"}
    assert list(stats.commands("books")) == []


async def test_a_statistic_that_cannot_be_added_is_told_once_and_holds_up_no_other(server, job):
    stats = RedisStatsCollector(Crawler(Books))
    stats.key = f"{job}:stats"
    await server.command("HSET", stats.key, "pages", "many")
    stats.inc_value("pages", 2)
    stats.inc_value("errors", 3)

    with pytest.raises(Exception, match="not an integer"):
        await server.command(*next(stats.commands("books")))
    for command in stats.commands("books"):
        await server.command(*command)

    assert await server.command("HGET", stats.key, "errors") == b"3"
    assert list(stats.commands("books")) == []


async def test_what_is_on_its_way_when_a_node_stops_is_counted_once(node, server, job):
    stats = RedisStatsCollector(Crawler(Books))
    stats.key = f"{job}:stats"
    stats.inc_value("pages", 2)

    def stop_and_send():
        for command in stats.commands("books"):
            node._on_stop()
            yield command

    node.calls.statistics = stop_and_send
    await node._join(server)

    await node._work()

    assert await server.command("HGETALL", stats.key) == {b"pages": b"2"}


async def test_a_cancelled_crawl_does_not_look_finished_to_the_engine(node, frontier):
    await frontier.add([Request("http://a.test/")])
    await set_state(frontier, State.CANCELLED)

    await node.prefetch.take()

    assert node.prefetch.is_cancelled
    assert node.mailbox.finished_at != node.mailbox.version


async def test_what_the_operator_excludes_never_reaches_the_engine(node, frontier):
    await frontier.add([Request(f"http://{one}.test/{one}/1") for one in "abc"])
    await change_options(frontier, {"exclude": "/a/* /c/*"})

    await node.prefetch.take()

    assert [lease.url for lease in node.mailbox.ready] == ["http://b.test/b/1"]
    stats = await frontier.stats()
    assert (stats.excluded, stats.dead) == (2, 0)
    assert {one.reason async for one in excluded_letters(frontier)} == {
        "it matches '/a/*' of the option exclude",
        "it matches '/c/*' of the option exclude",
    }


async def test_what_was_pushed_before_the_first_node_is_fetched_once(node, frontier):
    early = [Request("https://shop.test/1"), Request("https://shop.test/2")]
    await frontier.add(early)
    await note_fingerprinter(frontier, SCRAPY)
    frontier.identify = scrapy_identity
    await frontier.add([Request(early[0].url, slot="first", priority=9)])  # as a node finds it
    [found] = (await frontier.lease(1)).leases
    await frontier.complete([Completion(lease=found)])

    while (await frontier.stats()).pending:
        await node.prefetch.take()

    [lease] = node.mailbox.ready
    assert (lease.url, lease.request.identity) == (
        early[1].url,
        scrapy_identity(early[1].url, "GET", b""),
    )
