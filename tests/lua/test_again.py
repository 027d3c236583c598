"""Pages of a round: whatever became of a page before, it is visited once more, and once."""

from __future__ import annotations

import pytest

from skitter.frontier.audit.rules import STATES
from skitter.frontier.transport.scripts import Code

NEW, SEEN = Code.NEW, Code.SEEN
RESTS = {"how": "new", "after_ms": 9000, "record": "0 a.test kept"}


async def again(raw, *fps, due="5", **about):
    return await raw.call("again", [raw.link(fp, **about) for fp in fps], due_ms=due)


async def bring(raw, state: str) -> None:
    """One page, in that state."""
    if state == "unknown":
        return
    await raw.add("1")
    if state == "pending":
        return
    [claim] = (await raw.lease()).claims
    if state == "done":
        await raw.complete(claim)
    elif state == "to be revisited":
        await raw.complete(claim, said={"revisit": RESTS})
    elif state in ("dead", "dropped"):
        await raw.bury(claim)
    elif state == "delayed":
        await raw.retry(claim)
    if state == "dropped":
        await raw.drop("1")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("unknown", NEW),
        ("done", NEW),
        ("to be revisited", NEW),
        ("dead", NEW),
        ("dropped", NEW),
        ("pending", SEEN),
        ("delayed", SEEN),
        ("leased", SEEN),
    ],
)
async def test_a_page_that_is_over_is_visited_once_more_and_once(raw, clock, state, said):
    if state == "to be revisited":
        await raw.control(revisit=1)
    await bring(raw, state)
    assert await again(raw, "1") == [said]
    assert await again(raw, "1") == [SEEN]  # by another process
    clock.advance(2)

    stats = await raw.stats()
    assert stats["seen"] == sum(stats.get(name, 0) for name in STATES) == 1
    assert all(value >= 0 for name, value in stats.items() if name != "state")
    for claim in [] if state == "leased" else (await raw.lease()).claims:
        assert await raw.complete(claim) == [Code.DONE]
        assert await again(raw, "1") == [SEEN]  # it was slow, and the page was quick
        assert await again(raw, "1", due="9") == [NEW]
        stats = await raw.stats()
        assert (stats["pending"], stats.get("done", 0)) == (1, 0)
        assert (await raw.known()).pages == 0


async def test_a_page_to_be_revisited_keeps_its_record_and_is_visited_now(raw):
    await raw.control(revisit=1)
    await bring(raw, "to be revisited")
    assert await again(raw, "1", priority=3) == [NEW]
    assert [row[:2] for row in (await raw.lease()).rows] == [("1", b"0 a.test kept")]
    assert (await raw.stats())["revisits"] == 0


async def test_rounds_before_are_forgotten(raw):
    await again(raw, "1", "2", "3", "4")
    await again(raw, "1", "5", due="9")
    assert await raw.read("round") == {"4": 5, "1": 9, "5": 9}
    await again(raw, "1", due="9")
    assert await raw.read("round") == {"1": 9, "5": 9}


async def test_a_full_or_closed_job_takes_no_round_and_the_next_try_goes_on(raw):
    await raw.control(max_pending=2)
    assert await again(raw, "1", "2", "3") == [NEW, NEW, Code.FULL]
    for claim in (await raw.lease()).claims:
        await raw.complete(claim)
    assert await again(raw, "1", "2", "3") == [SEEN, SEEN, NEW]
    await raw.control(state="drain")
    assert await again(raw, "1", "4", due="9") == [Code.CLOSED, Code.CLOSED]


async def test_links_of_a_page_that_is_visited_again_come_with_that_visit(raw):
    await raw.control(max_depth=0)
    await raw.add("1")
    [(fp, token)] = (await raw.lease()).claims
    each = [(fp, token, "0 0 0 1", b""), (b"packed",)]
    await raw.call("complete", each, leases=1, links=0, list="", report=0)
    assert await raw.read("outlinks") == {"1": b"packed"}
    await again(raw, "1")
    assert await raw.read("outlinks") == await raw.read("reopenable") == {}


@pytest.mark.parametrize("state", ["done", "to be revisited", "dead"])
async def test_a_page_that_is_handled_again_gets_the_record_that_is_offered(raw, state):
    await raw.control(revisit=1)
    await bring(raw, state)
    assert await again(raw, "1", "2", due="", priority=3) == [NEW, Code.LOST]
    assert [row[1].split(b" ")[0] for row in (await raw.lease()).rows] == [b"3"]
    assert await raw.read("round") == {}
    await raw.control(state="drain")
    assert await again(raw, "1", due="") == [Code.CLOSED]


async def test_a_turn_that_no_request_used_is_given_back_with_the_completion(make_raw):
    raw = await make_raw(delay_s=10, max_in_flight=1)
    await raw.add("1", "2", "3")
    for _ in range(2):
        [claim] = (await raw.lease()).claims
        turn_ms = round((await raw.known()).asked_at)
        await raw.complete(claim, said={"unused_ms": turn_ms})
    await raw.complete(*(await raw.lease()).claims, said={"unused_ms": turn_ms - 1})
    await raw.add("4")
    assert (await raw.lease()).claims == [], "another request had the turn"


async def test_rows_of_earlier_visits_go_by_a_notice_before_those_of_this_one(raw):
    await raw.add("1")
    [claim] = (await raw.lease()).claims
    await raw.complete((*claim, [], [b"new"]), said={"emptied": "page"})
    found = [(row["n"], row["item"]) for row in await raw.read("items")]
    assert found == [(b"-1", b"page"), (b"0", b"new")]
