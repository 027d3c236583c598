from skitter.frontier.transport.scripts import Code


async def test_a_lease_that_ran_out_is_pending_again_with_its_loss_noted(raw, clock):
    await raw.add("1", priority=5)
    await raw.lease(ttl_ms=1000)
    clock.advance(1)

    assert await raw.reap() == 1

    assert await raw.state_of("1") == ["queue"]
    assert await raw.read("lease") == await raw.read("holder") == {}
    assert await raw.read("task") == {"1": b"5 a.test body"}
    trouble = (await raw.read("trouble"))["1"]
    assert (trouble["failures"], trouble["losses"], trouble["at"]) == (0, 1, clock())
    assert ((await raw.known()).in_flight, list(await raw.read("due"))) == (0, ["a.test"])
    stats = await raw.read("stats")
    assert (stats["pending"], stats["lost"]) == (1, 1)


async def test_a_lease_that_still_runs_is_left_alone(raw, clock):
    await raw.add("1")
    await raw.lease(ttl_ms=1000)
    before = await raw.dump_without_traces()
    clock.advance(0.999)

    assert await raw.reap() == 0

    assert await raw.dump_without_traces() == before


async def test_what_was_lost_too_often_is_dead(make_raw, clock):
    raw = await make_raw(max_losses=2)
    await raw.add("1")

    for _ in range(2):
        await raw.lease(ttl_ms=1000)
        clock.advance(1)
        assert await raw.reap() == 1

    assert await raw.state_of("1") == ["dead"]
    assert await raw.read("dead") == {"1": clock()}
    trouble = (await raw.read("trouble"))["1"]
    assert (trouble["losses"], trouble["error"]) == (2, "its worker vanished 2 times")
    assert (await raw.known()).in_flight == 0
    assert (await raw.counter("pending"), await raw.counter("lost")) == (0, 2)


async def test_losses_and_failures_are_counted_apart(make_raw, clock):
    raw = await make_raw(max_losses=2, max_retries=1)
    await raw.add("1")
    await raw.lease(ttl_ms=1000)
    clock.advance(1)

    assert await raw.retry(*(await raw.lease()).claims, after_ms=1000) == [Code.RETRIED]

    trouble = (await raw.read("trouble"))["1"]
    assert (trouble["failures"], trouble["losses"]) == (1, 1)


async def test_no_more_are_taken_back_than_asked_the_oldest_first(raw, clock):
    await raw.add("1", "2", "3")
    for ttl_ms in (3000, 1000, 2000):
        await raw.lease(1, ttl_ms=ttl_ms)
    clock.advance(9)

    assert await raw.reap(at_most=2) == 2
    assert list(await raw.read("lease")) == ["1"]

    assert await raw.reap(at_most=2) == 1
    assert await raw.read("lease") == {}


async def test_after_it_the_old_token_is_worth_nothing(raw, clock):
    await raw.add("1")
    grant = await raw.lease(ttl_ms=1000)
    clock.advance(1)
    await raw.reap()
    before = await raw.dump_without_traces()

    assert await raw.complete((*grant.claims[0], [raw.link("2")], [b"item"])) == [Code.LOST]

    assert await raw.dump_without_traces() == before


async def test_a_completion_before_it_counts_although_the_lease_ran_out(raw, clock):
    await raw.add("1")
    grant = await raw.lease(ttl_ms=1000)
    clock.advance(5)

    assert await raw.complete(*grant.claims) == [Code.DONE]

    assert await raw.reap() == 0


async def test_a_cancelled_job_is_reaped_too(raw, clock):
    await raw.add("1")
    await raw.lease(ttl_ms=1000)
    await raw.control(state="cancel")
    clock.advance(1)

    assert await raw.reap() == 1

    assert await raw.state_of("1") == ["queue"]
