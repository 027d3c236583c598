"""A page counts as deep as the shortest way to it, whenever that is found."""

import pytest

from skitter.frontier.transport.scripts import Code
from skitter.settings import Bloom, Layout


@pytest.fixture
async def raw(make_raw):
    return await make_raw(max_depth=3)


async def finish(raw, claim, *, depth, reach=1, links=(), items=()):
    """Complete a page whose links were offered as those of `depth`."""
    brings = f"{len(links)} {len(items)} {depth} {reach}"
    each = [(*claim, brings, ""), *links, (b"packed",), *((item,) for item in items)]
    return await raw.call("complete", each, leases=1, links=len(links), list="", report=0)


async def finish_a_page(raw, fp="1", *, depth, **about):
    await raw.add(fp, depth=depth)
    [claim] = (await raw.lease(1)).claims
    assert await finish(raw, claim, depth=depth, **about) == [Code.DONE]


async def test_a_job_without_a_limit_keeps_nothing(make_raw):
    raw = await make_raw()
    await raw.add("1", depth=2)
    grant = await raw.lease()
    await raw.complete((*grant.claims[0], [raw.link("2", depth=3)], []))

    assert (grant.to_reopen, grant.depths) == (-1, {})
    assert not {name for name, _ in await raw.dump()} & {"depths", "outlinks", "reopenable"}


async def test_a_pending_page_is_handed_out_at_its_least_depth(raw):
    await raw.add("1", depth=3)
    assert await raw.add("1", depth=1) == [Code.SEEN]
    await raw.add("1", depth=2)

    assert (await raw.lease()).depths == {"1": 1}


async def test_seeds_need_no_depth(raw):
    await raw.add("1", depth=0)
    await raw.add("1", depth=2)

    assert await raw.read("depths") == {}
    assert (await raw.lease()).depths == {"1": 0}


async def test_of_one_page_offered_twice_in_a_call_the_lesser_depth_counts(raw):
    offers = [raw.link("1", depth=3), raw.link("1", depth=2)]
    assert await raw.call("add", offers, links=1) == [Code.NEW, Code.SEEN]

    assert await raw.read("depths") == {"1": b"2"}


async def test_a_full_queue_still_hears_of_a_shorter_way(make_raw):
    raw = await make_raw(max_depth=3, max_pending=1)
    await raw.add("1", depth=3)
    assert await raw.add("2", "1", depth=1) == [Code.FULL, Code.SEEN]

    assert (await raw.lease()).depths == {"1": 1}


async def test_a_page_that_is_done_is_opened_again_by_a_shorter_way(raw):
    await finish_a_page(raw, depth=2, links=[raw.link("2", depth=3)], items=[b"item"])
    assert await raw.read("outlinks") == {"1": b"packed"}
    assert (await raw.stats())["reopened"] == 0

    await raw.add("1", depth=1)

    assert await raw.read("reopenable") == {"1": 1}
    assert (await raw.stats())["reopened"] == 1
    assert (await raw.lease()).to_reopen == 1
    assert await raw.shard.call("reopen", limit=5, max_bytes=999, ttl_ms=5000) == [
        b"1",
        b"1",
        b"packed",
    ]


async def test_items_behind_outlinks_are_counted_from_the_first(raw):
    await finish_a_page(raw, depth=2, items=[b"one", b"two"])

    found = await raw.read("items")
    assert [(entry["n"], entry["item"]) for entry in found] == [(b"0", b"one"), (b"1", b"two")]


async def test_a_shorter_way_that_was_found_while_it_was_worked_on(raw):
    await raw.add("1", depth=2)
    [claim] = (await raw.lease()).claims
    await raw.add("1", depth=1)
    assert await raw.read("reopenable") == {}

    await finish(raw, claim, depth=2)

    assert await raw.read("reopenable") == {"1": 1}


async def test_a_late_completion_leaves_no_links_behind(raw):
    await raw.add("1", depth=2)
    [(fp, _)] = (await raw.lease()).claims

    assert await finish(raw, (fp, "nonsense"), depth=2) == [Code.LOST]

    assert (await raw.read("outlinks"), await raw.read("reopenable")) == ({}, {})


async def test_a_page_at_the_limit_waits_for_a_higher_one(raw):
    await finish_a_page(raw, depth=3, links=[raw.link("2", depth=4)])
    assert await raw.read("reopenable") == {"1": 3}
    assert await raw.idle()

    await raw.control(max_depth=4)

    assert not await raw.idle()
    assert (await raw.lease()).to_reopen == 1


async def test_without_a_limit_all_that_waits_is_opened_again(raw):
    await finish_a_page(raw, depth=3)
    await raw.control(max_depth="")

    assert (await raw.lease()).to_reopen == 1
    assert await raw.shard.call("reopen", limit=5, max_bytes=999, ttl_ms=5000) == [
        b"1",
        b"3",
        b"packed",
    ]


async def test_a_redirect_at_the_limit_waits_for_nothing(raw):
    await finish_a_page(raw, depth=3, reach=0, links=[raw.link("2", depth=3)])

    assert await raw.read("reopenable") == {}


async def test_a_seed_within_the_limit_keeps_no_links(raw):
    await finish_a_page(raw, depth=0)

    assert await raw.read("outlinks") == {}


