"""Damaged records: what one of them says must not hold up all the others."""

from __future__ import annotations

import math
import struct

import pytest

from skitter.frontier.transport.messages import encode
from skitter.frontier.transport.scripts import Code

FORMAT = "<iiiihBddd"
HOSTS = [f"h{n}.test" for n in range(6)]


async def fill(raw, per_host=2):
    for n, host in enumerate(HOSTS):
        await raw.add(*(str(10 * n + i) for i in range(per_host)), host=host)


async def put(raw, command, name, *words, member=None):
    await raw.shard.server.command(command, raw.shard.keys.key(name, member), *words)


TROUBLES = [
    b"\xc1garbage",
    b"",
    encode([1]),
    encode({"failures": "x", "losses": 0}),
    encode({"losses": 0}),
    encode({"failures": 1, "losses": 1, "priority": "high"}),
]


@pytest.mark.parametrize("packed", TROUBLES)
async def test_trouble_that_cannot_be_read_counts_as_none(raw, clock, packed):
    await fill(raw)
    [lost, *others] = (await raw.lease(3, ttl_ms=10)).fps
    await put(raw, "HSET", "trouble", lost, packed)
    clock.advance(1)

    grant = await raw.lease(50)

    assert len(grant.fps) == len(set(grant.fps)) == 12
    losses = {fp: (await raw.read("trouble"))[fp]["losses"] for fp in (lost, *others)}
    assert set(losses.values()) == {1}
    assert await raw.counter("damaged") == 1


@pytest.mark.parametrize("packed", TROUBLES)
async def test_a_dead_letter_whose_trouble_cannot_be_read_is_brought_back(raw, packed):
    await raw.add("1", priority=4)
    await raw.bury(*(await raw.lease()).claims)
    await put(raw, "HSET", "trouble", "1", packed)

    assert await raw.revive("1") == 1
    assert (await raw.lease()).fps == ["1"]


@pytest.mark.parametrize(
    "packed",
    [
        b"xx",
        b"",
        b"\xff" * 45,
        struct.pack(FORMAT, 0, 0, 0, 1, 0, 77, 0, 0, 0),
        struct.pack(FORMAT, 0, 0, 0, 1, 0, 1, math.nan, 0, 0),
        struct.pack(FORMAT, 0, 0, 0, -5, 0, 1, 0, 0, 0),
        struct.pack(FORMAT, 0, 0, 0, 1, 0, 1, 0, 0, 0) + b"\xc1",
        struct.pack(FORMAT, 0, 0, 0, 1, 0, 1, 0, 0, 0) + encode({"delay_ms": "slow"}),
        None,
    ],
)
async def test_a_host_whose_record_makes_no_sense_is_begun_anew(raw, packed):
    await fill(raw)
    words = ("HDEL", "hosts", "h3.test") if packed is None else ("HSET", "hosts", "h3.test", packed)
    await put(raw, *words)

    grant = await raw.lease(50)

    assert len(grant.fps) == 12
    assert set(await raw.complete(*grant.claims)) == {Code.DONE}
    assert (await raw.known("h3.test")).in_flight == 0
    assert (await raw.read("due"), await raw.read("wait")) == ({}, {})


async def test_a_damaged_host_that_waits_is_woken_and_leaves_the_line(make_raw, clock):
    raw = await make_raw(delay_s=10)
    await fill(raw)
    await raw.lease(50)
    await put(raw, "HSET", "hosts", "h3.test", "xx")
    clock.advance(11)

    assert len((await raw.lease(50)).fps) == 6
    assert await raw.read("due") == {}


async def test_a_damaged_host_takes_new_requests_behind_those_it_has(raw):
    await raw.add("1", priority=5, host="h3.test")
    await put(raw, "HSET", "hosts", "h3.test", "xx")

    await raw.add("2", priority=1, host="h3.test")

    assert (await raw.lease()).fps == ["1", "2"]


async def test_a_host_in_a_line_that_does_not_exist_is_put_in_one_by_its_next_request(raw):
    await raw.add("1", host="h3.test")
    nowhere = struct.pack(FORMAT, 0, 0, 0, 1, 0, 7, 1, 0, 0)
    await put(raw, "HSET", "hosts", "h3.test", nowhere)
    await put(raw, "ZREM", "due", "h3.test")

    await raw.add("2", host="h3.test")

    assert await raw.counter("damaged") == 1
    assert (await raw.lease(5)).fps == ["1", "2"]


async def test_what_is_no_queue_stops_nobody_and_makes_way_for_one(raw):
    await fill(raw)
    await put(raw, "DEL", "queue", member="h3.test")
    await put(raw, "SET", "queue", "x", member="h3.test")

    assert len((await raw.lease(50)).fps) == 10
    assert (await raw.lease(50)).fps == []
    assert (await raw.known("h3.test")).in_flight == 0
    await raw.add("99", host="h3.test")
    assert (await raw.lease(50)).fps == ["99"]
    assert await raw.counter("damaged") >= 2


@pytest.mark.parametrize("lost_before", [False, True])
async def test_a_queue_that_is_gone_leaves_nothing_in_flight(raw, clock, lost_before):
    if lost_before:  # then heads of queues are looked at
        await raw.add("100", host="z.test")
        await raw.lease(ttl_ms=1)
        clock.advance(1)
        await raw.reap()
    await fill(raw)
    await put(raw, "DEL", "queue", member="h3.test")

    grant = await raw.lease(50)

    assert len(grant.fps) == 10 + lost_before
    assert (await raw.known("h3.test")).in_flight == 0


@pytest.mark.parametrize("record", [b"garbage", b"", b"x h3.test body", None])
async def test_a_record_that_names_no_host_is_given_up_and_its_host_goes_on(make_raw, record):
    raw = await make_raw(max_in_flight=1)
    await fill(raw)
    words = ("HDEL", "task", "30") if record is None else ("HSET", "task", "30", record)
    await put(raw, *words)

    first = await raw.lease(50)

    assert len(first.fps) == 5
    assert set(await raw.read("dead")) == {"30"}
    assert (await raw.read("task"))["30"] == b"0 h3.test " + (record or b"")
    assert (await raw.lease(50)).fps == ["31"]


async def test_a_record_that_is_damaged_under_way_spoils_no_other_completion(raw):
    await fill(raw)
    grant = await raw.lease(3)
    await put(raw, "HSET", "task", grant.fps[1], "garbage")

    assert await raw.complete(*grant.claims) == [Code.DONE, Code.LOST, Code.DONE]
    assert await raw.counter("done") == 2
