import math
import random

import pytest

from skitter.frontier.transport.scripts import Code
from skitter.frontier.transport.shard import scan_keys
from skitter.settings import Bloom, Layout

BATCH = 500
PER_BUCKET = 200


def fingerprints(how_many, seed=1):
    chance = random.Random(seed)
    return [str(chance.getrandbits(63)) for _ in range(how_many)]


async def add_all(raw, fps, batch=BATCH):
    codes = []
    for first in range(0, len(fps), batch):
        codes += await raw.add(*fps[first : first + batch])
    return codes


async def read_buckets(raw):
    names = [raw.shard.keys.name_of(key) async for keys in scan_keys(raw.shard) for key in keys]
    return {int(n): await raw.read("seen", n) for name, n in set(names) if name == "seen"}


async def encodings(raw, buckets):
    client, keys = raw.shard.server.client, raw.shard.keys
    return {await client.object("ENCODING", keys.key("seen", str(n))) for n in buckets}


def bucket_of(fp, buckets):
    """Linear hashing, written down a second time: the finest division that exists for it."""
    span = 1 << (buckets.bit_length() - 1)
    bucket = int(fp[-9:]) % (2 * span)
    return bucket if bucket < buckets else bucket % span


@pytest.mark.parametrize("how_many", [5_000, 60_000])
async def test_every_bucket_stays_compact_and_no_fingerprint_is_lost(raw, how_many):
    fps = fingerprints(how_many)

    assert set(await add_all(raw, fps)) == {Code.NEW}

    buckets = await read_buckets(raw)
    expected = math.ceil(how_many / PER_BUCKET)
    assert await raw.counter("buckets") == expected
    assert buckets.keys() == set(range(expected))
    assert await encodings(raw, buckets) == {b"intset"}
    assert max(map(len, buckets.values())) <= 512
    assert sorted(fp for members in buckets.values() for fp in members) == sorted(fps)
    assert all(bucket_of(fp, expected) == n for n, members in buckets.items() for fp in members)


async def test_what_was_seen_is_seen_through_every_split(raw):
    fps = fingerprints(3000)

    for first in range(0, len(fps), 100):
        assert await raw.add(*fps[first : first + 100]) == [Code.NEW] * 100
        earlier = random.Random(first).sample(fps[: first + 100], 50)
        assert await raw.add(*earlier) == [Code.SEEN] * 50

    assert await raw.counter("seen") == 3000


@pytest.mark.parametrize("already", [0, 600, 2500, 6000])
async def test_buckets_that_one_large_batch_overfilled_are_compact_after_it(raw, already):
    fps = fingerprints(already + 4000)
    await add_all(raw, fps[:already])

    await raw.add(*fps[already:])

    buckets = await read_buckets(raw)
    assert sum(map(len, buckets.values())) == len(fps)
    assert await encodings(raw, buckets) == {b"intset"}


async def test_links_of_a_completion_split_buckets_too(raw):
    await raw.add("1")
    [(fp, token)] = (await raw.lease()).claims

    await raw.complete((fp, token, [raw.link(fp) for fp in fingerprints(1000)], []))

    assert await raw.counter("buckets") == len(await read_buckets(raw)) == 6


async def test_fingerprints_of_any_length_have_a_bucket(raw):
    short = [str(n) for n in range(1, 1001)]

    assert set(await add_all(raw, short)) == {Code.NEW}

    assert set(await add_all(raw, short)) == {Code.SEEN}


async def test_a_split_of_buckets_that_are_empty_loses_nothing(raw):
    same_tail = [f"{n}000000000" for n in range(1, 1001)]  # all live in bucket 0

    assert set(await add_all(raw, same_tail)) == {Code.NEW}

    assert (await read_buckets(raw)).keys() == {0}
    assert set(await add_all(raw, same_tail)) == {Code.SEEN}


async def bloom_job(make_raw, **promise):
    return await make_raw(layout=Layout(bloom=Bloom(**promise)))


async def test_a_bloom_filter_never_forgets_and_keeps_its_promise(make_raw):
    raw = await bloom_job(make_raw, capacity=20_000, error_rate=0.01)
    fps = fingerprints(20_000)

    wrong = (await add_all(raw, fps)).count(Code.SEEN)

    assert wrong <= 200
    assert set(await add_all(raw, fps)) == {Code.SEEN}
    assert await raw.counter("seen") == 20_000 - wrong


@pytest.mark.parametrize(
    ("capacity", "error_rate"),
    [(20_000, 3.4e-6), (40_000, 0.0018), (54_000, 0.01)],  # each fills one block of 2^19 bits
)
async def test_a_full_bloom_filter_errs_about_as_often_as_promised(make_raw, capacity, error_rate):
    raw = await bloom_job(make_raw, capacity=capacity, error_rate=error_rate)
    await add_all(raw, fingerprints(capacity))

    wrong = (await add_all(raw, fingerprints(2000, seed=2))).count(Code.SEEN)

    assert wrong <= 3 + 1.5 * 2000 * error_rate
    if error_rate == 0.01:
        assert wrong >= 10


async def test_a_bloom_filter_is_blocks_of_64_kib_that_are_used_evenly(make_raw):
    promise = Bloom(capacity=200_000, error_rate=0.001)
    raw = await make_raw(layout=Layout(bloom=promise))
    await add_all(raw, fingerprints(20_000))

    names = {raw.shard.keys.name_of(key) async for keys in scan_keys(raw.shard) for key in keys}
    blocks = [await raw.read("bloom", n) for name, n in names if name == "bloom"]

    assert len(blocks) == promise.blocks == 6
    assert not [name for name, _ in names if name == "seen"]
    ones = [int.from_bytes(block, "big").bit_count() for block in blocks]
    assert max(map(len, blocks)) <= 2**16
    assert max(ones) < 1.2 * min(ones)


async def test_a_bloom_filter_recognises_a_fingerprint_twice_in_a_batch(make_raw):
    raw = await bloom_job(make_raw, capacity=1000)

    assert await raw.add("77", "77") == [Code.NEW, Code.SEEN]


async def test_a_bloom_filter_past_its_capacity_errs_as_often_as_it_says(make_raw):
    promise = Bloom(capacity=1000, error_rate=0.5)
    raw = await make_raw(layout=Layout(bloom=promise))
    await add_all(raw, fingerprints(50_000))
    met = await raw.counter("seen")

    wrong = (await add_all(raw, fingerprints(1000, seed=2))).count(Code.SEEN)

    assert 0.7 < wrong / 1000 / promise.errors_at(met) < 1.3
