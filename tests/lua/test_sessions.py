"""Sessions on the server: pools, and who logs a session in."""

from __future__ import annotations

import pytest

from skitter.frontier.transport.messages import encode

LIMITS = {"size": 1, "uses": -1, "errors": 3, "age_ms": -1, "chance": 0}


async def open_sessions(raw, *rows, **limits):
    flat = [part for row in rows for part in (*row, "", "")[:3]]
    answers = await raw.shard.call("open_sessions", flat, **(LIMITS | limits))
    return [
        (number, version, dict(zip(f[::2], f[1::2], strict=True)))
        for number, version, _, f in answers
    ]


async def numbers(raw, *rows, **limits):
    return [number for number, _, _ in await open_sessions(raw, *rows, **limits)]


async def claim(raw, who="me", number=1):
    what, count, reason = await raw.shard.call(
        "claim_login", name="a.test/", number=number, claim=who, ttl_ms=1000
    )
    return what.decode(), count, reason.decode()


async def end(raw, who="me", *fields, reason="", number=1):
    flat = [part for pair in fields for part in pair]
    return await raw.shard.call(
        "end_login", flat, name="a.test/", number=number, claim=who, reason=reason, rest_ms=1000
    )


async def test_a_pool_that_nobody_asked_for_is_not_made(raw):
    assert await numbers(raw, ("a.test/", 0)) == [0]
    assert not {name for name, _ in await raw.dump()} & {"sessions", "pool", "session"}


async def test_a_pool_grows_to_its_size_and_is_then_used_in_turn(raw):
    wanted = [("a.test/", 1)] * 6

    assert await numbers(raw, *wanted[:2], size=3) == [1, 2]
    assert await numbers(raw, *wanted, size=3) == [1, 2, 3, 1, 2, 3]
    assert await numbers(raw, ("b.test/", 1), size=3) == [1]


async def test_a_session_is_retired_by_age_with_all_it_holds(raw, clock):
    await open_sessions(raw, ("a.test/", 1))
    await claim(raw)
    await end(raw, "me", ("c:x", b"1"))
    clock.advance(10)

    assert await numbers(raw, ("a.test/", 1), age_ms=10_001) == [1]
    assert await numbers(raw, ("a.test/", 1), age_ms=10_000) == [2]
    assert ("session", "a.test//1") not in await raw.dump()
    assert (await claim(raw))[0] == "gone"


async def test_what_the_caller_knows_is_not_sent_again(raw):
    await open_sessions(raw, ("a.test/", 1))
    await claim(raw)
    await end(raw, "me", ("c:x", b"1"))

    [(number, version, fields)] = await open_sessions(raw, ("a.test/", 0))
    assert (fields[b"c:x"], fields[b"login"]) == (b"1", b"1")
    known = f"{number} {version}"
    assert await open_sessions(raw, ("a.test/", 0, known)) == [(number, version, {})]
    [(_, _, fields)] = await open_sessions(raw, ("a.test/", 0, f"{number} {version - 1}"))
    assert fields


async def test_one_logs_in_while_others_wait(raw):
    await open_sessions(raw, ("a.test/", 1))
    assert await claim(raw, "me") == ("yours", 0, "")
    assert await claim(raw, "you") == ("busy", 0, "")

    assert await end(raw, "me", ("c:x", b"1")) == 1

    assert await claim(raw, "you") == ("in", 1, "")


async def test_who_vanished_is_replaced_and_what_it_brings_does_not_count(raw, clock):
    await open_sessions(raw, ("a.test/", 1))
    await claim(raw, "dead")
    clock.advance(1.5)
    assert (await claim(raw, "me"))[0] == "yours"

    assert await end(raw, "dead", ("c:x", b"old")) == 0
    assert await end(raw, "me", ("c:x", b"new")) == 1

    assert (await open_sessions(raw, ("a.test/", 0)))[0][2][b"c:x"] == b"new"


@pytest.mark.parametrize(("times", "rest_s"), [(1, 1), (2, 2), (3, 4)])
async def test_after_a_failure_nobody_tries_for_a_while(raw, clock, times, rest_s):
    await open_sessions(raw, ("a.test/", 1))
    for n in range(times):
        assert (await claim(raw, f"me{n}"))[0] == "yours"
        assert await end(raw, f"me{n}", reason="wrong password") == 0
        what, ms, reason = await claim(raw, "you")
        clock.advance(ms / 1000)
    assert (what, ms, reason) == ("rest", rest_s * 1000, "wrong password")


async def test_a_session_takes_no_flood(raw):
    await open_sessions(raw, ("a.test/", 1))
    await claim(raw)
    await end(raw, "me", *((f"c:{n}", b"x") for n in range(10_000)))

    assert len(await raw.read("session", "a.test//1")) < 260


async def test_a_damaged_pool_is_begun_anew(raw):
    key = raw.shard.keys.key("pool", "a.test/")
    for nonsense in (b"\x93\x01", b"", b"\x81\xa4last\x01", b"\xc1"):
        await raw.shard.server.command("SET", key, nonsense)
        assert await numbers(raw, ("a.test/", 1)) == [1]


async def test_all_of_it_expires(raw):
    await open_sessions(raw, ("a.test/", 1))
    await claim(raw)
    for name, member in (("sessions", None), ("pool", "a.test/"), ("session", "a.test//1")):
        ttl = await raw.shard.server.command("PTTL", raw.shard.keys.key(name, member))
        assert 0 < ttl <= 86_400_000


async def test_what_is_noted_without_a_lease_starts_a_session_and_changes_it(raw):
    first = encode({"name": "a.test/", "fields": ["c:x", "1", "c:y", "2"]})
    await raw.shard.call("note_sessions", [first])
    await raw.shard.call("note_sessions", [encode({"name": "a.test/", "gone": ["c:x"]})])

    [(number, version, fields)] = await open_sessions(raw, ("a.test/", 0))
    assert (number, version) == (1, 2)
    assert fields == {b"c:y": b"2", b"v": b"2"}