async def test_a_page_that_is_older_than_the_limit_gets_its_depth_when_it_is_done(make_raw):
    raw = await make_raw()
    await raw.add("1", depth=2)
    await raw.control(max_depth=3)
    [claim] = (await raw.lease()).claims

    await finish(raw, claim, depth=2)
    await raw.add("1", depth=1)

    assert await raw.read("reopenable") == {"1": 1}


async def test_one_client_at_a_time_opens_pages_again(raw, make_raw):
    await finish_a_page(raw, depth=2)
    await raw.add("1", depth=1)
    other = await make_raw()

    assert await raw.shard.call("reopen", limit=5, max_bytes=999, ttl_ms=60_000)
    assert await other.shard.call("reopen", limit=5, max_bytes=999, ttl_ms=60_000) == []
    assert await raw.shard.call("reopened", []) == 0
    assert await other.shard.call("reopen", limit=5, max_bytes=999, ttl_ms=60_000)


async def test_whoever_vanishes_is_followed_by_another(raw, make_raw):
    await finish_a_page(raw, depth=2)
    await raw.add("1", depth=1)
    other = await make_raw()
    await raw.shard.call("reopen", limit=5, max_bytes=999, ttl_ms=1)

    while not await other.shard.call("reopen", limit=5, max_bytes=999, ttl_ms=1):
        pass  # until the first one's time is up


async def test_a_page_leaves_the_edge_when_its_links_went_in(raw):
    await finish_a_page(raw, depth=2)
    await raw.add("1", depth=1)

    await raw.shard.call("reopened", ["1", "1", ""])

    assert await raw.read("reopenable") == {}
    assert await raw.idle()


async def test_a_page_that_was_lowered_again_meanwhile_stays_on_the_edge(raw):
    await finish_a_page(raw, depth=3)
    await raw.add("1", depth=2)
    await raw.add("1", depth=1)

    await raw.shard.call("reopened", ["1", "2", ""])

    assert await raw.read("reopenable") == {"1": 1}


async def test_a_page_with_links_that_are_still_too_deep_waits_behind_them(raw):
    await finish_a_page(raw, depth=3)
    await raw.add("1", depth=2)

    await raw.shard.call("reopened", ["1", "2", 5])

    assert await raw.read("reopenable") == {"1": 5}


@pytest.mark.parametrize(("state", "left"), [("pause", 1), ("drain", 0), ("cancel", 0)])
async def test_a_job_that_takes_nothing_new_does_not_wait_for_the_edge(raw, state, left):
    await finish_a_page(raw, depth=2)
    await raw.add("1", depth=1)
    await raw.control(state=state)

    assert (await raw.stats())["reopened"] == left
    assert (await raw.lease()).to_reopen == 0
    assert await raw.idle() == (state != "pause")


async def test_the_finale_waits_for_the_edge(raw):
    await finish_a_page(raw, depth=2)
    await raw.add("1", depth=1)

    assert await raw.shard.call("claim_callback", claim="me", ttl_ms=1000) == [b"wait", b""]
    await raw.shard.call("reopened", ["1", "1", ""])
    assert (await raw.shard.call("claim_callback", claim="me", ttl_ms=1000))[0] == b"yours"


async def test_a_page_that_comes_to_the_edge_draws_a_ticket(raw):
    """Or two readings of a job of many shards could both miss it: see totals.py."""
    await finish_a_page(raw, depth=2)
    before = await raw.counter("ticket")

    await raw.add("1", depth=1)

    assert await raw.counter("ticket") == before + 1


async def test_a_dead_page_comes_back_at_its_least_depth(raw):
    await raw.add("1", depth=3)
    await raw.bury(*(await raw.lease()).claims)
    await raw.add("1", depth=1)

    await raw.revive("1")

    assert (await raw.lease()).depths == {"1": 1}


async def test_a_page_that_is_forgotten_has_no_depth_any_more(raw):
    await raw.add("1", depth=3)
    await raw.bury(*(await raw.lease()).claims)

    await raw.drop("1", forget=1)

    assert await raw.read("depths") == {}


async def test_a_bloom_filter_keeps_depths_too(make_raw):
    raw = await make_raw(Layout(bloom=Bloom(capacity=1000)), max_depth=3)
    await finish_a_page(raw, depth=2)
    await raw.add("1", depth=1)

    assert await raw.read("reopenable") == {"1": 1}


async def test_a_limit_that_an_older_release_set_keeps_depths_too(make_raw):
    raw = await make_raw()
    await raw.shard.server.command("HSET", raw.shard.keys.key("control"), "max_depth", 3)

    await finish_a_page(raw, depth=2)
    await raw.add("1", depth=1)

    assert await raw.read("reopenable") == {"1": 1}
    assert (await raw.lease()).to_reopen == 1


async def test_pages_with_many_links_are_opened_again_one_by_one(raw):
    for fp in "123":
        await finish_a_page(raw, fp, depth=2)
        await raw.add(fp, depth=1)

    async def opened(max_bytes):
        rows = await raw.shard.call("reopen", limit=5, max_bytes=max_bytes, ttl_ms=60_000)
        await raw.shard.call("reopened")
        return [fp.decode() for fp in rows[::3]]

    size = len(b"packed")
    assert await opened(0) == ["1"]
    assert await opened(2 * size) == ["1", "2"]
    assert await opened(3 * size) == ["1", "2", "3"]
