"""Budgets of URL shapes: what is within them is fetched, what is beyond is held."""

import math
from itertools import count

import pytest

from skitter.frontier.audit.auditor import audit
from skitter.frontier.scripts import Code
from skitter.frontier.wire import decode, encode
from skitter.model import Request

SHAPE, OTHER = 7, 8


async def ask(raw, grant, shape=SHAPE, moment_ms=0, bred=1):
    """Per lease: 1 (fetch it), 0 (held) or LOST, and how many more need not be asked for."""
    rows = [(*claim, shape, bred, moment_ms) for claim in grant.claims]
    answer = await raw.shard.call("trap", [part for row in rows for part in row])
    return list(zip(answer[::2], answer[1::2], strict=True))


async def entry(raw, shape=SHAPE, host="a.test"):
    packed = (await raw.read("shapes"))[host]
    found = decode(packed).get(shape)
    return found and found[:3]


async def credit(raw, fp, token, worth, shape=SHAPE):
    await raw.complete((fp, token), said={"yields": {shape: worth}})


async def test_pages_beyond_the_budget_are_held_and_nothing_is_lost(make_raw):
    raw = await make_raw(shape_budget=3)
    await raw.add("1", "2", "3", "4", "5")

    grant = await raw.lease()
    assert await ask(raw, grant) == [(1, 0)] * 3 + [(0, 0)] * 2

    assert await raw.read("trapped") == {"4": SHAPE, "5": SHAPE}
    assert set(await raw.read("holder")) == {"1", "2", "3"}
    assert (await raw.known()).in_flight == 3
    stats = await raw.stats()
    assert (stats["leased"], stats["trapped"], stats["pending"]) == (3, 2, 0)


async def crawl(raw, pages, *, bred=0, found=0):
    """Fetch all that there is, until nothing is left; `found`: URLs that each page leads to."""
    done = set[str]()
    while grant := await raw.lease(100):
        if not grant.fps:
            if not await raw.shard.call("look"):
                return done
            continue
        said = await ask(raw, grant, bred=bred)
        for claim, (may, _) in zip(grant.claims, said, strict=True):
            if may:
                done.add(claim[0])
                await raw.add(*(str(next(pages)) for _ in range(found)))
                await raw.complete(claim)
    return done


async def test_what_was_found_elsewhere_is_fetched_to_its_end(make_raw):
    raw = await make_raw(shape_budget=5)
    await raw.add(*(str(n) for n in range(1, 200)))

    assert len(await crawl(raw, None)) == 199

    assert await raw.idle()
    assert await raw.read("trapped") == await raw.read("looks") == {}


@pytest.mark.parametrize(("found", "most"), [(1, 6), (2, 6)])
async def test_what_leads_to_as_many_as_it_takes_is_held_after_a_look(make_raw, found, most):
    raw = await make_raw(shape_budget=5)
    await raw.add("1")

    assert len(await crawl(raw, count(2), found=found)) == most

    assert await raw.idle()
    assert list((await raw.read("looks")).values()) == [-1]


async def test_what_yields_nothing_and_was_found_on_its_like_gets_no_look(make_raw):
    raw = await make_raw(shape_budget=5)
    await raw.add(*(str(n) for n in range(1, 200)))

    assert len(await crawl(raw, None, bred=1)) == 5

    assert await raw.idle()


async def test_a_crawl_is_not_over_before_the_last_look(make_raw):
    raw = await make_raw(shape_budget=1)
    await raw.add("1", "2")
    grant = await raw.lease()
    await ask(raw, grant)
    assert await raw.shard.call("look") == 0  # one is under way

    await raw.complete(grant.claims[0])

    assert not await raw.idle()
    assert await raw.shard.call("look") == 0  # it yielded nothing, and led to its like
    assert await raw.idle()


