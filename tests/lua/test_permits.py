"""issue_permits and renew_permits: how many pumps of another engine may work."""

from __future__ import annotations

TTL = 10_000


async def issue(raw, wanted: int, *names: str, lane: str = "") -> list[str]:
    options = {"wanted": wanted, "ttl_ms": TTL, "lane": lane}
    answer = await raw.shard.call("issue_permits", list(names), **options)
    return [permit.decode() for permit in answer]


async def renew(raw, *names: str):
    return await raw.shard.call("renew_permits", list(names), ttl_ms=TTL)


async def test_as_many_permits_are_issued_as_are_missing(raw, clock):
    assert await issue(raw, 2, "a", "b") == ["a", "b"]
    assert await issue(raw, 3, "c", "d", "e") == ["c"]
    assert await issue(raw, 3, "f") == []
    assert await raw.read("permits") == {name: clock() + TTL for name in "abc"}


async def test_a_call_that_is_repeated_gets_the_same_permits(raw):
    await issue(raw, 2, "a", "b")

    assert await issue(raw, 2, "a", "b") == ["a", "b"]


async def test_a_permit_that_nobody_renews_is_replaced(raw, clock):
    await issue(raw, 2, "a", "b")
    clock.advance(8)
    assert await renew(raw, "a") == [1]
    clock.advance(8)

    assert await issue(raw, 2, "c", "d") == ["c"]

    assert await renew(raw, "a", "b", "c") == [1, 0, 1]


async def test_permits_too_many_are_taken_back(raw):
    await issue(raw, 3, "a", "b", "c")

    assert await issue(raw, 1, "d") == []

    assert sum(await renew(raw, "a", "b", "c")) == 1


async def test_pumps_for_a_browser_are_counted_apart(raw):
    assert await issue(raw, 2, "a", "b") == ["a", "b"]
    assert await issue(raw, 1, "browser-c", lane="browser") == ["browser-c"]

    assert await issue(raw, 1, "d") == []

    assert sum(await renew(raw, "a", "b")) == 1
    assert await renew(raw, "browser-c") == [1]


async def test_a_permit_that_ran_out_is_good_as_long_as_nobody_replaced_it(raw, clock):
    await issue(raw, 1, "a")
    clock.advance(60)

    assert await renew(raw, "a") == [1]
