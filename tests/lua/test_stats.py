import pytest


async def test_every_state_is_counted(raw, clock):
    await raw.add(*"123456")
    await raw.add("7", "7", host="b.test")
    one, two, three, four = (await raw.lease(4)).claims
    await raw.complete((*one, [], [b"a", b"b"]))
    await raw.retry(two)
    await raw.bury(three)
    await raw.complete(one)

    stats = await raw.stats()

    assert (stats.pop("ticket"), stats.pop("state")) == (11, "run")
    assert stats == {
        "max_pages": 0,
        "pending": 3,
        "delayed": 1,
        "trapped": 0,
        "unhandled": 0,
        "looks": 0,
        "today": 0,
        "revisits": 0,
        "due": 0,
        "leased": 1,
        "done": 1,
        "dead": 1,
        "excluded": 0,
        "seen": 7,
        "duplicates": 1,
        "retried": 1,
        "late": 1,
        "items": 2,
        "hosts": 2,
        "bodies": 6,
        "holders": 1,
        "reopened": 0,
    }
    assert await raw.release(four)


async def test_it_changes_nothing(raw):
    await raw.add("1")
    before = await raw.dump()

    await raw.stats()

    assert await raw.dump() == before


async def test_a_job_is_finished_when_nothing_is_pending_delayed_or_leased(raw, clock):
    assert await raw.idle()
    await raw.add("1")
    assert not await raw.idle()

    grant = await raw.lease()
    assert not await raw.idle()
    await raw.retry(*grant.claims, after_ms=1000)
    assert not await raw.idle()

    clock.advance(1)
    await raw.complete(*(await raw.lease()).claims)
    assert await raw.idle()


async def test_dead_letters_do_not_keep_a_job_going(raw):
    await raw.add("1")
    await raw.bury(*(await raw.lease()).claims)

    assert await raw.idle()


async def test_a_job_is_finished_when_its_pages_are_spent(make_raw):
    raw = await make_raw(max_pages=1)
    await raw.add("1", "2")
    grant = await raw.lease()
    assert not await raw.idle()

    await raw.complete(*grant.claims)

    assert await raw.idle()


async def test_a_job_is_finished_when_all_that_is_left_is_shelved(make_raw):
    raw = await make_raw(max_pages_per_host=1)
    await raw.add("1", "2", "3")
    grant = await raw.lease()
    assert not await raw.idle()

    await raw.complete(*grant.claims)

    stats = await raw.stats()
    assert (stats["pending"], stats["shelved"]) == (2, 2)
    assert await raw.idle()


@pytest.mark.parametrize("state", ["pause", "drain"])
async def test_a_paused_or_draining_job_with_work_is_not_finished(raw, state):
    await raw.add("1")
    await raw.control(state=state)

    assert not await raw.idle()


async def test_a_cancelled_job_is_finished_when_its_leases_are_back(raw):
    await raw.add("1", "2")
    grant = await raw.lease(1)
    await raw.control(state="cancel")
    assert not await raw.idle()

    await raw.release(*grant.claims)

    assert await raw.idle()
