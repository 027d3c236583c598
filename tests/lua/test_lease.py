from collections import Counter

import pytest

from lua.conftest import SLACK_MS
from skitter.frontier.transport.messages import decode
from skitter.frontier.transport.scripts import Code


def hosts_of(grant):
    return [record.split()[1].decode() for _, record, _ in grant.rows]


async def test_what_is_leased_moves_from_the_queue_to_its_holder(raw, clock):
    await raw.add("1", priority=3)

    grant = await raw.lease(ttl_ms=5000)

    assert grant.rows == [("1", b"3 a.test body", b"")]
    assert await raw.read("queue", "a.test") == await raw.read("due") == {}
    assert await raw.read("lease") == {"1": clock() + 5000}
    assert await raw.read("holder") == {"1": grant.token}
    assert await raw.read("task") == {"1": b"3 a.test body"}
    known = await raw.known()
    assert (known.in_flight, known.asked_at, known.turn) == (1, clock(), 2)
    assert await raw.counter("pending") == 0


async def test_an_empty_frontier_leases_nothing_and_knows_no_time_to_wait(raw):
    grant = await raw.lease()

    assert (grant.state, grant.again_ms, grant.rows) == ("run", -1, [])


async def test_a_limit_of_nothing_takes_nothing(raw):
    await raw.add("1", host="a.test")
    await raw.add("2", host="b.test")
    before = await raw.dump_without_traces()

    assert (await raw.lease(0)).fps == []

    assert await raw.dump_without_traces() == before


async def test_the_best_priority_comes_first_whatever_the_host(raw):
    await raw.add("1", "2", host="a.test", priority=1)
    await raw.add("3", host="b.test", priority=5)
    await raw.add("4", host="c.test", priority=-5)
    await raw.add("5", host="a.test", priority=9)

    assert (await raw.lease(3)).fps == ["5", "3", "1"]
    assert (await raw.lease(3)).fps == ["2", "4"]


async def test_within_one_priority_the_first_to_come_is_the_first_to_go(raw):
    fps = [str(n) for n in range(9, 0, -1)]
    await raw.add(*fps, priority=4)

    assert (await raw.lease(5)).fps == fps[:5]
    assert (await raw.lease(5)).fps == fps[5:]


async def test_hosts_of_one_priority_take_turns(raw):
    await raw.add("11", "12", "13", host="a.test")
    await raw.add("21", host="b.test")
    await raw.add("31", "32", host="c.test")

    assert (await raw.lease(6)).fps == ["11", "21", "31", "12", "32", "13"]


@pytest.mark.parametrize("limit", [1, 7, 30])
async def test_a_huge_host_does_not_starve_small_ones(raw, limit):
    await raw.add(*map(str, range(2000)), host="huge.test")
    for n in range(10):
        await raw.add(*(str(5000 + 10 * n + i) for i in range(3)), host=f"small{n}.test")

    served: list[str] = []
    while len(served) < 33:
        served += hosts_of(await raw.lease(min(limit, 33 - len(served))))

    assert set(Counter(served).values()) == {3}
    assert len(set(served[:11])) == 11


async def test_a_small_host_that_comes_late_is_served_soon(raw):
    await raw.add(*map(str, range(100)), host="huge.test")
    await raw.lease(50)

    await raw.add("1000", host="small.test")

    assert "small.test" in hosts_of(await raw.lease(2))


async def test_hosts_that_were_not_needed_stand_where_they_stood(raw):
    for n, name in enumerate("abcde"):
        await raw.add(str(n), host=f"{name}.test")
    await raw.add("8", "9", host="e.test", priority=7)
    before = await raw.read("due")

    assert (await raw.lease(2)).fps == ["8", "9"]

    after = await raw.read("due")
    assert after.keys() == before.keys()
    assert {name: after[name] for name in after if name != "e.test"} == {
        name: before[name] for name in before if name != "e.test"
    }
    assert list(after)[-1] == "e.test"


async def test_a_host_is_asked_again_only_after_its_delay(make_raw, clock):
    raw = await make_raw(delay_s=1)
    await raw.add("1", "2")

    grant = await raw.lease()
    assert (grant.fps, grant.again_ms) == (["1"], 1000 + SLACK_MS)
    wait = {"a.test": clock() + 1000 + SLACK_MS}
    assert (await raw.read("wait"), await raw.read("due")) == (wait, {})

    clock.advance(0.999 + SLACK_MS / 1000)
    assert (await raw.lease()).fps == []
    clock.advance(0.001)
    assert (await raw.lease()).fps == ["2"]


