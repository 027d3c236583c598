from typing import Any

import pytest

from skitter.errors import InfrastructureError
from skitter.frontier.transport.messages import encode, pack_feedback
from skitter.frontier.transport.scripts import script, verbs
from skitter.model import Feedback

MESSAGES = "once:messages"
FEEDBACK = pack_feedback(Feedback(rest_ms=5000, incident=503, page="200 1 1 0 -"))
# What to send to a job in which 1, 2 and 3 are leased, 4 is dead and 5 and 6 are pending; `t` is
# the token of the leases.
CALLS: Any = {
    "settle_routes": lambda t: (
        [
            ("", "gate", "shop.test", "good", "700 5 0 0 30"),
            ("", "gate", "shop.test", "fault", "0 0 0 0 30"),
        ],
        {"domain": "other.test"},
    ),
    "add": lambda t: (
        [("9", "b.test", 0, 0, b"0 b.test x"), ("5", "a.test", 0, 0, b"0 a.test x")],
        {"links": 0},
    ),
    "lease": lambda t: ([], {"limit": 3, "ttl_ms": 1000, "lane": "", "company": 0}),
    "extend": lambda t: ([("1", t), ("2", "nonsense")], {"ttl_ms": 9000, "alone": 0}),
    "complete": lambda t: (
        [
            ("1", t, "1 2", FEEDBACK),
            ("8", t, "", b""),
            ("7", "b.test", 0, 1, b"0 b.test x"),
            (b"i",),
            (b"j",),
        ],
        {"leases": 2, "links": 1, "list": "", "report": 1},
    ),
    "retry": lambda t: ([("1", t, 500, "error", FEEDBACK), ("2", "nonsense", 0, "", b"")], {}),
    "bury": lambda t: (
        [("1", t, "reason", FEEDBACK, "", 0), ("2", "nonsense", "", b"", "", 0)],
        {},
    ),
    "release": lambda t: ([("1", t, 0), ("2", t, 500), ("3", "nonsense", 0)], {}),
    "reap": lambda t: ([], {"at_most": 2}),
    "again": lambda t: (
        [("4", "a.test", 0, 0, b"0 a.test x"), ("9", "b.test", 0, 0, b"0 b.test x")],
        {"due_ms": "5"},
    ),
    "next_round": lambda t: ([], {"due_ms": "5", "next_ms": "9", "missed": 0}),
    "trap": lambda t: ([("1", t, 7, 0), ("2", "nonsense", 7, 0), ("3", t, 8, 0)], {}),
    "free_trapped": lambda t: ([], {"at_most": 2, "handler": ""}),
    "reclaim": lambda t: (
        [("1", t), ("2", "nonsense"), ("3", t)],
        {"seen": 1, "alone": 0, "why": ""},
    ),
    "tally": lambda t: ([("blocked", 2), ("skipped", 1)], {}),
    "handled": lambda t: ([("pages book", 2), ("items book", 1)], {"keep": 10}),
    "revive": lambda t: ([("4", "5")], {}),
    "drop": lambda t: ([("4", "5")], {"forget": 1}),
    "forget": lambda t: ([("8", "adopted"), ("5", "a.test")], {}),
    "log": lambda t: ([("info", "w1", "1", "", ""), ("error", "w1", "2", "", "")], {"keep": 10}),
    "observe": lambda t: (
        [("parse", encode([3, 2, 1]), encode(["text:title"]), encode([2]))],
        {"handlers": 5, "columns": 5},
    ),
    "increment": lambda t: (
        [("books", "", "2.5", b""), ("parse", "success", "1", encode([1500, 16, 1]))],
        {"limit": 5, "keep_s": 600},
    ),
    "quota": lambda t: (
        [("shop-*", 10)],
        {"wanted": 3, "back": 1, "of_day": 0},
    ),
    "reserve": lambda t: (
        [],
        {
            "tenant": "shop-*",
            "limit": 10,
            "wanted": 3,
            "fresh_ms": 1000,
            "counted": 2,
            "asked_ms": 0,
        },
    ),
    "measure": lambda t: (
        [
            ("counts", "pages", encode(3)),
            ("timings", "fetch", encode([1500, 16, 2])),
            ("tables", "host", encode(["a.test", [2, 1, 700, 30, 0, 3]])),
        ],
        {"members": 5},
    ),
    "reject_items": lambda t: ([("price", b"x"), ("whole", b"y")], {"keep": 10}),
    "refuse": lambda t: ([("7", "scope", b"x"), ("8", "robots", b"y")], {"keep": 4}),
    "robots": lambda t: ([], {"name": "a.test", "rules": b"", "ttl_ms": 9000, "keep_ms": 0}),
    "record": lambda t: ([("a.test 1 0 9 9 x",)], {}),
    "depart": lambda t: ([("a.test", 0, 100, 5000, 0), ("a.test", 0, -1, 5000, 0)], {}),
    "withdraw": lambda t: ([("5", "revoked"), ("9", "revoked")], {}),
    "bury_messages": lambda t: ([("9", "feed", b"x", "no URL"), ("5", "feed", b"x", "no URL")], {}),
    "note_sessions": lambda t: ([(encode({"name": "a.test/", "fields": ["c:a", "1"]}),)], {}),
}
CALLS |= {
    "adopt": lambda t: ([("9",), ("5",)], {}),
    "keep_failed": lambda t: ([("4", "error", b"page")], {"most": 1, "max_bytes": 99}),
    "unreject": lambda t: ([("1-1", "price")], {}),
    "unload": lambda t: ([("1-1",), ("1-2",)], {"name": "load", "stored": 1, "updated": 1}),
}
#: These set values, or let them only grow: the same again is the same again.
IDEMPOTENT: Any = {
    "feed": lambda t: ([(MESSAGES,)], {"limit": 1, "ttl_ms": 1000}),
    "take_routes": lambda t: ([("place", "gate", "3 250 9 -1 -1", "10 2")], {"ttl_ms": 5000}),
    "control": lambda t: ([("state", "pause"), ("max_pages", 3)], {"create": 0}),
    "beat": lambda t: ([], {"name": "w1", "message": b"x", "supervises": 0}),
    "group": lambda t: ([], {"name": "load"}),
    "issue_permits": lambda t: ([("t1",)], {"wanted": 2, "ttl_ms": 5000, "lane": ""}),
    "renew_permits": lambda t: ([("t0",)], {"ttl_ms": 9000}),
    "claim_callback": lambda t: ([], {"claim": "me", "ttl_ms": 9000}),
    "finish_callback": lambda t: ([], {"claim": "me", "value": "it"}),
    "host": lambda t: ([("a.test", "c.test")], {"field": "blocked_for_ms", "value": 4000}),
    "allow": lambda t: ([], {"granted": 9, "keep": 1}),
    "grant": lambda t: ([(3, 1, 2, 5), (1, 0, 1, 90)], {}),
    "spare": lambda t: ([], {"name": "me", "wanted": 2}),
    "sink": lambda t: ([], {"place": "books.db", "instead": ""}),
    "reopen": lambda t: ([], {"limit": 2, "max_bytes": 99, "ttl_ms": 9000}),
    "reopened": lambda t: ([("7", "1", ""), ("8", "1", 5)], {}),
    "open_sessions": lambda t: (
        [("a.test/", 1, ""), ("b.test/", 0, "")],
        {"size": 1, "uses": -1, "errors": 3, "age_ms": -1, "chance": 7},
    ),
    "claim_login": lambda t: ([], {"name": "s.test/", "number": 1, "claim": "me", "ttl_ms": 900}),
    "end_login": lambda t: (
        [("c:a", b"1")],
        {"name": "s.test/", "number": 1, "claim": "mine", "reason": "", "rest_ms": 5},
    ),
}


