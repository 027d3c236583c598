import pytest


async def test_values_of_its_own_are_kept_with_the_host(raw):
    for field, value in {"delay_ms": 2500, "max_in_flight": 3, "max_pages": 9}.items():
        assert await raw.host("a.test", field=field, value=value) == 1

    known = await raw.known()
    assert known.own == {"delay_ms": 2500, "max_in_flight": 3, "max_pages": 9}
    assert known.listed_in == 0


async def test_an_empty_value_gives_the_jobs_value_back(make_raw):
    raw = await make_raw(max_in_flight=1)
    await raw.add("1", "2", "3", "4")
    await raw.host("a.test", field="max_in_flight", value=2)
    assert (await raw.lease()).fps == ["1", "2"]

    await raw.host("a.test", field="max_in_flight", value="")

    assert (await raw.known()).own == {}
    assert (await raw.lease()).fps == []


async def test_values_given_before_the_first_request_hold_for_it(raw):
    await raw.host("a.test", field="max_in_flight", value=1)

    await raw.add("1", "2")

    assert (await raw.lease()).fps == ["1"]


async def test_a_raised_limit_makes_the_host_due_at_once(make_raw):
    raw = await make_raw(max_in_flight=1)
    await raw.add("1", "2")
    await raw.lease()
    assert await raw.read("due") == {}

    await raw.host("a.test", field="max_in_flight", value=2)

    assert list(await raw.read("due")) == ["a.test"]


async def test_a_rest_moves_the_host_to_waiting_and_its_end_moves_it_back(raw, clock):
    await raw.add("1", priority=3)

    await raw.host("a.test", field="blocked_for_ms", value=7000)
    assert (await raw.read("wait"), await raw.read("due")) == ({"a.test": clock() + 7000}, {})
    assert (await raw.lease()).again_ms == 7000

    await raw.host("a.test", field="blocked_for_ms", value="")
    assert (await raw.read("wait"), await raw.read("due")) == ({}, {"a.test": raw.score(3, 1)})


async def test_a_budget_of_its_own_shelves_what_it_will_never_reach(raw):
    await raw.add("1", "2", "3")
    await raw.complete(*(await raw.lease(1)).claims)

    await raw.host("a.test", field="max_pages", value=1)
    assert await raw.counter("shelved") == (await raw.known()).shelved == 2
    assert await raw.read("due") == {}

    await raw.host("a.test", field="max_pages", value="")
    assert await raw.counter("shelved") == (await raw.known()).shelved == 0
    assert (await raw.lease()).fps == ["2", "3"]


@pytest.mark.parametrize("limit", [0, 1])
async def test_a_host_may_be_switched_off(raw, limit):
    await raw.host("a.test", field="max_pages", value=limit)
    await raw.add("1", "2")

    assert len((await raw.lease()).fps) == limit


async def test_without_a_field_hosts_are_only_settled(raw):
    await raw.add("1", host="a.test")
    await raw.add("2", host="b.test")
    before = await raw.dump()

    assert await raw.host("a.test", "b.test") == 2

    assert await raw.dump() == before


async def test_no_host_changes_nothing(raw):
    before = await raw.dump()

    assert await raw.host(field="delay_ms", value=1) == 0

    assert await raw.dump() == before
