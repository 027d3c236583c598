"""A page that is done and will be visited again."""

import pytest


@pytest.fixture
async def monthly(make_raw):
    raw = await make_raw(max_pages=10)
    await raw.control(revisit=1)
    return raw


def again(after_ms=5000, how="new", record=b"0 a.test newer"):
    return {"revisit": {"after_ms": after_ms, "how": how, "record": record.decode()}}


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