# `turn` belongs to no shard. A repeat takes another moment, and the first one passes unused.
# A repeat of `look` finds that its shapes were looked at: test_trap.py.
# Runs belong to no job: tests/frontier/test_runs.py.
OUTSIDE = {"look", "turn", "start_run", "take_run", "renew_run", "end_run", "stop_run", "share_out"}


async def prepare(raw, clock, verb):
    """The job of CALLS; its leases have run out, and nobody took them back yet."""
    await raw.shard.server.command("DEL", MESSAGES)
    await raw.shard.server.command("RPUSH", MESSAGES, "one", "two")
    if verb == "unload":  # not for `group`, which makes the stream
        await raw.shard.server.command("XADD", raw.shard.keys.key("items"), "1-1", "item", "x")
    if verb == "unreject":
        await raw.shard.server.command("XADD", raw.shard.keys.key("rejected"), "1-1", "item", "x")
    if verb == "spare":
        await raw.shard.call("beat", name="me", message=b"x", supervises=0)
    await raw.control(max_pages=50)
    if verb in ("reopen", "reopened"):
        await put_on_the_edge(raw, "7", "8")
    await raw.shard.call("issue_permits", ["t0"], wanted=1, ttl_ms=5000, lane="")
    await raw.shard.call("claim_callback", claim="me", ttl_ms=5000)
    if verb.endswith("_login"):
        limits = {"size": 1, "uses": -1, "errors": 3, "age_ms": -1, "chance": 0}
        await raw.shard.call("open_sessions", ["s.test/", 1, ""], **limits)
    if verb == "end_login":
        claim = {"name": "s.test/", "number": 1, "claim": "mine", "ttl_ms": 9000}
        await raw.shard.call("claim_login", **claim)
    await raw.add(*"423156")
    grant = await raw.lease(4, ttl_ms=1000)
    await raw.bury(grant.claims[0])
    if verb == "forget":
        await raw.call("adopt", [("8",)])
    if verb == "next_round":
        await raw.shard.command("HSET", "schedule", "next_ms", 5)
    if verb == "free_trapped":
        await raw.shard.command("ZADD", "trapped", 7, "4", 7, "5")
    clock.advance(1)
    return grant.token


