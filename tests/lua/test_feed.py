"""feed: messages that others pushed to a key of their own."""

import json

import pytest


@pytest.fixture
def take(raw):
    """The next batch: its name and its messages."""

    async def take(*keys, limit=2, ttl_ms=1000):
        answer = await raw.shard.call("feed", list(keys), limit=limit, ttl_ms=ttl_ms)
        return (answer[0], answer[3:]) if answer else None

    return take


@pytest.fixture
def key(job):
    return f"{job}:start_urls"


async def test_nothing_is_taken_where_nothing_is(raw, take, key):
    assert await take(key) is None

    assert await raw.read("feeding") == {}


async def test_a_list_is_read_from_its_beginning(raw, take, key):
    await raw.shard.server.command("RPUSH", key, "a", "b", "c")

    assert (await take(key))[1] == [b"a", b"b"]
    assert (await take(key))[1] == [b"c"]
    assert await take(key) is None


async def test_a_set_and_a_zset_are_read_too_the_highest_score_first(raw, take, key):
    await raw.shard.server.command("SADD", key, "one")
    assert (await take(key))[1] == [b"one"]

    await raw.shard.server.command("ZADD", key, 1, "low", 3, "high", 2, "mid")
    assert (await take(key))[1] == [b"high", b"mid"]
    assert (await take(key))[1] == [b"low"]


async def test_a_stream_is_read_oldest_first_and_an_entry_of_several_fields_is_json(raw, take, key):
    for fields in (("url", "a"), ("data", "b"), ("url", "c", "meta", "{}")):
        await raw.shard.server.command("XADD", key, "*", *fields)
    assert (await take(key))[1] == [b"a", b"b"]
    (last,) = (await take(key))[1]
    assert json.loads(last) == {"url": "c", "meta": "{}"}
    assert await take(key) is None


async def test_scores_are_told_and_kept(raw, take, key, clock):
    await raw.shard.server.command("ZADD", key, 1, "low", 2.5, "high")
    first = await raw.shard.call("feed", [key], limit=2, ttl_ms=1000)
    clock.advance(2)

    assert first[1:] == [b"2.5 1", 0, b"high", b"low"]
    assert await raw.shard.call("feed", [key], limit=2, ttl_ms=1000) == first


async def test_the_first_key_that_has_messages_is_read(raw, take, key):
    await raw.shard.server.command("RPUSH", f"{key}:2", "second")
    answer = await raw.shard.call("feed", [key, f"{key}:2"], limit=2, ttl_ms=1000)
    assert answer[1:] == [b"", 1, b"second"]

    await raw.shard.server.command("RPUSH", f"{key}:2", "second")
    await raw.shard.server.command("RPUSH", key, "first")
    assert (await take(key, f"{key}:2"))[1] == [b"first"]


async def test_a_batch_that_is_not_finished_in_time_is_taken_over_under_its_name(
    raw, take, key, clock
):
    await raw.shard.server.command("RPUSH", key, "a", "b", "c")
    name, messages = await take(key)
    assert (await take(key))[1] == [b"c"]
    clock.advance(0.5)
    assert await take(key) is None

    clock.advance(0.6)
    again = {(await take(key))[0], (await take(key))[0]}

    assert name in again
    assert await take(key) is None
    await raw.shard.server.command("HDEL", raw.shard.keys.key("feeding"), *again)
    clock.advance(5)
    assert await take(key) is None
    assert messages == [b"a", b"b"]
