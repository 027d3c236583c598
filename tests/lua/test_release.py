from lua.conftest import SLACK_MS
from skitter.frontier.transport.scripts import Code

RELEASED, LOST = Code.RELEASED, Code.LOST


async def test_what_is_handed_back_is_pending_with_its_priority_and_no_trouble(raw):
    await raw.add("1", priority=5)

    assert await raw.release(*(await raw.lease()).claims) == [RELEASED]

    assert await raw.state_of("1") == ["queue"]
    assert await raw.read("queue", "a.test") == {"1": raw.score(5, 3)}
    assert await raw.read("task") == {"1": b"5 a.test body"}
    assert await raw.read("holder") == await raw.read("trouble") == {}
    assert (await raw.known()).in_flight == 0
    assert await raw.counter("pending") == 1


async def test_it_goes_behind_others_of_its_priority(raw):
    await raw.add("1", "2")
    await raw.release(*(await raw.lease(1)).claims)

    assert (await raw.lease()).fps == ["2", "1"]


async def test_it_can_be_handed_back_for_later(raw, clock):
    await raw.add("1", priority=5)

    await raw.release(*(await raw.lease()).claims, after_ms=4000)
    assert await raw.read("delayed") == {"1": clock() + 4000}
    assert await raw.state_of("1") == ["delayed"]

    assert (await raw.lease()).fps == []
    clock.advance(4)
    assert (await raw.lease()).rows == [("1", b"5 a.test body", b"")]


async def test_however_often_it_is_handed_back_it_does_not_die(make_raw):
    raw = await make_raw(max_retries=0, max_losses=1)
    await raw.add("1")

    for _ in range(5):
        assert await raw.release(*(await raw.lease()).claims) == [RELEASED]

    assert await raw.state_of("1") == ["queue"]


async def test_a_rest_that_the_host_was_given_still_holds(make_raw, clock):
    raw = await make_raw(delay_s=1)
    await raw.add("1")

    await raw.release(*(await raw.lease()).claims)

    assert await raw.read("wait") == {"a.test": clock() + 1000 + SLACK_MS}


async def test_a_wrong_token_or_one_of_somebody_else_releases_nothing(raw, make_raw):
    other = await make_raw()
    await raw.add("1", "2")
    mine, theirs = await raw.lease(1), await other.lease(1)
    before = await raw.dump_without_traces()

    claims = [("1", theirs.token), ("2", mine.token), ("3", mine.token)]
    assert await raw.release(*claims) == [LOST] * 3

    assert await raw.dump_without_traces() == before
    assert await raw.counter("late") == 3


async def test_the_same_lease_twice_in_a_batch_is_handed_back_once(raw):
    await raw.add("1")
    [claim] = (await raw.lease()).claims

    assert await raw.release(claim, claim) == [RELEASED, LOST]

    assert await raw.counter("pending") == 1
    assert (await raw.known()).in_flight == 0


async def test_an_empty_batch_is_answered_with_nothing(raw):
    before = await raw.dump_without_traces()

    assert await raw.release() == []

    assert await raw.dump_without_traces() == before
