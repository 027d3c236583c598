import pytest

from skitter.frontier.transport.scripts import Code

RETRIED, BURIED, LOST = Code.RETRIED, Code.BURIED, Code.LOST


async def test_what_failed_is_delayed_at_a_lower_priority_with_its_trouble_noted(raw, clock):
    await raw.add("1", priority=5)
    grant = await raw.lease()

    assert await raw.retry(*grant.claims, after_ms=2500, error="HTTP 503") == [RETRIED]

    assert await raw.state_of("1") == ["delayed"]
    assert await raw.read("delayed") == {"1": clock() + 2500}
    assert await raw.read("task") == {"1": b"4 a.test body"}
    assert await raw.read("trouble") == {
        "1": {"failures": 1, "losses": 0, "error": "HTTP 503", "at": clock(), "priority": 5}
    }
    assert await raw.read("holder") == {}
    assert (await raw.known()).in_flight == 0
    stats = await raw.read("stats")
    assert (stats["retried"], stats["pending"]) == (1, 0)


@pytest.mark.parametrize(
    ("priority", "lower"), [(1000, 999), (0, -1), (-999, -1000), (-1000, -1000)]
)
async def test_the_priority_falls_by_one_and_not_below_the_lowest(raw, priority, lower):
    body = b" \n\x00 7 x.test \xff"
    await raw.add("1", priority=priority, body=body)

    await raw.retry(*(await raw.lease()).claims)

    assert await raw.read("task") == {"1": b"%d a.test " % lower + body}


async def test_after_the_last_try_it_is_dead(make_raw, clock):
    raw = await make_raw(max_retries=2)
    await raw.add("1", priority=5)

    codes = []
    for error in ("one", "two", "three"):
        codes += await raw.retry(*(await raw.lease()).claims, after_ms=1000, error=error)
        clock.advance(1)

    assert codes == [RETRIED, RETRIED, BURIED]
    assert await raw.state_of("1") == ["dead"]
    assert await raw.read("dead") == {"1": clock() - 1000}
    trouble = (await raw.read("trouble"))["1"]
    assert (trouble["failures"], trouble["error"]) == (3, "three")
    assert await raw.read("task") == {"1": b"3 a.test body"}  # can be read, and brought back
    assert await raw.counter("retried") == 2
    assert (await raw.known()).in_flight == 0


async def test_without_retries_the_first_failure_is_the_last(make_raw):
    raw = await make_raw(max_retries=0)
    await raw.add("1")

    assert await raw.retry(*(await raw.lease()).claims) == [BURIED]


async def test_a_retry_that_may_come_at_once_waits_for_the_next_lease(raw, clock):
    await raw.add("1")
    await raw.retry(*(await raw.lease()).claims, after_ms=0)
    assert await raw.read("delayed") == {"1": clock()}

    assert (await raw.lease()).fps == ["1"]


async def test_a_failure_frees_the_place_of_its_host(make_raw):
    raw = await make_raw(max_in_flight=1)
    await raw.add("1", "2")
    [claim] = (await raw.lease()).claims

    await raw.retry(claim)

    assert list(await raw.read("due")) == ["a.test"]
    assert (await raw.lease()).fps == ["2"]


async def test_a_wrong_token_or_one_of_somebody_else_fails_nothing(raw, make_raw):
    other = await make_raw()
    await raw.add("1", "2")
    mine, theirs = await raw.lease(1), await other.lease(1)
    before = await raw.dump_without_traces()

    claims = [("1", theirs.token), ("2", mine.token), ("3", mine.token), ("1", "")]
    assert await raw.retry(*claims, block_ms=9000) == [LOST] * 4

    assert await raw.dump_without_traces() == before
    assert await raw.counter("late") == 4


async def test_the_same_lease_twice_in_a_batch_fails_once(raw):
    await raw.add("1")
    [claim] = (await raw.lease()).claims

    assert await raw.retry(claim, claim) == [RETRIED, LOST]

    assert (await raw.read("trouble"))["1"]["failures"] == 1
    assert (await raw.known()).in_flight == 0


async def test_an_empty_batch_is_answered_with_nothing(raw):
    before = await raw.dump_without_traces()

    assert await raw.retry() == []

    assert await raw.dump_without_traces() == before