async def test_a_look_whose_answer_was_lost_may_be_repeated(make_raw):
    raw = await make_raw(shape_budget=5)
    await raw.add(*(str(n) for n in range(1, 20)))
    grant = await raw.lease(100)
    said = await ask(raw, grant, bred=0)
    may = [claim for claim, (is_ours, _) in zip(grant.claims, said, strict=True) if is_ours]
    await raw.complete(*may)
    assert await raw.shard.call("look") == 1
    before = await raw.dump()

    assert await raw.shard.call("look") == 0

    assert await raw.dump() == before


async def test_a_shape_that_has_yielded_something_since_is_looked_at_again(make_raw):
    raw = await make_raw(shape_budget=5)
    await raw.add(*(str(n) for n in range(1, 200)))
    await crawl(raw, None, bred=1)
    assert await raw.idle()
    await raw.add("500")
    grant = await raw.lease()

    await raw.complete(*grant.claims, said={"yields": {SHAPE: 10}})

    assert list((await raw.read("looks")).values()) == [math.inf]
    assert len(await crawl(raw, None, bred=1)) == 194


async def test_yield_raises_the_budget_and_frees_what_is_held(make_raw):
    raw = await make_raw(shape_budget=2)
    await raw.add("1", "2", "3", "4", "5", "6")
    grant = await raw.lease()
    await ask(raw, grant)

    await credit(raw, "1", grant.token, 10)

    assert await entry(raw) == [2, 1, 0.4]
    assert len(await raw.read("trapped")) == 2
    again = await raw.lease()
    assert again.fps == ["3", "4"]
    assert [said for said, _ in await ask(raw, again)] == [1, 1]


async def test_a_shape_that_yields_too_little_stays_as_it_is(make_raw):
    raw = await make_raw(shape_budget=30)
    await raw.add(*map(str, range(1, 40)))
    grant = await raw.lease(100)
    assert sum(said for said, _ in await ask(raw, grant)) == 30

    for fp in ("1", "2", "3", "4", "5"):
        await credit(raw, fp, grant.token, 1)
    assert len(await raw.read("trapped")) == 9

    await credit(raw, "6", grant.token, 1)  # one page in five
    assert await raw.read("trapped") == {}
    assert len((await raw.lease(100)).fps) == 9