async def test_the_delay_holds_also_when_the_first_request_is_done(make_raw, clock):
    raw = await make_raw(delay_s=1)
    await raw.add("1", "2")
    await raw.complete(*(await raw.lease()).claims)

    assert (await raw.lease()).fps == []
    assert await raw.read("wait") == {"a.test": clock() + 1000 + SLACK_MS}


async def test_a_waiting_host_of_high_priority_holds_nobody_up(make_raw):
    raw = await make_raw(delay_s=10)
    await raw.add("1", "2", host="a.test", priority=9)
    await raw.add("3", host="b.test", priority=0)

    assert (await raw.lease()).fps == ["1", "3"]


async def test_no_host_has_more_in_flight_than_allowed(make_raw):
    raw = await make_raw(max_in_flight=2)
    await raw.add("1", "2", "3", "4")

    grant = await raw.lease()
    assert grant.fps == ["1", "2"]
    assert await raw.read("due") == await raw.read("wait") == {}
    assert ((await raw.known()).in_flight, (await raw.known()).listed_in) == (2, 0)

    await raw.complete(grant.claims[0])
    assert (await raw.lease()).fps == ["3"]


async def test_two_clients_share_one_limit(make_raw):
    raw = await make_raw(max_in_flight=2)
    other = await make_raw()
    await raw.add("1", "2", "3")

    assert (await raw.lease(1)).fps == ["1"]
    assert (await other.lease()).fps == ["2"]
    assert (await raw.lease()).fps == []


async def test_a_lowered_limit_holds_at_once_also_for_hosts_not_yet_settled(make_raw):
    raw = await make_raw(max_in_flight=5)
    await raw.add("1", "2", "3", host="a.test")
    await raw.lease(2)

    await raw.control(max_in_flight=2)
    await raw.add("4", host="b.test")

    assert (await raw.lease()).fps == ["4"]


async def test_a_lowered_budget_holds_at_once_also_for_hosts_not_yet_settled(make_raw):
    raw = await make_raw(max_pages_per_host=5)
    await raw.add("1", "2", "3")
    await raw.complete(*(await raw.lease(2)).claims)

    await raw.control(max_pages_per_host=2)

    assert (await raw.lease()).fps == []


@pytest.mark.parametrize("end", ["complete", "bury", "retry"])
async def test_a_blocked_host_is_left_alone_for_as_long_as_it_asked(raw, clock, end):
    await raw.add("1", "2")
    [claim] = (await raw.lease(1)).claims

    await getattr(raw, end)(claim, block_ms=5000)

    assert await raw.read("wait") == {"a.test": clock() + 5000}
    clock.advance(4.999)
    assert (await raw.lease()).fps == []
    clock.advance(0.001)
    assert "2" in (await raw.lease()).fps


async def test_a_longer_rest_is_not_cut_short_by_a_shorter_one(raw, clock):
    await raw.add("1", "2", "3")
    first, second = (await raw.lease(2)).claims

    await raw.complete(first, block_ms=9000)
    await raw.complete(second, block_ms=1000)

    assert await raw.read("wait") == {"a.test": clock() + 9000}


async def test_a_host_obeys_values_of_its_own(make_raw, clock):
    raw = await make_raw(delay_s=0, max_in_flight=1)
    await raw.add("1", "2", "3", host="own.test")
    await raw.add("4", "5", host="other.test")
    await raw.host("own.test", field="max_in_flight", value=2)
    await raw.host("own.test", field="delay_ms", value=3000)

    assert (await raw.lease()).fps == ["1", "4"]
    clock.advance(3 + SLACK_MS / 1000)
    assert (await raw.lease()).fps == ["2"]
    clock.advance(3 + SLACK_MS / 1000)
    assert (await raw.lease()).fps == []


async def test_max_pages_is_exact_for_two_clients(make_raw):
    raw = await make_raw(max_pages=3)
    other = await make_raw()
    await raw.add(*"123456")

    first, second = await raw.lease(2), await other.lease(2)
    assert (len(first.fps), len(second.fps)) == (2, 1)
    await raw.complete(*first.claims)
    assert (await raw.lease()).fps == []

    # What fails leaves its place to another.
    await other.bury(*second.claims)
    [claim] = (await raw.lease()).claims
    await raw.complete(claim)
    assert (await other.lease()).fps == []
    assert await raw.counter("done") == 3


async def test_a_host_gets_no_more_pages_than_its_budget(make_raw):
    raw = await make_raw(max_pages_per_host=2)
    await raw.add(*"12345", host="a.test")
    await raw.add("6", host="b.test")

    grant = await raw.lease()
    assert sorted(hosts_of(grant)) == ["a.test", "a.test", "b.test"]
    assert await raw.counter("shelved") == 0  # they may still fail

    await raw.complete(*grant.claims)
    assert (await raw.lease()).fps == []
    assert await raw.counter("shelved") == (await raw.known()).shelved == 3
    assert await raw.counter("pending") == 3


