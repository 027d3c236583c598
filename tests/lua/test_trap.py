"""Budgets of URL shapes: what is within them is fetched, what is beyond is held."""

import math
from itertools import count
from types import SimpleNamespace

import pytest

from skitter.frontier.audit.auditor import audit
from skitter.frontier.dead import dead_letters
from skitter.frontier.transport.messages import decode, encode
from skitter.frontier.transport.scripts import Code
from skitter.model import Request

SHAPE, OTHER = 7, 8


async def ask(raw, grant, shape=SHAPE, moment_ms=0):
    """Per lease: 1 (fetch it), 0 (held) or LOST, and how many more need not be asked for."""
    rows = [(*claim, shape, moment_ms) for claim in grant.claims]
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


async def crawl(raw, *, leads_to=None):
    """Fetch until nothing is left; `leads_to`: numbers of new URLs, of which each page has two."""
    done, ahead = list[str](), 0
    while grant := await raw.lease(100):
        if not grant.fps:
            if not await raw.shard.call("look"):
                return done
            continue
        for claim in grant.claims:
            may, more = (1, -1) if ahead else (await ask(raw, SimpleNamespace(claims=[claim])))[0]
            ahead += more
            if may:
                done.append(claim[0])
                if leads_to:
                    await raw.add(str(next(leads_to)), str(next(leads_to)))
                await raw.complete(claim)
    return done


@pytest.mark.parametrize("pages", [6, 49, 50])
async def test_what_is_beyond_the_budget_goes_last_and_completely(make_raw, pages):
    raw = await make_raw(shape_budget=5)
    await raw.add(*(str(n) for n in range(1, pages + 1)))

    assert len(await crawl(raw)) == pages

    assert await raw.idle()
    assert await raw.read("trapped") == await raw.read("looks") == {}


async def test_everything_else_comes_before_what_is_beyond_the_budget(make_raw):
    raw = await make_raw(shape_budget=2)
    await raw.add("1", "2", "3")
    grant = await raw.lease()
    await ask(raw, grant)
    await raw.complete(*grant.claims[:2])
    await raw.add("4")

    other = await raw.lease()
    assert other.fps == ["4"]
    assert await ask(raw, other, OTHER) == [(1, 0)]
    assert await raw.shard.call("look") == 0  # one is under way
    await raw.complete(*other.claims)

    assert not await raw.idle()
    assert await raw.shard.call("look") == 1
    assert (await raw.lease()).fps == ["3"]


async def test_a_shape_without_end_has_ten_times_its_budget(make_raw):
    raw = await make_raw(shape_budget=5)
    await raw.add("1")

    assert len(await crawl(raw, leads_to=count(2))) == 50

    assert await raw.idle()
    assert list((await raw.read("looks")).values()) == [-1]


async def test_a_record_of_the_earlier_release_goes_on_from_its_pages(make_raw):
    """Its fourth and fifth numbers meant something else."""
    raw = await make_raw(shape_budget=5)
    old = {SHAPE: [6, 0, 0, 30, 5]}
    await raw.shard.command("HSET", "shapes", "a.test", encode(old))
    await raw.shard.command("ZADD", "looks", 3, f"{SHAPE} a.test")
    await raw.add(*(str(n) for n in range(1, 100)))

    assert len(await crawl(raw)) == 44


async def test_a_look_whose_answer_was_lost_may_be_repeated(make_raw):
    raw = await make_raw(shape_budget=5)
    await raw.add(*(str(n) for n in range(1, 20)))
    grant = await raw.lease(100)
    said = await ask(raw, grant)
    may = [claim for claim, (is_ours, _) in zip(grant.claims, said, strict=True) if is_ours]
    await raw.complete(*may)
    assert await raw.shard.call("look") == 5
    before = await raw.dump()

    assert await raw.shard.call("look") == 0

    assert await raw.dump() == before


async def test_a_shape_that_has_yielded_enough_since_is_a_trap_no_more(make_raw):
    raw = await make_raw(shape_budget=5)
    await raw.add(*(str(n) for n in range(1, 100)))
    assert len(await crawl(raw)) == 50
    assert await raw.idle()
    await raw.add("500")
    grant = await raw.lease()

    await raw.complete(*grant.claims, said={"yields": {SHAPE: 10}})

    assert list((await raw.read("looks")).values()) == [math.inf]
    assert len(await crawl(raw)) == 49


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
    assert sum(said + ahead for said, ahead in await ask(raw, grant)) == 30

    for fp in ("1", "2", "3", "4", "5"):
        await credit(raw, fp, grant.token, 1)
    assert len(await raw.read("trapped")) == 16  # seven may be fetched without asking

    await credit(raw, "6", grant.token, 1)  # one page in five
    assert await raw.read("trapped") == {}
    assert len((await raw.lease(100)).fps) == 16


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
    assert [said for said, _ in answers] == [1] * 102 + [0] * 3
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


async def test_a_worker_need_not_ask_for_every_page(make_raw):
    raw = await make_raw(shape_budget=30)
    await raw.add("1", "2")
    await raw.shard.command("HSET", "shapes", "a.test", encode({SHAPE: [100, 5, 0]}))
    assert await ask(raw, await raw.lease()) == [(1, 100), (1, 0)]
    assert await entry(raw) == [202, 5, 0]


async def test_a_record_that_makes_no_sense_is_begun_anew(make_raw):
    raw = await make_raw(shape_budget=1)
    await raw.add("1")
    for nonsense in (b"\xc1", encode({SHAPE: ["x", 0, 0]}), encode([1]), encode(3)):
        await raw.shard.command("HSET", "shapes", "a.test", nonsense)
        grant = await raw.lease()
        assert await ask(raw, grant) == [(1, 0)]
        await raw.release(*grant.claims)
    assert await raw.counter("damaged") == 4


async def test_a_held_url_without_a_record_is_buried_and_the_job_ends(make_raw, frontier):
    raw = await make_raw(shape_budget=1)
    for url in ("https://a.test/1", "https://a.test/2", "https://a.test/3"):
        await frontier.add([Request(url=url)])
    grant = await raw.lease()
    await ask(raw, grant)
    await raw.complete(grant.claims[0])
    gone, damaged = await raw.read("trapped")
    await raw.shard.command("HDEL", "task", gone)
    await raw.shard.command("HSET", "task", damaged, "rubbish")

    while await raw.shard.call("look") or (await raw.stats())["looks"]:
        assert (await raw.lease()).fps == []

    stats = await frontier.stats()
    assert (stats.trapped, stats.dead, stats.crawled) == (0, 2, True)
    reasons = {letter.reason async for letter in dead_letters(frontier)}
    assert reasons == {"its record is gone, or damaged"}
    said = {one.says for one in (await audit(frontier)).problems}
    assert said == {
        "has a body that cannot be read",
        "2 damaged records were found, and replaced or given up",
    }


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
