from skitter.frontier.transport.scripts import Code

BURIED, LOST = Code.BURIED, Code.LOST


async def test_what_is_given_up_is_dead_with_the_reason_and_its_body(raw, clock):
    await raw.add("1", priority=5)
    grant = await raw.lease()

    assert await raw.bury(*grant.claims, reason="HTTP 410") == [BURIED]

    assert await raw.state_of("1") == ["dead"]
    assert await raw.read("dead") == {"1": clock()}
    assert await raw.read("trouble") == {
        "1": {"failures": 1, "losses": 0, "error": "HTTP 410", "at": clock()}
    }
    assert await raw.read("task") == {"1": b"5 a.test body"}
    assert await raw.read("holder") == {}
    known = await raw.known()
    assert (known.in_flight, known.pages) == (0, 0)


async def test_failures_before_it_are_kept(raw, clock):
    await raw.add("1")
    await raw.retry(*(await raw.lease()).claims, after_ms=1000, error="HTTP 503")
    clock.advance(1)

    await raw.bury(*(await raw.lease()).claims, reason="HTTP 404")

    trouble = (await raw.read("trouble"))["1"]
    assert (trouble["failures"], trouble["error"]) == (2, "HTTP 404")


async def test_it_never_comes_back_by_itself(raw, clock):
    await raw.add("1")
    await raw.bury(*(await raw.lease()).claims)
    clock.advance(86_400)

    grant = await raw.lease()

    assert (grant.fps, grant.again_ms) == ([], -1)


async def test_a_wrong_token_or_one_of_somebody_else_buries_nothing(raw, make_raw):
    other = await make_raw()
    await raw.add("1", "2")
    mine, theirs = await raw.lease(1), await other.lease(1)
    before = await raw.dump_without_traces()

    claims = [("1", theirs.token), ("2", mine.token), ("3", mine.token)]
    assert await raw.bury(*claims, block_ms=9000) == [LOST] * 3

    assert await raw.dump_without_traces() == before
    assert await raw.counter("late") == 3


async def test_a_batch_is_answered_in_order(raw):
    await raw.add("1", "2", "3")
    one, two, three = (await raw.lease()).claims

    codes = await raw.bury(three, ("2", "nonsense"), one, one)

    assert codes == [BURIED, LOST, BURIED, LOST]
    assert (await raw.read("dead")).keys() == {"1", "3"}
    assert await raw.extend(two) == [Code.EXTENDED]


async def test_an_empty_batch_is_answered_with_nothing(raw):
    before = await raw.dump_without_traces()

    assert await raw.bury() == []

    assert await raw.dump_without_traces() == before
