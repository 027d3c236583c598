from skitter.frontier.transport.scripts import Code

EXTENDED, LOST = Code.EXTENDED, Code.LOST


async def test_a_lease_is_kept_for_longer(raw, clock):
    await raw.add("1")
    grant = await raw.lease(ttl_ms=1000)
    clock.advance(0.5)

    assert await raw.extend(*grant.claims, ttl_ms=3000) == [EXTENDED]

    assert await raw.read("lease") == {"1": clock() + 3000}
    assert await raw.read("holder") == {"1": grant.token}


async def test_nothing_but_the_expiry_changes(raw, clock):
    await raw.add("1", "2")
    grant = await raw.lease(1)
    before = await raw.dump_without_traces()
    clock.advance(1)

    await raw.extend(*grant.claims)

    after = await raw.dump_without_traces()
    assert before.pop(("lease", None)) != after.pop(("lease", None))
    assert before == after


async def test_a_lease_that_ran_out_is_kept_as_long_as_nobody_took_it_back(raw, clock):
    await raw.add("1")
    grant = await raw.lease(ttl_ms=1000)
    clock.advance(5)

    assert await raw.extend(*grant.claims, ttl_ms=1000) == [EXTENDED]

    assert (await raw.lease()).fps == []


async def test_a_wrong_token_or_one_of_somebody_else_extends_nothing(raw, make_raw, clock):
    other = await make_raw()
    await raw.add("1", "2")
    mine, theirs = await raw.lease(1), await other.lease(1)
    before = await raw.dump_without_traces()
    clock.advance(1)

    claims = [("1", "nonsense"), ("2", mine.token), ("1", theirs.token), ("3", mine.token)]
    assert await raw.extend(*claims) == [LOST] * 4

    assert await raw.dump_without_traces() == before
    assert await raw.counter("late") == 4


async def test_a_lease_that_was_handed_on_cannot_be_extended(raw, make_raw, clock):
    other = await make_raw()
    await raw.add("1")
    mine = await raw.lease(ttl_ms=1000)
    clock.advance(1)
    theirs = await other.lease(ttl_ms=1000)

    assert await raw.extend(*mine.claims, ttl_ms=9000) == [LOST]

    assert await raw.read("lease") == {"1": clock() + 1000}
    assert await raw.read("holder") == {"1": theirs.token}


async def test_in_a_batch_those_that_are_ours_are_extended(raw, clock):
    await raw.add("1", "2", "3")
    grant = await raw.lease(ttl_ms=1000)
    await raw.complete(grant.claims[1])

    assert await raw.extend(*grant.claims, ttl_ms=7000) == [EXTENDED, LOST, EXTENDED]

    assert await raw.read("lease") == {"1": clock() + 7000, "3": clock() + 7000}


async def test_an_empty_batch_is_answered_with_nothing(raw):
    before = await raw.dump_without_traces()

    assert await raw.extend() == []

    assert await raw.dump_without_traces() == before
