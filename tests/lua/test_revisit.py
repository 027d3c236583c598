"""A page that is done and will be visited again."""

import pytest


@pytest.fixture
async def monthly(make_raw):
    raw = await make_raw(max_pages=10)
    await raw.control(revisit=1)
    return raw


def again(after_ms=5000, how="new", record=b"0 a.test newer", **more):
    return {"revisit": {"after_ms": after_ms, "how": how, "record": record.decode(), **more}}


async def finish(raw, **how):
    grant = await raw.lease()
    await raw.complete(*grant.claims, said=again(**how))
    return grant


async def test_it_is_done_and_nobody_waits_for_it(monthly, clock):
    await monthly.add("1")
    await finish(monthly)

    assert await monthly.read("revisits") == {"1": clock() + 5000}
    assert await monthly.read("task") == {"1": b"0 a.test newer"}
    stats = await monthly.stats()
    assert (stats["done"], stats["new"], stats["revisits"], stats["due"]) == (1, 1, 1, 0)
    assert await monthly.idle()
    assert (await monthly.lease()).again_ms == 5000


async def test_when_its_moment_comes_it_is_handed_out_again_with_its_new_body(monthly, clock):
    await monthly.add("1", "2")
    await finish(monthly)
    clock.advance(5)
    assert (await monthly.stats())["due"] == 2
    assert not await monthly.idle()

    grant = await monthly.lease(1)

    assert grant.rows == [("1", b"0 a.test newer", b"")]
    stats = await monthly.stats()
    assert (stats["done"], stats["leased"], stats["pending"], stats["revisits"]) == (0, 1, 1, 0)
    assert (await monthly.known()).pages == 0


async def test_it_is_done_once_however_often_it_is_visited(monthly, clock):
    await monthly.add("1")
    for how in ("new", "changed", "unchanged", "unchanged"):
        await finish(monthly, how=how)
        clock.advance(5)
    stats = await monthly.stats()
    assert (stats["done"], stats["seen"], stats["new"]) == (1, 1, 1)
    assert (stats["changed"], stats["unchanged"]) == (1, 2)
    assert (await monthly.known()).pages == 1


async def test_a_job_that_does_not_want_it_any_more_leaves_it_alone(monthly, clock):
    await monthly.add("1")
    await finish(monthly)
    await monthly.control(revisit="")
    clock.advance(5)
    assert (await monthly.lease()).fps == []
    assert await monthly.idle()
    assert (await monthly.stats())["due"] == 0


async def test_a_job_that_never_asked_for_it_keeps_nothing(raw):
    await raw.add("1")
    await finish(raw)
    assert await raw.read("revisits") == await raw.read("task") == {}
    assert (await raw.stats())["done"] == 1


async def test_a_lost_lease_plans_nothing(monthly, clock):
    await monthly.add("1")
    late = await monthly.lease(ttl_ms=1000)
    clock.advance(2)
    await monthly.reap()
    await monthly.complete(*late.claims, said=again())
    assert await monthly.read("revisits") == {}


async def test_loaders_are_told_of_a_page_that_is_gone_in_the_step_that_buries_it(monthly):
    await monthly.add("1")
    grant = await monthly.lease()

    await monthly.bury(*grant.claims, said=again(how="gone", emptied="none"))
    await monthly.bury(*grant.claims, said=again(how="gone", emptied="none"))  # too late

    [(_, notice)] = await monthly.shard.command("XRANGE", "items", "-", "+")
    assert notice == {b"fp": b"1", b"n": b"-1", b"item": b"none"}
    stats = await monthly.stats()
    assert (stats["gone"], stats["dead"], stats["revisits"]) == (1, 1, 0)
    assert await monthly.read("task") == {"1": b"0 a.test newer"}


@pytest.mark.parametrize(("verb", "how"), [("complete", "gone"), ("bury", "changed")])
async def test_a_page_that_is_done_is_not_gone_and_one_that_is_gone_not_done(monthly, verb, how):
    await monthly.add("1")
    grant = await monthly.lease()
    await getattr(monthly, verb)(*grant.claims, said=again(how=how, emptied="none"))
    assert await monthly.shard.command("XLEN", "items") == 0
    assert await monthly.read("revisits") == {}
