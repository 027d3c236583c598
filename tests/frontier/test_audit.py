"""The audit finds every kind of damage, and nothing where there is none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from skitter.frontier.audit import AuditReport, audit
from skitter.frontier.control import set_host
from skitter.frontier.frontier import Frontier
from skitter.model import Completion, Failure, Request

FP = "12345678901234567"


@pytest.fixture
async def busy(frontier: Frontier) -> Frontier:
    """A job with requests in every state, and a host that waits."""
    pages = [Request(url=f"https://{host}.test/{n}") for host in "abc" for n in range(10)]
    await frontier.add(pages)
    one, two, three, *_ = (await frontier.lease(6)).leases
    await frontier.complete([Completion(lease=one, items=[1, 2])])
    await frontier.retry([Failure(lease=two, error="timeout")])
    await frontier.bury([Failure(lease=three, error="gone")])
    await set_host(frontier, "c.test", blocked_for_s=60)
    return frontier


def says(report: AuditReport) -> str:
    return "\n".join(f"{problem.subject} {problem.says}" for problem in report.problems)


async def test_a_job_in_order_is_clean_and_every_number_was_compared(busy):
    report = await audit(busy)

    assert says(report) == ""
    assert report.clean
    assert report.exact
    assert (report.requests, report.hosts, report.fingerprints) == (29, 3, 30)
    assert report.counts["seen"] == 30


DAMAGE: dict[str, Any] = {
    "body lost": (["HDEL", "task", "{queued}"], "is queued without a body"),
    "body left over": (["HSET", "task", FP, "0 a.test x"], "has a body and is in no state"),
    "body unreadable": (["HSET", "task", "{queued}", "0 a.test x"], "that cannot be read"),
    "two states": (["ZADD", "delayed", 5, "{queued}"], "is in several states: queued, delayed"),
    "dead and leased": (["ZADD", "dead", 5, "{leased}"], "is in several states: leased, dead"),
    "leased to nobody": (["HDEL", "holder", "{leased}"], "is leased to nobody"),
    "held without lease": (["ZREM", "lease", "{leased}"], "is held without a lease"),
    "holder of nothing": (["HSET", "holder", FP, "t"], "is held without a lease"),
    "request lost": (["ZREM", "queue:a.test", "{queued}"], "has a body and is in no state"),
    "delayed lost": (["DEL", "delayed"], "has a body and is in no state"),
    "wrong queue": (["ZADD", "queue:b.test", 5, "{queued}"], "is in the queue of another host"),
    "not seen": (["SREM", "seen:0", "{queued}"], "is not in the seen-set"),
    "seen too much": (["SADD", "seen:0", FP], "counts 30, the sets hold 31"),
    "trouble left over": (["HSET", "trouble", FP, b"\x80"], ""),
    "pending counter": (["HINCRBY", "stats", "pending", 1], "seen 30 is not"),
    "done counter": (["HINCRBY", "stats", "done", -1], "seen 30 is not"),
    "starving host": (["ZREM", "due", "a.test"], "says it is due, and is not"),
    "waiting lost": (["ZREM", "wait", "c.test"], "requests and is never asked"),
    "idle host in line": (["ZADD", "due", 1, "z.test"], "stands in line without work"),
    "both lines": (["ZADD", "due", 1, "c.test"], "is both due and waiting"),
    "unknown key": (["SET", "surprise", 1], "is a key that nobody knows"),
    "unknown family": (["SET", "due:x", 1], "is a key that nobody knows"),
    "bucket too many": (["SADD", "seen:7", FP], "is a bucket that does not exist"),
    "queue of nobody": (["ZADD", "queue:z.test", 1, FP], "is a queue of an unknown host"),
    "answer for ever": (["HSET", "recent:x", "add", 1], "never expires"),
}


@pytest.mark.parametrize("name", DAMAGE)
async def test_damage_is_found_and_named(busy, name):
    (command, key, *rest), expected = DAMAGE[name]
    shard = busy.shards[0]
    queued = await shard.server.command("ZRANGE", shard.keys.key("queue", "a.test"), 0, 0)
    leased = await shard.server.command("ZRANGE", shard.keys.key("lease"), 0, 0)
    places = {"{queued}": queued[0], "{leased}": leased[0]}

    await shard.server.command(
        command, shard.keys.prefix + key, *(places.get(word, word) for word in rest)
    )
    report = await audit(busy)

    if name == "trouble left over":
        # An empty table is no trouble; a filled one is.
        await shard.server.command(
            command, shard.keys.prefix + key, FP, msgspec.msgpack.encode({"failures": 1})
        )
        report, expected = await audit(busy), "is gone and still has a record of trouble"
    assert expected in says(report)


async def test_a_wrong_in_flight_count_is_found(busy):
    shard = busy.shards[0]
    raw = await shard.server.command("HGET", shard.keys.key("hosts"), "a.test")
    known = msgspec.msgpack.decode(raw)
    known["in_flight"] += 1
    packed = msgspec.msgpack.encode(known)
    await shard.server.command("HSET", shard.keys.key("hosts"), "a.test", packed)

    assert "in flight and has" in says(await audit(busy))


async def test_a_fingerprint_in_the_wrong_bucket_is_found(make_frontier):
    frontier = await make_frontier()
    await frontier.add(Request(url=f"https://a.test/{n}") for n in range(1000))
    shard = frontier.shards[0]
    stray = await shard.server.command("SPOP", shard.keys.key("seen", "0"))
    await shard.server.command("SADD", shard.keys.key("seen", "3"), stray)

    assert "is in bucket 3 of the seen-set, where no one looks" in says(await audit(frontier))


async def test_a_moving_crawl_is_audited_without_false_alarm(busy, monkeypatch):
    """Somebody adds and leases between any two steps of the audit."""
    shard = busy.shards[0]
    number = iter(range(10**6))

    async def meanwhile():
        monkeypatch.setattr(type(shard.server), "command", command)
        await busy.add([Request(url=f"https://d.test/{next(number)}")])
        for lease in (await busy.lease(1)).leases:
            await busy.complete([Completion(lease=lease)])
        monkeypatch.setattr(type(shard.server), "command", interrupted)

    async def interrupted(self, *words):
        await meanwhile()
        return await command(self, *words)

    command = type(shard.server).command
    monkeypatch.setattr(type(shard.server), "command", interrupted)
    report = await audit(busy)
    monkeypatch.setattr(type(shard.server), "command", command)

    assert says(report) == ""
    assert not report.exact