async def put_on_the_edge(raw, *fps):
    await raw.control(max_depth=3)
    command, keys = raw.shard.server.command, raw.shard.keys
    for fp in fps:
        await command("HSET", keys.key("depths"), fp, 1)
        await command("HSET", keys.key("outlinks"), fp, "packed")
        await command("ZADD", keys.key("reopenable"), 1, fp)


async def send(raw, seq, verb, each, values):
    flat = [part for group in each for part in group]
    return await raw.numbered(seq).shard.call(verb, flat, **values)


def test_every_verb_that_changes_something_is_tested_here():
    assert CALLS.keys() | IDEMPOTENT.keys() | OUTSIDE == {
        verb for verb in verbs() if script(verb).header.flags != "no-writes"
    }
    assert {verb for verb in verbs() if "recent" in script(verb).header.keys} == CALLS.keys()


@pytest.mark.parametrize("verb", CALLS | IDEMPOTENT)
async def test_a_repeat_gets_the_same_answer_and_changes_nothing(raw, clock, verb):
    each, values = (CALLS | IDEMPOTENT)[verb](await prepare(raw, clock, verb))
    before = await raw.dump()
    first = await send(raw, 100, verb, each, values)
    after = await raw.dump()
    assert after != before

    assert await send(raw, 100, verb, each, values) == first

    assert await raw.dump() == after


@pytest.mark.parametrize("verb", CALLS)
async def test_a_repeat_is_recognised_after_other_verbs_of_the_same_client(raw, clock, verb):
    token = await prepare(raw, clock, verb)
    each, values = CALLS[verb](token)
    first = await send(raw, 100, verb, each, values)
    for number, other in enumerate(CALLS.keys() - {verb}, start=101):
        await send(raw, number, other, *CALLS[other]("nonsense"))
    before = await raw.dump()

    again = await send(raw, 100, verb, each, values)

    assert await raw.dump() == before
    if verb != "lease":  # which shows what it leased as it is now
        assert again == first


@pytest.mark.parametrize("verb", CALLS)
async def test_a_call_that_was_overtaken_is_refused(raw, clock, verb):
    each, values = CALLS[verb](await prepare(raw, clock, verb))
    await send(raw, 100, verb, [], {name: 0 for name in values})
    before = await raw.dump()

    with pytest.raises(InfrastructureError, match="STALE"):
        await send(raw, 99, verb, each, values)

    assert await raw.dump() == before


@pytest.mark.parametrize("verb", CALLS)
async def test_the_same_number_of_another_client_is_no_repeat(raw, make_raw, clock, verb):
    other = await make_raw()
    each, values = CALLS[verb](await prepare(raw, clock, verb))
    await send(other, 100, verb, [], {name: 0 for name in values})
    before = await raw.dump_without_traces()

    await send(raw, 100, verb, each, values)

    assert await raw.dump_without_traces() != before


async def test_a_repeated_lease_has_the_same_token_and_leaves_out_what_is_done(raw):
    await raw.add("1", "2")
    first = await raw.numbered(100).lease()
    await raw.complete(first.claims[0])

    again = await raw.numbered(100).lease()

    assert again.token == first.token
    assert again.rows == first.rows[1:]


async def test_a_repeated_lease_that_found_nothing_finds_nothing_again(raw):
    assert (await raw.numbered(100).lease()).fps == []
    await raw.add("1")

    assert (await raw.numbered(100).lease()).fps == []
    assert (await raw.numbered(101).lease()).fps == ["1"]


async def test_answers_are_remembered_for_ten_minutes(raw):
    await raw.add("1")

    key = raw.shard.keys.key("recent", raw.shard.client)
    left_ms = await raw.shard.server.command("PTTL", key)

    assert 590_000 < left_ms <= 600_000
