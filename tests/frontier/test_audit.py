"""The audit finds every kind of damage, and nothing where there is none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from conftest import rude
from skitter.frontier.audit import auditor as audit_module
from skitter.frontier.audit.auditor import audit
from skitter.frontier.audit.rules import AuditReport
from skitter.frontier.control import set_host
from skitter.frontier.dead import dead_letters, drop
from skitter.frontier.delays import _FORMAT, HostRecord, open_host
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job
from skitter.frontier.requests import offer
from skitter.frontier.transport.keys import SHARD_KEYS, ShardKeys, feed_key
from skitter.frontier.workers import Heartbeat, ask_for_spare, beat
from skitter.model import Completion, Failure, Request
from skitter.settings import Layout
from skitter.urls import shard_of

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


def pack(**values: Any) -> bytes:
    return msgspec.msgpack.encode(values)


def pack_host(record: HostRecord) -> bytes:
    *values, own = msgspec.structs.astuple(record)
    return _FORMAT.pack(*values) + (msgspec.msgpack.encode(own) if own else b"")


def host(**values: Any) -> bytes:
    return pack_host(HostRecord(**values))


#: A command, its key and what follows; and what the audit says of it. {queued}, {leased}, {delayed}
#: and {dead} stand for a fingerprint in that state, {body} for a body that can be read.
DAMAGE: dict[str, tuple[list[Any], str]] = {
    # each fingerprint in exactly one state
    "two states": (["ZADD", "delayed", 5, "{queued}"], "is in several states: queued, delayed"),
    "dead and leased": (["ZADD", "dead", 5, "{leased}"], "is in several states: leased, dead"),
    "leased and queued": (
        ["ZADD", "lease", 5, "{queued}"],
        "is in several states: queued, leased",
    ),
    "request lost": (["ZREM", "queue:a.test", "{queued}"], "has a body but no state"),
    "queue lost": (["DEL", "queue:a.test"], "has a body but no state"),
    "delayed lost": (["DEL", "delayed"], "has a body but no state"),
    "dead lost": (["DEL", "dead"], "has a body but no state"),
    "wrong queue": (["ZADD", "queue:b.test", 5, "{queued}"], "is in another host's queue"),
    "wrong priority": (["ZADD", "queue:a.test", 5 * 2**40, "{queued}"], "is queued with another"),
    "endless score": (["ZADD", "queue:a.test", "inf", "{queued}"], "is queued with another"),
    "half a ticket": (["ZADD", "queue:a.test", 3.5, "{queued}"], "has a fractional score"),
    "delayed for ever": (
        ["ZADD", "delayed", "inf", "{delayed}"],
        "delayed until an impossible time",
    ),
    "leased for ever": (
        ["ZADD", "lease", "inf", "{leased}"],
        "leased until an impossible time",
    ),
    "dead before time": (["ZADD", "dead", -5, "{dead}"], "is dead since an impossible time"),
    "no fingerprint queued": (
        ["ZADD", "queue:a.test", 5, "x"],
        "is not a fingerprint (in the",
    ),
    "no fingerprint stored": (["HSET", "task", "x y", "b"], "is not a fingerprint (in task"),
    "no fingerprint leased": (
        ["ZADD", "lease", 5, b"\xff"],
        "is not a fingerprint (in lease",
    ),
    "no fingerprint seen": (
        ["SADD", "seen:0", "x"],
        "is not a fingerprint (in the seen-set",
    ),
    # a body for each
    "body lost": (["HDEL", "task", "{queued}"], "is queued but has no body"),
    "body of a lease lost": (["HDEL", "task", "{leased}"], "is leased but has no body"),
    "all bodies lost": (["DEL", "task"], "is dead but has no body"),
    "body left over": (["HSET", "task", FP, "0 a.test x"], "has a body but no state"),
    "body unreadable": (["HSET", "task", "{queued}", "0 a.test x"], "that cannot be read"),
    "body without a form": (["HSET", "task", "{queued}", "rubbish"], "that cannot be read"),
    "body empty": (["HSET", "task", "{queued}", ""], "is queued but has no body"),
    "body of another": (["HSET", "task", "{queued}", "{body}"], "has the body of another request"),
    "host of another": (["HSET", "task", "{leased}", "{elsewhere}"], "but is queued for b.test"),
    # leases have holders
    "leased to nobody": (["HDEL", "holder", "{leased}"], "has a lease but no holder"),
    "holders lost": (["DEL", "holder"], "has a lease but no holder"),
    "held without lease": (["ZREM", "lease", "{leased}"], "has a holder but no lease"),
    "holder of nothing": (["HSET", "holder", FP, "t"], "has a holder but no lease"),
    # trouble
    "trouble left over": (["HSET", "trouble", FP, pack(failures=1)], "is gone but still has"),
    "trouble unreadable": (
        ["HSET", "trouble", "{dead}", "\xc1"],
        "a failure record that cannot be read",
    ),
    "trouble of words": (["HSET", "trouble", "{dead}", pack(failures="x")], "that cannot be read"),
    "dead without a reason": (["HDEL", "trouble", "{dead}"], "is dead without a reason"),
    # depths
    "depth of nothing": (["HSET", "depths", FP, 3], "has a depth but is not in the seen-set"),
    "depth of words": (["HSET", "depths", "{queued}", "x"], "has depth 'x', which is not a number"),
    "links of nothing": (["HSET", "outlinks", FP, "x"], "to offer again but is not done"),
    "links too early": (["HSET", "outlinks", "{leased}", "x"], "offer again but is not done"),
    "no links": (["ZADD", "edge", 3, "{dead}"], "should offer its links again but has none"),
    "reopening for ever": (["SET", "reopening", "x"], "never expires"),
    # the seen-set
    "not seen": (["SREM", "seen:0", "{queued}"], "is not in the seen-set"),
    "seen too much": (["SADD", "seen:0", FP], "counts 30, but the sets hold 31"),
    "all forgotten": (["DEL", "seen:0"], "counts 30, but the sets hold 0"),
    "bucket too many": (["SADD", "seen:7", FP], "is a bucket that does not exist"),
    "bucket without number": (["SADD", "seen:x", FP], "is a bucket that does not exist"),
    "buckets counter": (["HSET", "stats", "buckets", 64], "is not in the seen-set"),
    # counters
    "pending counter": (["HINCRBY", "stats", "pending", 1], "seen 30 is not"),
    "done counter": (
        ["HINCRBY", "stats", "done", -1],
        "counts 0, but the pages of all hosts add up to 1",
    ),
    "seen counter": (["HINCRBY", "stats", "seen", 1], "counts 31, but the sets hold 30"),
    "dropped counter": (["HINCRBY", "stats", "dropped", 1], "seen 30 is not"),
    "shelved counter": (["HINCRBY", "stats", "shelved", 1], "counts 1, but the hosts report 0"),
    "ticket counter": (["HINCRBY", "stats", "ticket", -20], "was drawn"),
    "ticket lost": (["HDEL", "stats", "ticket"], "counts 0, but"),
    "damage that was met": (["HSET", "stats", "damaged", 2], "2 damaged records were found"),
    "negative counter": (["HSET", "stats", "late", -1], "late is negative: -1"),
    "counter of words": (
        ["HSET", "stats", "pending", "many"],
        "counts b'many', which is not a number",
    ),
    "counter with a fraction": (["HSET", "stats", "done", "1.5"], "which is not a number"),
    "all counters lost": (["DEL", "stats"], "seen 0 is not"),
    # hosts
    "starving host": (["ZREM", "due", "a.test"], "is marked 'due' but is not"),
    "all hosts starving": (["DEL", "due"], "is marked 'due' but is not"),
    "waiting lost": (["ZREM", "wait", "c.test"], "requests but is never scheduled"),
    "waiting for ever": (["ZADD", "wait", "inf", "c.test"], "waits forever"),
    "idle host in line": (["ZADD", "due", 1, "z.test"], "is due or waiting but has no requests"),
    "both lines": (["ZADD", "due", 1, "c.test"], "is both due and waiting"),
    "wrong rank": (["ZADD", "due", 1, "a.test"], "has the wrong rank"),
    "no host": (["ZADD", "due", 1, "a b"], "is not a host (in due"),
    "host unreadable": (["HSET", "hosts", "a.test", "\xc1"], "has a record that cannot be read"),
    "host of noise": (["HSET", "hosts", "a.test", host() + b"\x90"], "that cannot be read"),
    "host of words": (["HSET", "hosts", "a.test", host(own={"a": "x"})], "that cannot be read"),
    "host nowhere": (["HSET", "hosts", "a.test", host(listed_in=7)], "that cannot be read"),
    "host with pages below zero": (["HSET", "hosts", "a.test", host(pages=-1)], "cannot be read"),
    "host lost": (["HDEL", "hosts", "a.test"], "is the queue of an unknown host"),
    "all hosts lost": (["DEL", "hosts"], "is the queue of an unknown host"),
    "queue of nobody": (["ZADD", "queue:z.test", 1, FP], "is the queue of an unknown host"),
    # state and limits
    "unknown state": (["HSET", "control", "state", "dance"], "has the state 'dance'"),
    "no state": (["HDEL", "control", "state"], "has no state"),
    "half purged": (["HSET", "control", "state", "purge"], "is half purged"),
    "limit of words": (["HSET", "control", "max_pages", "few"], "has 'few' for max_pages"),
    "strange filter": (["HSET", "control", "bloom_blocks", 3], "has a different Bloom filter"),
    # keys
    "unknown key": (["SET", "surprise", 1], "is an unknown key"),
    "unknown family": (["SET", "due:x", 1], "is an unknown key"),
    "a Bloom filter in an exact job": (["SET", "bloom:0", 1], "is an unknown key"),
    "answer for ever": (["HSET", "recent:x", "add", 1], "never expires"),
    "rules for ever": (["SET", "robots:a.test", "x"], "never expires"),
}


async def places_of(frontier: Frontier) -> dict[Any, Any]:
    server, keys = frontier.server, frontier.shards[0].keys
    [queued, other] = await server.command("ZRANGE", keys.key("queue", "a.test"), 0, 1)
    [leased, *_] = await server.command("ZRANGE", keys.key("lease"), 0, 0)
    [delayed] = await server.command("ZRANGE", keys.key("delayed"), 0, 0)
    [dead] = await server.command("ZRANGE", keys.key("dead"), 0, 0)
    own = await server.command("HGET", keys.key("task"), leased)
    return {
        "{queued}": queued,
        "{leased}": leased,
        "{delayed}": delayed,
        "{dead}": dead,
        "{body}": await server.command("HGET", keys.key("task"), other),
        "{elsewhere}": b" ".join([b"0", b"b.test", own.split(b" ", 2)[2]]),
    }


@pytest.mark.parametrize("name", DAMAGE)
async def test_damage_is_found_and_named(busy, name):
    (command, key, *rest), expected = DAMAGE[name]
    shard, places = busy.shards[0], await places_of(busy)

    await shard.server.command(
        command,
        shard.keys.prefix + key,
        *(places.get(w, w) if isinstance(w, str) else w for w in rest),
    )

    assert expected in says(await audit(busy))


@pytest.mark.parametrize("name", [name for name in SHARD_KEYS if name not in ("bloom", "clock")])
async def test_a_key_of_the_wrong_type_is_found_and_named(busy, name):
    shard = busy.shards[0]
    member = {"queue": "a.test", "seen": "0", "recent": shard.client, "robots": "a.test"}.get(name)
    key = shard.keys.key(name, member)
    await shard.server.command("DEL", key)
    wrong = ("SADD", "set") if SHARD_KEYS[name].type != "set" else ("LPUSH", "list")
    await shard.server.command(wrong[0], key, "x")

    report = await audit(busy)

    assert f"{key} is a {wrong[1]} but should be a {SHARD_KEYS[name].type}" in says(report)
    assert report.unchecked == ["the contents of shard 0: repair its keys first"]


async def test_shards_that_disagree_and_keys_of_none_are_found(server, job):
    frontier = await create_job(server, job, layout=Layout(shards=3))
    await frontier.add([Request(url="https://a.test/"), Request(url="https://b.test/")])
    assert (await audit(frontier)).clean
    await server.command("HSET", frontier.shards[1].keys.key("control"), "delay_ms", 7)
    await server.command("SET", ShardKeys(job, 9).key("due"), 1)

    said = says(await audit(frontier))

    assert "control differs between shards" in said
    assert "due belongs to a shard that does not exist" in said


async def test_a_request_in_the_wrong_shard_is_found(server, job):
    frontier = await create_job(server, job, layout=Layout(shards=2))
    await frontier.add([Request(url="https://a.test/")])
    here = shard_of("a.test", 2)
    arguments = offer(Request(url="https://a.test/"), Layout()).arguments
    await frontier.shards[1 - here].call("add", arguments, links=0)

    assert f"belongs in shard {here}" in says(await audit(frontier))


async def test_a_feed_that_is_no_list_is_found(busy):
    await busy.server.command("SET", feed_key(busy.job), "x")

    assert "feed is a string but should be a list" in says(await audit(busy))


async def break_in_flight(frontier: Frontier) -> None:
    shard = frontier.shards[0]
    raw = await shard.server.command("HGET", shard.keys.key("hosts"), "a.test")
    known = open_host(raw)
    packed = pack_host(msgspec.structs.replace(known, in_flight=known.in_flight + 1))
    await shard.server.command("HSET", shard.keys.key("hosts"), "a.test", packed)


@pytest.mark.parametrize("at_once", [audit_module.AT_ONCE, 0])
async def test_a_wrong_in_flight_count_is_found_at_once_and_in_steps(busy, monkeypatch, at_once):
    monkeypatch.setattr(audit_module, "AT_ONCE", at_once)
    await break_in_flight(busy)

    assert "in flight but has" in says(await audit(busy))


@pytest.mark.parametrize("counter", ["pending", "shelved", "done", "seen"])
async def test_a_wrong_sum_is_found_in_steps_too(busy, monkeypatch, counter):
    monkeypatch.setattr(audit_module, "AT_ONCE", 0)
    assert (await audit(busy)).clean
    shard = busy.shards[0]
    await shard.server.command("HINCRBY", shard.keys.key("stats"), counter, 1)

    assert f"{counter} counts" in says(await audit(busy))


async def test_a_fingerprint_in_the_wrong_bucket_is_found(make_frontier):
    frontier = await make_frontier()
    await frontier.add(Request(url=f"https://a.test/{n}") for n in range(1000))
    shard = frontier.shards[0]
    stray = await shard.server.command("SPOP", shard.keys.key("seen", "0"))
    await shard.server.command("SADD", shard.keys.key("seen", "3"), stray)

    assert "is in the wrong bucket of the seen-set: 3" in says(await audit(frontier))


@pytest.fixture
def moving(busy, monkeypatch):
    """Somebody adds, leases and completes between any two steps of the audit."""
    server = type(busy.server)
    number = iter(range(10**6))
    command = server.command

    async def interrupted(self, *words):
        monkeypatch.setattr(server, "command", command)
        await busy.add([Request(url=f"https://d.test/{next(number)}")])
        for lease in (await busy.lease(1)).leases:
            await busy.complete([Completion(lease=lease)])
        monkeypatch.setattr(server, "command", interrupted)
        return await command(self, *words)

    monkeypatch.setattr(server, "command", interrupted)
    return busy


async def test_a_moving_crawl_is_audited_without_false_alarm(moving):
    report = await audit(moving)

    assert says(report) == ""
    assert report.exact


async def test_damage_to_a_moving_crawl_is_found(moving):
    await break_in_flight(moving)

    assert "in flight but has" in says(await audit(moving))


async def test_what_could_not_be_compared_in_a_large_moving_crawl_is_told(moving, monkeypatch):
    monkeypatch.setattr(audit_module, "AT_ONCE", 0)

    report = await audit(moving)

    assert says(report) == ""
    assert report.unchecked == ["the sums over all hosts of shard 0: they kept changing"]


async def test_what_one_shard_has_alone_is_no_damage(make_frontier):
    frontier = await make_frontier(rude(), Layout(shards=2))
    await beat(frontier, Heartbeat(name="me", host="h", pid=1, kind="scrapy", started_at=0, at=0))
    assert await ask_for_spare(frontier, "me", 3) == 3
    await frontier.add([Request(url="http://a.test/")])
    [lease] = (await frontier.lease(2)).leases
    await frontier.bury([Failure(lease=lease, error="no")])
    await drop(frontier, [letter async for letter in dead_letters(frontier)], forget=True)

    assert (await audit(frontier)).problems == set()
