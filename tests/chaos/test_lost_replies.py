"""A request arrives and its reply does not: the client asks again, and all is as if nothing was."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from chaos.proxy import LossyProxy
from chaos.rig import assert_clean, results, rude, slow, snapshot
from chaos.worker import pages
from skitter.frontier import requests
from skitter.frontier.control import configure, set_host, set_state
from skitter.frontier.dead import dead_letters, drop, revive, withdraw
from skitter.frontier.delays import Departure
from skitter.frontier.items import RejectedItem, count, reject_items
from skitter.frontier.jobs import create_job
from skitter.frontier.records import metrics as frontier_metrics
from skitter.frontier.records.schedule import offer_round
from skitter.frontier.sites.learned import ask_robots, store_robots
from skitter.frontier.transport.connection import connect
from skitter.frontier.transport.messages import encode
from skitter.frontier.transport.scripts import script, verbs
from skitter.frontier.workers import Heartbeat, beat, log
from skitter.model import Added, Completion, Ended, Failure, Lease, Leased, Request, State
from skitter.observe.metrics import Batch, Histogram, Row
from skitter.settings import Layout, Limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from conftest import ManualClock
    from skitter.frontier.frontier import Frontier

#: All that change something; a new one fails here until the story below has it.
#: Not `turn`, which belongs to no job: a repeat takes another moment, and the first passes unused.
#: A repeat of `turn` takes another moment; `look` is sent only when nothing is left: test_trap.py.
#: Runs belong to no job either: tests/frontier/test_runs.py repeats their calls; nor do the quotas
#: of tenants: tests/lua/test_once.py does.
OTHERS = {
    *("turn", "look", "quota", "reserve"),
    *("start_run", "take_run", "renew_run", "end_run", "stop_run", "share_out"),
}
VERBS = [
    verb for verb in verbs() if script(verb).header.flags != "no-writes" and verb not in OTHERS
]
HOSTS = 5
FIGURES = Batch(Counter(pages=3), {"fetch": Histogram({7: 2}, 3.5)}, {"host": {"a": Row(1)}})


@pytest.fixture
async def proxy(server_url, short_dir, job) -> AsyncIterator[LossyProxy]:
    lossy = LossyProxy(short_dir / f"{job}.sock", Path(server_url.removeprefix("unix://")))
    async with lossy.running():
        yield lossy


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch) -> None:
    """When a URL was added, by the clock of its machine, is in its record."""
    monkeypatch.setattr(requests, "time", SimpleNamespace(time=lambda: 1_700_000_000))


async def story(frontier: Frontier, clock: ManualClock) -> list[Any]:
    """Every verb, with every kind of answer it has. Returns all that the server answered."""
    told: list[Any] = []

    async def tell(answer: Any) -> Any:
        told.append(answer)
        return answer

    await tell(await frontier.add([Request(url=url) for url in pages(0, 30, hosts=HOSTS)]))
    await tell(await frontier.add([Request(url=url) for url in pages(20, 40, hosts=HOSTS)]))
    await set_host(frontier, "h1.test", delay_s=2.0, max_in_flight=3)
    await set_host(frontier, "h2.test", blocked_for_s=5)
    first = (await tell(await frontier.lease(20, ttl_s=10))).leases
    clock.advance(1)
    await tell(await frontier.extend(first[:4], ttl_s=30))
    links = [Request(url=url, depth=1) for url in pages(35, 50, hosts=HOSTS)]
    page, *others = [Completion(lease=one, items=[{"n": 1}, {"n": 2}]) for one in first[:5]]
    await tell(await frontier.complete([Completion(lease=page.lease, items=[1], links=links)]))
    await tell(await frontier.complete([page, *others]))  # the first one again: lost
    await tell(
        await frontier.retry([Failure(lease=one, error="x", after_s=3) for one in first[4:8]])
    )
    await tell(await frontier.bury([Failure(lease=one, error="gone") for one in first[8:12]]))
    await tell(await frontier.release(first[12:14]))
    await tell(await frontier.release(first[14:16], after_s=4))
    clock.advance(15)
    await tell(await frontier.reap())
    second = (await tell(await frontier.lease(10, ttl_s=10))).leases
    await tell(await frontier.complete([Completion(lease=one) for one in (*first, *second[:5])]))
    letters = [letter async for letter in dead_letters(frontier)]
    await tell(await revive(frontier, letters[:2]))
    await tell(await drop(frontier, letters[1:3]))
    await tell(await withdraw(frontier, [one.request for one in (first[9], second[6])], "revoked"))
    await tell(await drop(frontier, letters[2:], forget=True))
    await tell(await frontier.add([Request(url=letter.url) for letter in letters]))
    await _tell_the_crew(frontier)
    third = (await tell(await frontier.lease(5, ttl_s=10))).leases
    claims = [part for one in third[:2] for part in (one.fingerprint, one.token)]
    await tell(await frontier.shards[0].call("reclaim", claims, seen=1, alone=0, why=""))
    await _tell_of_engines(frontier, tell)
    await _tell_of_the_web(frontier, tell, third[2])
    fp, host, *_, record = frontier.offer(Request(url="https://reject.test/")).arguments
    body = record.split(b" ", 2)[2]
    await tell(await frontier.shards[0].call("bury_messages", [fp, host, body, "not a URL"]))
    await _tell_of_repairs(frontier, tell)
    await _tell_of_depths(frontier, tell)
    await configure(frontier, replace(frontier.options, limits=Limits(max_pages=17)))
    await tell(await frontier.shards[0].call("grant", [3, 1, 2, 8, 0, 0, 0, 9]))
    await tell(await frontier.shards[0].call("allow", granted=40, keep=5))
    await set_state(frontier, State.DRAINING)
    await tell(await frontier.add([Request(url="https://late.test/")]))
    await tell(await frontier.lease(100, ttl_s=10))
    return told


async def _tell_of_repairs(frontier: Frontier, tell: Callable[[Any], Awaitable[Any]]) -> None:
    """Pages that failed, rejected items, and pages to be forgotten."""
    shard = frontier.shards[0]
    await tell(await shard.call("keep_failed", ["7", "error", b"page"], most=2, max_bytes=99))
    await shard.server.command("XADD", shard.keys.key("rejected"), "9999999999999-1", "item", "x")
    await tell(await shard.call("unreject", ["9999999999999-1", "price"]))
    await tell(await shard.call("forget", ["123456789", "adopted", "5", "a.test"]))


async def _tell_of_engines(frontier: Frontier, tell: Callable[[Any], Awaitable[Any]]) -> None:
    """What Celery and Scrapy need beyond the others."""
    shard, messages = frontier.shards[0], f"{frontier.job}:messages"
    await tell(
        await shard.call("issue_permits", ["t1", "t2", "t3"], wanted=2, ttl_ms=5000, lane="")
    )
    await tell(await shard.call("renew_permits", ["t1", "t9"], ttl_ms=9000))
    await tell(await shard.call("claim_callback", claim="me", ttl_ms=5000))
    await tell(await shard.call("finish_callback", claim="me", value="42"))
    await tell(await shard.call("adopt", ["123456789", "987654321"]))
    await shard.server.command("DEL", messages)
    await shard.server.command("RPUSH", messages, "one", "two", "three")
    await tell(await shard.call("feed", [messages], limit=2, ttl_ms=5000))
    await tell(await shard.call("feed", [messages], limit=2, ttl_ms=5000))
    await tell(await shard.call("spare", name="w", wanted=2))
    await tell(await shard.call("sink", place="books.db", instead=""))
    limits = ["p1", "gate", "3 250 9 -1 -1", "10 2", "p2", "gate", "3 250 9 -1 -1", "10 2"]
    await tell(await shard.call("take_routes", limits, ttl_ms=5000))
    settled = ["p1", "gate", "shop.test", "good", "7 1 10 2 30"]
    await tell(await shard.call("settle_routes", settled, domain=""))


async def _tell_of_the_web(
    frontier: Frontier, tell: Callable[[Any], Awaitable[Any]], lease: Lease
) -> None:
    """Sessions and log-ins, traps, refusals, rounds, quality, and how politely hosts were asked."""
    call = frontier.shards[0].call
    pool: dict[str, Any] = {"size": 1, "uses": -1, "errors": 3, "age_ms": -1, "chance": 7}
    await tell(await call("open_sessions", ["a.test/", 1, "", "b.test/", 0, ""], **pool))
    session: dict[str, Any] = {"name": "a.test/", "number": 1, "claim": "me"}
    await tell(await call("claim_login", **session, ttl_ms=900))
    await tell(await call("end_login", ["c:a", b"1"], **session, reason="", rest_ms=5))
    await tell(await call("note_sessions", [encode({"name": "a.test/", "fields": ["c:b", "2"]})]))
    await tell(await call("trap", [lease.fingerprint, lease.token, 7, 0]))
    await tell(await call("free_trapped", at_most=2, handler=""))
    await tell(await call("refuse", ["7", "scope", b"x", "8", "robots", b"y"], keep=4))
    await tell(await call("next_round", due_ms="5", next_ms="9", missed=0))
    again = [Request(url=url) for url in pages(0, 50, hosts=HOSTS)]
    await tell(await offer_round(frontier, again, due_ms=5))
    found = ["parse", encode([3, 2, 1]), encode(["text:title"]), encode([2])]
    await tell(await call("observe", found, handlers=5, columns=5))
    await tell(await call("handled", ["pages parse", 3], keep=5))
    await frontier_metrics.record(frontier, FIGURES)
    counted = ["books", "", "2.5", b"", "parse", "success", "1", encode([1500, 16, 1])]
    await tell(await call("increment", counted, limit=5, keep_s=600))
    await tell(await call("record", ["h1.test 1 0 9 9 x"]))


async def _tell_of_depths(frontier: Frontier, tell: Callable[[Any], Awaitable[Any]]) -> None:
    """A page at the limit is done, the limit is raised, and its links are offered again."""
    limits = Limits(max_depth=1)
    await configure(frontier, replace(frontier.options, limits=limits))
    await tell(await frontier.add([Request(url="https://deep.test/0", priority=9)]))
    for depth in (1, 2):
        link = Request(url=f"https://deep.test/{depth}", depth=depth, priority=9)
        [page] = (await tell(await frontier.lease(1, ttl_s=10))).leases
        await tell(await frontier.complete([Completion(lease=page, links=[link])]))
    await configure(frontier, replace(frontier.options, limits=replace(limits, max_depth=2)))
    for _ in range(2):  # the first one hears of it
        await tell(await frontier.lease(1, ttl_s=10))


async def _tell_the_crew(frontier: Frontier) -> None:
    """What workers and loaders say of themselves."""
    await beat(frontier, Heartbeat(name="w", host="h", pid=1, started_at=0, at=0))
    await log(frontier, "info", "w", "working")
    await reject_items(
        frontier, RejectedItem(url="https://a.test/", field="price", reason="x", item=1)
    )
    await count(frontier, blocked=2, skipped=1)
    await frontier.depart([Departure(host="h1.test", ago_s=1.0, max_wait_s=60.0)])
    assert (await ask_robots(frontier, "h1.test")).is_ours
    await store_robots(frontier, "h1.test", b"rules", ttl_s=3600)
    await frontier.shards[0].call("group", name="load")
    await frontier.shards[0].call("unload", ["1-1"], name="load", stored=1, updated=1)


async def run(server, job: str, clock: ManualClock) -> tuple[list[Any], dict[Any, Any]]:
    """The story as one client of a fixed name, and all keys after it."""
    frontier = await create_job(server, job, options=rude(), clock=clock)
    for shard in frontier.shards:
        shard.client = "client"
    told = await story(frontier, clock)
    await assert_clean(frontier)
    keys = await snapshot(frontier.shards[0])
    keys["stats None"].pop(b"again_since")  # the server's time, as in ids of a stream
    return told, keys


def without_paces(told: list[Any]) -> list[Any]:
    """A lease that is given again has to ask when it may leave: somebody may have gone since."""
    return [
        [msgspec.structs.replace(lease, pace=None) for lease in one.leases]
        if isinstance(one, Leased)
        else one
        for one in told
    ]


@pytest.mark.parametrize(
    ("dropped", "times"),
    [*(([verb], 1) for verb in VERBS), (VERBS, 1), (VERBS, 2)],
    ids=[*VERBS, "all", "all-twice"],
)
async def test_a_lost_reply_changes_neither_the_answer_nor_the_state(
    server, proxy, job, clock, dropped, times
):
    clean_told, clean_keys = await run(server, f"{job}-clean", replace(clock))
    proxy.drops, proxy.times = set(dropped), times
    async with connect(proxy.url) as through_proxy:
        told, keys = await run(through_proxy, f"{job}-lossy", replace(clock))
    assert proxy.lost.keys() == set(dropped)
    assert all(proxy.lost[verb] >= times for verb in dropped)
    assert without_paces(told) == without_paces(clean_told)
    assert keys == clean_keys


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("urls", [200, slow(10_000)])
async def test_a_crawl_that_loses_the_reply_to_every_call_ends_like_any_other(
    proxy, job, urls, shards
):
    proxy.drops = set(VERBS)
    options = replace(rude(), limits=Limits(max_pages=urls))
    async with connect(proxy.url) as server:
        frontier = await create_job(server, job, options=options, layout=Layout(shards=shards))
        added = await frontier.add([Request(url=url) for url in pages(0, urls + 50)])
        assert added == [Added.NEW] * (urls + 50)
        while leases := (await frontier.lease(20)).leases:
            ended = await frontier.complete([Completion(lease=one, items=[1]) for one in leases])
            assert ended == [Ended.DONE] * len(leases)
        stats = await frontier.stats()
        assert (stats.done, stats.late, stats.lost, stats.duplicates) == (urls, 0, 0, 0)
        found = await results(frontier)
        assert (len(found), max(found.values())) == (urls, 1)
        await assert_clean(frontier)
    assert proxy.lost["lease"] >= urls // 20
