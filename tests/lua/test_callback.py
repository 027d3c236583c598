"""claim_callback and finish_callback: what runs once when nothing of a job is left to be done."""

from __future__ import annotations

TTL = 10_000


async def claim(raw, name: str) -> tuple[str, bytes]:
    turn, value = await raw.shard.call("claim_callback", claim=name, ttl_ms=TTL)
    return turn.decode(), value


async def finish_callback(raw, name: str, value: str):
    return await raw.shard.call("finish_callback", claim=name, value=value)


async def test_it_waits_until_the_last_lease_has_ended(raw):
    await raw.add("1", "2")
    assert await claim(raw, "a") == ("wait", b"")
    grant = await raw.lease(2)
    assert await claim(raw, "a") == ("wait", b"")
    await raw.complete(*grant.claims)

    assert await claim(raw, "a") == ("yours", b"")


async def test_one_has_it_at_a_time_and_keeps_it_by_asking_again(raw, clock):
    assert await claim(raw, "a") == ("yours", b"")
    assert await claim(raw, "b") == ("held", b"")
    clock.advance(8)
    assert await claim(raw, "a") == ("yours", b"")
    clock.advance(8)

    assert await claim(raw, "b") == ("held", b"")


async def test_who_vanished_is_replaced_and_his_result_does_not_count(raw, clock):
    await claim(raw, "a")
    clock.advance(11)
    assert await claim(raw, "b") == ("yours", b"")

    assert await finish_callback(raw, "a", "late") == 0
    assert await finish_callback(raw, "b", "good") == 1

    assert await claim(raw, "c") == ("done", b"good")


async def test_the_first_result_stays(raw):
    await claim(raw, "a")
    assert await finish_callback(raw, "a", "first") == 1

    assert await finish_callback(raw, "a", "second") == 1

    assert await claim(raw, "b") == ("done", b"first")
