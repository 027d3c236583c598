"""Which pages are blamed for the death of a process."""

from __future__ import annotations

from skitter.frontier.transport.scripts import Code


async def lose(raw, clock, **terms):
    grant = await raw.lease(ttl_ms=1000, **terms)
    clock.advance(2)
    assert await raw.call("reap", at_most=9) == len(grant.fps)
    return grant


async def test_a_page_in_company_becomes_a_suspect_and_is_never_buried(make_raw, clock):
    raw = await make_raw(max_losses=3)
    await raw.add("1")
    for _ in range(9):
        assert (await lose(raw, clock, company=1)).fps == ["1"]
    assert (await raw.read("trouble"))["1"]["losses"] == 9
    assert await raw.read("dead") == {}


async def test_a_page_that_is_lost_alone_is_buried_after_a_second_time(make_raw, clock):
    """Once may be a coincidence: whoever kills at random hits those that are alone, too."""
    raw = await make_raw(max_losses=3)
    await raw.add("1")
    for _ in range(2):
        await lose(raw, clock, company=1)
    for losses in (3, 4):
        assert await raw.read("dead") == {}
        grant = await raw.lease(ttl_ms=1000, company=1)
        assert await raw.extend(*grant.claims, ttl_ms=1000, alone=1) == [Code.EXTENDED]
        clock.advance(2)
        assert await raw.call("reap", at_most=9) == 1
        assert (await raw.read("trouble"))["1"]["losses"] == losses
    assert list(await raw.read("dead")) == ["1"]
    assert (await raw.read("trouble"))["1"]["error"] == "its worker vanished 4 times"


async def test_whoever_is_alone_has_a_new_token(make_raw):
    raw = await make_raw()
    await raw.add("1")
    [(fp, token)] = (await raw.lease(company=1)).claims
    assert token.endswith("~")
    assert await raw.extend((fp, token), alone=1) == [Code.EXTENDED]
    assert await raw.complete((fp, token)) == [Code.LOST]
    assert await raw.complete((fp, token.removesuffix("~"))) == [Code.DONE]


async def test_the_only_page_of_a_dead_process_was_alone(make_raw):
    raw = await make_raw(max_losses=2)
    await raw.add("1")
    for alone in (0, 1):
        claims = (await raw.lease(company=1)).claims
        assert await raw.call("reclaim", claims, seen=1, alone=alone, why="stuck at x") == 1
    assert (await raw.read("trouble"))["1"]["error"] == "its worker vanished 2 times: stuck at x"
    assert list(await raw.read("dead")) == ["1"]
