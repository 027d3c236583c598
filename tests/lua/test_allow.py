import pytest

from skitter.settings import Layout


@pytest.fixture
async def shard(make_raw):
    """One of three that have a limit of 20 pages together; it has 9 pages to hand out."""
    raw = await make_raw(Layout(shards=3), max_pages=20)
    await raw.add(*"123456789")
    return raw


async def test_a_shard_hands_out_what_it_was_granted_and_no_more(shard):
    assert (await shard.lease(5)).fps == []

    assert await shard.allow(granted=3) == [3, 0, 0]

    assert (await shard.lease(5)).fps == ["1", "2", "3"]
    assert (await shard.lease(5)).fps == []
    assert await shard.allow() == [3, 0, 3]


async def test_it_says_that_it_is_short_only_if_its_share_is_what_holds_pages_back(shard):
    await shard.allow(granted=11)

    assert not (await shard.lease(5)).is_short
    assert not (await shard.lease(5)).is_short  # it handed out all it had
    await shard.add("10", "11", "12")
    grant = await shard.lease(5)

    assert (len(grant.fps), grant.is_short) == (2, True)


async def test_pages_that_wait_for_their_host_do_not_make_it_short(shard):
    await shard.host("a.test", field="blocked_for_ms", value=5000)

    assert not (await shard.lease(5)).is_short


async def test_a_paused_shard_is_not_short(shard):
    await shard.control(state="pause")

    assert not (await shard.lease(5)).is_short


async def test_a_page_that_ends_badly_leaves_its_place_to_another(shard):
    await shard.allow(granted=1)
    await shard.bury(*(await shard.lease(5)).claims)

    assert (await shard.lease(5)).fps == ["2"]


async def test_what_was_granted_before_changes_nothing(shard):
    await shard.allow(granted=5)

    assert await shard.allow(granted=3) == [5, 0, 0]


async def test_it_cedes_what_is_more_than_it_may_keep(shard):
    await shard.allow(granted=8)
    await shard.lease(2)

    assert await shard.allow(keep=4) == [8, 2, 2]

    assert len((await shard.lease(9)).fps) == 4


async def test_it_cedes_what_is_more_than_it_has_pages_for(shard):
    await shard.allow(granted=15)
    await shard.lease(7)

    assert await shard.allow(keep=9) == [15, 6, 7]


async def test_it_cedes_all_while_no_host_may_be_asked(shard, clock):
    await shard.host("a.test", field="blocked_for_ms", value=5000)
    await shard.allow(granted=8)

    assert await shard.allow(keep=4) == [8, 8, 0]

    await shard.allow(granted=10)
    clock.advance(5)
    assert await shard.allow(keep=4) == [10, 8, 0]


async def test_it_cedes_all_while_loaders_do_not_keep_up(make_raw):
    raw = await make_raw(Layout(shards=3), max_pages=20, max_items=1)
    await raw.add(*"123456789")
    await raw.allow(granted=8)
    [claim] = (await raw.lease(1)).claims
    await raw.complete((*claim, [], [b"item"]))

    assert await raw.allow(keep=4) == [8, 7, 1]


async def test_a_shard_without_a_limit_has_nothing_to_say(make_raw):
    raw = await make_raw(Layout(shards=3), max_pages=20)
    await raw.control(max_pages="")
    before = await raw.dump()

    assert await raw.allow(granted=5, keep=0) == []

    assert await raw.dump() == before


async def test_a_new_limit_takes_back_what_is_not_used(shard):
    await shard.allow(granted=8)
    await shard.lease(2)

    await shard.control(max_pages=7)

    assert await shard.allow() == [8, 6, 2]
    assert (await shard.lease(5)).fps == []


async def test_a_limit_that_comes_late_counts_what_was_used_before_it(shard):
    await shard.control(max_pages="")
    await shard.lease(6)

    await shard.control(max_pages=7)

    assert await shard.allow() == [6, 0, 6]
    assert (await shard.lease(5)).fps == []


async def test_another_setting_takes_nothing_back(shard):
    await shard.allow(granted=8)

    await shard.control(delay_ms=5, state="pause")

    assert await shard.allow() == [8, 0, 0]


async def test_a_job_of_one_shard_needs_no_grants(make_raw):
    raw = await make_raw(max_pages=2)
    await raw.add("1", "2", "3")

    grant = await raw.lease()

    assert (grant.fps, grant.is_short) == (["1", "2"], False)
    assert await raw.read("budget") == {}
    assert await raw.counter("granted") == 0