@pytest.mark.parametrize(("worth", "doublings"), [(1, 5), (10, 10)])
async def test_what_is_unsure_doubles_a_budget_a_few_times_only(make_raw, worth, doublings):
    raw = await make_raw(shape_budget=30)
    pages = 30 * 2**doublings // 2
    for before, after in ((doublings - 1, doublings), (doublings, doublings)):
        await raw.shard.command("HSET", "shapes", "a.test", encode({SHAPE: [pages, before, 0]}))
        await raw.add(*(fps := [str(before * 10_000 + n) for n in range(1, pages // 5 + 1)]))
        grant = await raw.lease(len(fps))
        claims = [(fp, grant.token) for fp in grant.fps]
        await raw.complete(*claims, said={"yields": {SHAPE: -worth}})
        assert (await entry(raw))[1] == after
    sure = {"yields": {SHAPE: 10 * pages}}
    await raw.add("1")
    await raw.complete(*(await raw.lease()).claims, said=sure)
    assert (await entry(raw))[1] == doublings + 1


async def test_each_shape_has_a_budget_of_its_own(make_raw):
    raw = await make_raw(shape_budget=1)
    await raw.add("1", "2")
    grant = await raw.lease(1)
    assert await ask(raw, grant, SHAPE) == [(1, 0)]
    assert await ask(raw, await raw.lease(1), OTHER) == [(1, 0)]


async def test_a_page_that_was_not_finished_takes_nothing_from_the_budget(make_raw, clock):
    raw = await make_raw(shape_budget=1)
    await raw.add("1")
    for end in (raw.retry, raw.release):
        grant = await raw.lease()
        assert await ask(raw, grant) == [(1, 0)]
        assert await end(*grant.claims) != [Code.LOST]
        clock.advance(10)
    assert await ask(raw, await raw.lease(ttl_ms=1000)) == [(1, 0)]
    clock.advance(2)
    again = await raw.lease()  # its worker vanished
    assert await ask(raw, again) == [(1, 0)]
    assert await raw.read("probation") == {"1": b"7"}

    await raw.complete(*again.claims)

    assert await raw.read("probation") == {}
    assert await entry(raw) == [1, 0, 0]


async def test_a_lease_that_is_not_ours_any_more_has_no_effect(make_raw, clock):
    raw = await make_raw(shape_budget=1)
    await raw.add("1")
    late = await raw.lease(ttl_ms=1000)
    clock.advance(2)
    grant = await raw.lease()
    assert await ask(raw, late) == [(Code.LOST, 0)]
    assert set(await raw.read("holder")) == set(grant.fps)
    assert await raw.read("shapes") == {}


async def test_a_repeated_question_is_answered_as_the_first_time(make_raw):
    raw = await make_raw(shape_budget=1)
    await raw.add("1", "2")
    grant = await raw.lease()
    first = await ask(raw.numbered(900), grant)
    assert await ask(raw.numbered(900), grant) == first == [(1, 0), (0, 0)]
    assert await entry(raw) == [1, 0, 0]


async def test_shapes_beyond_a_hundred_of_a_host_share_one_budget(make_raw):
    raw = await make_raw(shape_budget=2)
    fps = [str(n) for n in range(1, 106)]
    await raw.add(*fps)
    answers = []
    for n in range(105):
        answers += await ask(raw, await raw.lease(1), shape=1000 + n)
    assert [said for said, _ in answers] == [1] * 100 + [2] * 2 + [0] * 3
    held = await raw.read("trapped")
    assert (set(held), len(set(held.values()))) == ({"103", "104", "105"}, 1)


async def test_a_held_request_gives_its_turn_back_to_its_host(make_raw, clock):
    raw = await make_raw(shape_budget=1, delay_s=10, max_in_flight=1)
    await raw.add("1", "2", "3")
    first = await raw.lease()
    await ask(raw, first, moment_ms=clock())
    await raw.complete(*first.claims)
    clock.advance(10)
    second = await raw.lease()
    assert second.fps == ["2"]

    assert await ask(raw, second, moment_ms=clock()) == [(0, 0)]

    assert (await raw.lease()).fps == ["3"]


async def test_a_shape_that_keeps_its_promise_is_trusted_with_many_pages(make_raw):
    raw = await make_raw(shape_budget=30)
    await raw.add("1", "2")
    await raw.shard.command("HSET", "shapes", "a.test", encode({SHAPE: [100, 5, 0]}))
    assert await ask(raw, await raw.lease()) == [(1, 214), (1, 0)]
    assert await entry(raw) == [316, 5, 0]


async def test_a_record_that_makes_no_sense_is_begun_anew(make_raw):
    raw = await make_raw(shape_budget=1)
    await raw.add("1")
    for nonsense in (b"\xc1", encode({SHAPE: ["x", 0, 0]}), encode([1]), encode(3)):
        await raw.shard.command("HSET", "shapes", "a.test", nonsense)
        grant = await raw.lease()
        assert await ask(raw, grant) == [(1, 0)]
        await raw.release(*grant.claims)
    assert await raw.counter("damaged") == 4


async def test_the_audit_knows_what_is_held(make_raw, frontier):
    raw = await make_raw(shape_budget=1)
    for url in ("https://a.test/1", "https://a.test/2"):
        await frontier.add([Request(url=url)])
    grant = await raw.lease()
    await ask(raw, grant)
    assert not (await audit(frontier)).problems
    await raw.shard.command("ZADD", "delayed", 5, grant.fps[1])
    [found] = [one for one in (await audit(frontier)).problems if "several" in str(one)]
    assert "delayed, trapped" in str(found)
