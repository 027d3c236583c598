async def test_what_a_dead_worker_held_is_pending_again_and_counts_as_lost(raw):
    await raw.add("1", "2", priority=5)
    grant = await raw.lease()

    assert await raw.call("reclaim", grant.claims, seen=1, alone=0, why="") == 2

    assert await raw.state_of("1") == await raw.state_of("2") == ["queue"]
    assert await raw.read("lease") == await raw.read("holder") == {}
    assert (await raw.read("trouble"))["1"]["losses"] == 1
    assert ((await raw.known()).in_flight, await raw.counter("lost")) == (0, 2)


async def test_a_lease_that_somebody_else_has_by_now_is_left_alone(raw, clock):
    await raw.add("1")
    old = await raw.lease(ttl_ms=1000)
    clock.advance(1)
    new = await raw.lease()
    before = await raw.dump_without_traces()

    assert await raw.call("reclaim", old.claims, seen=1, alone=0, why="") == 0

    assert await raw.dump_without_traces() == before
    assert new.fps == ["1"]


async def test_what_was_lost_too_often_is_dead(make_raw):
    raw = await make_raw(max_losses=2)
    await raw.add("1")

    for _ in range(2):
        assert await raw.call("reclaim", (await raw.lease()).claims, seen=1, alone=0, why="") == 1

    assert await raw.state_of("1") == ["dead"]


async def test_a_repeated_call_gets_the_first_answer(raw):
    await raw.add("1", "2")
    claims = (await raw.lease()).claims

    assert await raw.numbered(99).call("reclaim", claims, seen=1, alone=0, why="") == 2
    assert await raw.numbered(99).call("reclaim", claims, seen=1, alone=0, why="") == 2

    assert await raw.counter("lost") == 2
