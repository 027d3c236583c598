from skitter.frontier.transport.scripts import Code


async def test_a_dead_letter_is_pending_again_with_a_clean_record(raw, clock):
    await raw.add("1", priority=5)
    await raw.bury(*(await raw.lease()).claims)

    assert await raw.revive("1") == 1

    assert await raw.state_of("1") == ["queue"]
    assert await raw.read("dead") == await raw.read("trouble") == {}
    assert list(await raw.read("due")) == ["a.test"]
    assert await raw.counter("pending") == 1
    assert (await raw.lease()).rows == [("1", b"5 a.test body", b"")]


async def test_it_has_all_its_tries_again(make_raw, clock):
    raw = await make_raw(max_retries=1)
    await raw.add("1")

    for _ in range(2):
        codes = []
        for _ in range(2):
            codes += await raw.retry(*(await raw.lease()).claims, after_ms=1000)
            clock.advance(1)
        assert codes == [Code.RETRIED, Code.BURIED]
        assert await raw.revive("1") == 1


async def test_it_has_the_priority_again_that_retries_have_lowered(make_raw, clock):
    raw = await make_raw(max_retries=2)
    await raw.add("1", priority=5)
    for _ in range(3):
        await raw.retry(*(await raw.lease()).claims, after_ms=1000)
        clock.advance(1)
    assert await raw.read("task") == {"1": b"3 a.test body"}

    await raw.revive("1")

    assert await raw.read("task") == {"1": b"5 a.test body"}
    assert await raw.read("queue", "a.test") == {"1": raw.score(5, await raw.counter("ticket"))}


async def test_only_the_dead_come_back_and_each_once(raw):
    await raw.add("1", "2", "3")
    claims = (await raw.lease(2)).claims
    await raw.bury(claims[0])

    assert await raw.revive("1", "1", "2", "3", "99") == 1

    assert await raw.state_of("2") == ["lease"]
    assert list(await raw.read("queue", "a.test")) == ["3", "1"]
    assert await raw.counter("pending") == 2


async def test_an_empty_batch_brings_nothing_back(raw):
    before = await raw.dump_without_traces()

    assert await raw.revive() == 0

    assert await raw.dump_without_traces() == before
