import pytest

from skitter.errors import JobMissing
from skitter.frontier.delays import HostRecord
from skitter.frontier.jobs import purge_job
from skitter.frontier.transport.scripts import Code

NEW, SEEN, FULL, DEEP, CLOSED = Code.NEW, Code.SEEN, Code.FULL, Code.DEEP, Code.CLOSED


async def test_a_new_request_is_pending_remembered_and_its_host_due(raw):
    codes = await raw.add("11", priority=5)

    dump = await raw.dump_without_traces()
    del dump["control", None]
    assert codes == [NEW]
    assert dump == {
        ("queue", "a.test"): {"11": raw.score(5, 1)},
        ("task", None): {"11": b"5 a.test body"},
        ("seen", "0"): {"11"},
        ("due", None): {"a.test": raw.score(5, 1)},
        ("hosts", None): {"a.test": HostRecord(best=5, tied=1, turn=1, listed_in=1)},
        ("stats", None): {"pending": 1, "seen": 1, "ticket": 1},
        ("marks", None): {f"{raw.shard.clock()}": 0},
    }


async def test_an_empty_batch_is_answered_with_nothing_and_changes_nothing(raw):
    await raw.add("1")
    before = await raw.dump_without_traces()

    assert await raw.add() == []

    assert await raw.dump_without_traces() == before


async def test_the_same_fingerprint_twice_in_a_batch_is_new_once(raw):
    each = [raw.link("1", body=b"first"), raw.link("1", body=b"second"), raw.link("2")]

    assert await raw.call("add", each, links=0) == [NEW, SEEN, NEW]

    assert await raw.read("task") == {"1": b"0 a.test first", "2": b"0 a.test body"}
    assert await raw.read("stats") == {"pending": 2, "seen": 2, "duplicates": 1, "ticket": 2}


async def test_a_request_that_is_known_keeps_its_priority_and_its_place(raw):
    await raw.add("1", priority=1)
    queue = await raw.read("queue", "a.test")

    assert await raw.add("1", priority=9) == [SEEN]

    assert await raw.read("queue", "a.test") == queue
    assert await raw.read("task") == {"1": b"1 a.test body"}


@pytest.mark.parametrize("end", ["complete", "bury", "retry", "lease"])
async def test_a_request_is_known_in_whatever_state_it_is(raw, end):
    await raw.add("1")
    [claim] = (await raw.lease()).claims
    if end != "lease":
        await getattr(raw, end)(claim)

    assert await raw.add("1") == [SEEN]
    assert await raw.counter("pending") == 0


async def test_a_queue_is_in_order_of_priority_then_of_arrival(raw):
    await raw.add("1", "2", priority=0)
    await raw.add("3", priority=-1000)
    await raw.add("4", "5", priority=1000)

    assert list(await raw.read("queue", "a.test")) == ["4", "5", "1", "2", "3"]


async def test_a_host_ranks_by_its_best_request(raw):
    await raw.add("1", priority=2)
    await raw.add("2", priority=7)
    await raw.add("3", priority=4)

    assert await raw.read("due") == {"a.test": raw.score(7, 1)}
    assert (await raw.known()).best == 7


async def test_what_is_too_deep_is_refused_and_not_remembered(make_raw):
    raw = await make_raw(max_depth=2)

    each = [raw.link("1", depth=2), raw.link("2", depth=3)]
    assert await raw.call("add", each, links=0) == [NEW, DEEP]
    assert await raw.read("seen", "0") == {"1"}
    assert await raw.counter("refused") == 1

    assert await raw.add("2", depth=1) == [NEW]


async def test_a_depth_limit_of_zero_takes_seeds_only(make_raw):
    raw = await make_raw(max_depth=0)

    assert await raw.add("1", depth=0) == [NEW]
    assert await raw.add("2", depth=1) == [DEEP]


async def test_over_max_pending_a_batch_is_cut_and_the_rest_leaves_no_trace(make_raw):
    raw = await make_raw(max_pending=2)

    # What is seen takes no room.
    assert await raw.add("1", "1", "2", "3") == [NEW, SEEN, NEW, FULL]

    assert (await raw.read("task")).keys() == {"1", "2"}
    assert await raw.read("seen", "0") == {"1", "2"}
    assert (await raw.read("stats"))["pending"] == 2


async def test_links_pass_max_pending(make_raw):
    raw = await make_raw(max_pending=1)
    await raw.add("1")

    assert await raw.add("2", "3", links=1) == [NEW, NEW]
    assert await raw.add("4") == [FULL]


async def test_delayed_requests_count_towards_max_pending_and_leased_ones_do_not(make_raw):
    raw = await make_raw(max_pending=1)
    await raw.add("1")
    [claim] = (await raw.lease()).claims

    assert await raw.add("2") == [NEW]
    [other] = (await raw.lease()).claims
    await raw.retry(claim)

    assert await raw.add("3") == [FULL]
    await raw.complete(other)
    assert await raw.add("3") == [FULL]


@pytest.mark.parametrize(
    ("state", "code"), [("run", NEW), ("pause", NEW), ("drain", CLOSED), ("cancel", CLOSED)]
)
async def test_a_job_that_is_draining_or_cancelled_takes_nothing(raw, state, code):
    await raw.control(state=state)

    assert await raw.add("1", "2") == [code, code]

    taken = 2 if code == NEW else 0
    assert await raw.counter("pending") == taken
    assert await raw.counter("refused") == await raw.counter("refused by drain") == 2 - taken
    assert len(await raw.read("seen", "0")) == taken


async def test_a_closed_job_says_closed_also_when_it_is_full(make_raw):
    raw = await make_raw(max_pending=1)
    await raw.add("1")
    await raw.control(state="drain")

    assert await raw.add("2") == [CLOSED]


@pytest.mark.parametrize("code", [SEEN, FULL, DEEP, CLOSED])
async def test_what_is_refused_leaves_no_trace_of_its_host(make_raw, code):
    raw = await make_raw(max_depth=5, max_pending=1)
    await raw.add("1", host="a.test")
    if code == CLOSED:
        await raw.control(state="drain")

    offer = raw.link("1" if code == SEEN else "2", host="new.test", depth=9 if code == DEEP else 0)
    assert await raw.call("add", [offer], links=int(code != FULL)) == [code]

    assert (await raw.read("hosts")).keys() == {"a.test"}


async def test_no_byte_of_a_body_is_changed(raw):
    body = bytes(range(256)) + b"\r\n 5 b.test \x00"

    await raw.add("1", body=body)
    [(_, record, _)] = (await raw.lease()).rows

    assert record == b"0 a.test " + body


async def test_a_batch_larger_than_a_slice_of_arguments_is_taken_whole(raw):
    each = [raw.link(str(n), host=f"h{n % 2500}.test", priority=n % 7) for n in range(9000)]

    assert set(await raw.call("add", each, links=0)) == {NEW}

    assert len(await raw.read("task")) == 9000
    assert len(await raw.read("hosts")) == len(await raw.read("due")) == 2500
    assert await raw.counter("pending") == 9000


async def test_a_host_that_stands_still_takes_requests_without_becoming_due(make_raw):
    raw = await make_raw(max_in_flight=1)
    await raw.add("1")
    await raw.lease()

    await raw.add("2", priority=9)

    assert await raw.read("queue", "a.test") == {"2": raw.score(9, 3)}
    assert await raw.read("due") == await raw.read("wait") == {}


async def test_a_purged_job_is_refused_and_does_not_come_back(frontier, raw):
    await raw.add("1")
    await purge_job(frontier)

    with pytest.raises(JobMissing):
        await raw.add("2")

    assert await raw.dump() == {}