async def test_a_page_that_failed_gives_its_place_in_the_budget_to_the_next(make_raw):
    raw = await make_raw(max_pages_per_host=1)
    await raw.add("1", "2")
    [claim] = (await raw.lease()).claims

    await raw.bury(claim)

    assert (await raw.lease()).fps == ["2"]


async def test_what_is_added_to_a_spent_host_is_shelved(make_raw):
    raw = await make_raw(max_pages_per_host=1)
    await raw.add("1")
    await raw.complete(*(await raw.lease()).claims)

    await raw.add("2", "3")

    assert (await raw.counter("pending"), await raw.counter("shelved")) == (2, 2)
    assert (await raw.lease()).fps == []


@pytest.mark.parametrize(
    ("state", "fps"), [("run", ["1"]), ("drain", ["1"]), ("pause", []), ("cancel", [])]
)
async def test_only_a_running_or_draining_job_hands_out(raw, state, fps):
    await raw.add("1")
    await raw.control(state=state)

    grant = await raw.lease()

    assert (grant.state, grant.fps) == (state, fps)
    assert await raw.counter("pending") == 1 - len(fps)


async def test_a_paused_job_takes_back_leases_that_ran_out(raw, clock):
    await raw.add("1")
    await raw.lease(ttl_ms=1000)
    await raw.control(state="pause")
    clock.advance(1)

    assert (await raw.lease()).fps == []

    assert await raw.state_of("1") == ["queue"]
    assert await raw.read("lease") == await raw.read("holder") == {}


async def test_a_delayed_retry_comes_back_when_it_is_due_and_not_before(raw, clock):
    await raw.add("1", priority=5)
    await raw.retry(*(await raw.lease()).claims, after_ms=2000)

    grant = await raw.lease()
    assert (grant.fps, grant.again_ms) == ([], 2000)
    clock.advance(1.999)
    assert (await raw.lease()).fps == []

    clock.advance(0.001)
    [(fp, record, trouble)] = (await raw.lease()).rows
    assert (fp, record) == ("1", b"4 a.test body")
    assert decode(trouble)["failures"] == 1
    assert await raw.read("delayed") == {}


async def test_a_retry_goes_behind_better_work_that_came_meanwhile(raw, clock):
    await raw.add("1", priority=5)
    await raw.retry(*(await raw.lease()).claims, after_ms=1000)
    await raw.add("2", priority=5)
    await raw.add("3", priority=4)
    clock.advance(1)

    assert (await raw.lease()).fps == ["2", "3", "1"]


async def test_a_lease_that_ran_out_is_handed_to_the_next_who_asks(raw, make_raw, clock):
    other = await make_raw()
    await raw.add("1", priority=2)
    mine = await raw.lease(ttl_ms=1000)

    clock.advance(0.999)
    assert (await other.lease()).fps == []
    clock.advance(0.001)
    theirs = await other.lease(ttl_ms=1000)

    assert theirs.fps == ["1"]
    assert theirs.token != mine.token
    assert await raw.read("holder") == {"1": theirs.token}
    assert (await raw.known()).in_flight == 1
    assert theirs.rows[0][1] == b"2 a.test body"  # a loss lowers no priority
    assert decode(theirs.rows[0][2])["losses"] == 1


async def test_time_to_wait_is_until_the_first_thing_that_changes(make_raw):
    raw = await make_raw(max_in_flight=1)
    await raw.add("1", host="a.test")
    await raw.add("2", host="b.test")
    await raw.add("3", host="c.test")
    a, b, c = (await raw.lease(ttl_ms=30_000)).claims
    assert (await raw.lease()).again_ms == 30_000

    await raw.retry(a, after_ms=20_000)
    assert (await raw.lease()).again_ms == 20_000

    await raw.add("4", host="b.test")
    await raw.complete(b, block_ms=10_000)
    assert (await raw.lease()).again_ms == 10_000
    assert await raw.complete(c) == [Code.DONE]


async def test_a_lease_larger_than_a_slice_of_arguments_is_handed_out_whole(raw):
    each = [raw.link(str(n), host=f"h{n % 4100}.test") for n in range(4500)]
    await raw.call("add", each, links=0)

    grant = await raw.lease(4500)

    assert len(set(grant.fps)) == 4500
    assert len(await raw.read("lease")) == len(await raw.read("holder")) == 4500
    assert await raw.read("due") == {}
