from typing import Any

import pytest

from skitter.errors import JobMissing
from skitter.frontier.control import configure, set_state
from skitter.frontier.jobs import purge_job
from skitter.frontier.transport.messages import encode
from skitter.frontier.transport.scripts import Code
from skitter.model import State
from skitter.settings import JobOptions, Limits, Politeness


async def test_a_new_job_runs_with_every_limit_it_was_given(make_raw):
    raw = await make_raw(delay_s=1.5, max_in_flight=2, max_pages=7, max_depth=0)

    control = await raw.read("control")
    assert control.pop("born").isdigit()
    assert control == {
        "state": "run",
        "delay_ms": "1500",
        "max_in_flight": "2",
        "latency_factor": "2.0",
        "max_delay_ms": "300000",
        "per": "host",
        "shared": "0",
        "max_retries": "3",
        "max_losses": "3",
        "retry_base_ms": "2000",
        "retry_cap_ms": "300000",
        "max_pages": "7",
        "max_depth": "0",
        "max_items_per_page": "10000",
        "max_links_per_page": "5000",
        "shape_budget": "1000",
        "revisit": "0",
        "revisit_after_ms": "86400000",
        "revisit_min_ms": "3600000",
        "revisit_max_ms": "1209600000",
        "depths": "1",
        "durability": "primary",
        "revisit_prune": "0",
        "revisit_gone": "2",
        "changes_smallest": "0.0",
    }


async def test_fields_are_set_and_an_empty_value_removes_one(raw):
    assert await raw.control(max_pages=5, max_depth=2) == 2
    assert await raw.control(max_pages="", state="pause") == 2

    control = await raw.read("control")
    assert (control["max_depth"], control["state"]) == ("2", "pause")
    assert "max_pages" not in control


async def test_no_field_changes_nothing(raw):
    before = await raw.dump()

    assert await raw.control() == 0

    assert await raw.dump() == before


async def test_a_job_can_be_paused_and_resumed(frontier, raw):
    await raw.add("1")
    await set_state(frontier, State.PAUSED)
    assert (await raw.lease()).fps == []

    await set_state(frontier, State.RUNNING)
    assert (await raw.lease()).fps == ["1"]


async def test_a_drained_job_finishes_what_it_has(raw):
    await raw.add("1", "2")
    await raw.control(state="drain")

    assert await raw.add("3") == [Code.CLOSED]
    await raw.complete(*(await raw.lease()).claims)

    stats = await raw.stats()
    assert stats["done"] == 2
    assert await raw.idle()


async def test_a_retry_in_a_drained_job_is_still_made(raw, clock):
    await raw.add("1")
    [claim] = (await raw.lease()).claims
    await raw.control(state="drain")

    await raw.retry(claim, after_ms=1000)
    clock.advance(1)

    assert (await raw.lease()).fps == ["1"]


async def test_a_lowered_limit_holds_from_the_next_lease_on(make_frontier, make_raw):
    raw = await make_raw(max_in_flight=5)
    frontier = await make_frontier()
    await raw.add(*"123456")
    await raw.lease(2)

    await configure(
        frontier, JobOptions(politeness=Politeness(delay_s=0, max_in_flight=3), limits=Limits())
    )

    assert len((await raw.lease()).fps) == 1


async def test_a_raised_limit_frees_hosts_that_stood_still(make_frontier, make_raw):
    raw = await make_raw(max_in_flight=1, max_pages_per_host=1)
    frontier = await make_frontier()
    await raw.add("1", "2", host="a.test")
    await raw.add("3", "4", host="b.test")
    a, _ = (await raw.lease()).claims
    await raw.complete(a)
    assert (await raw.lease()).fps == []
    assert await raw.counter("shelved") == 1

    await configure(
        frontier, JobOptions(politeness=Politeness(delay_s=0, max_in_flight=2), limits=Limits())
    )

    assert await raw.counter("shelved") == 0
    assert sorted((await raw.lease()).fps) == ["2", "4"]


VERBS: Any = {
    "add": ([("1", "a.test", 0, 0, b"body")], {"links": 0}),
    "again": ([("1", "a.test", 0, 0, b"body")], {"due_ms": "5"}),
    "lease": ([], {"limit": 1, "ttl_ms": 1000, "lane": "", "company": 0}),
    "extend": ([("1", "token")], {"ttl_ms": 1000, "alone": 0}),
    "complete": ([("1", "token", "", "")], {"leases": 1, "links": 0, "list": "", "report": 0}),
    "retry": ([("1", "token", 0, "error", "")], {}),
    "bury": ([("1", "token", "reason", "", "", 0)], {}),
    "release": ([("1", "token", 0)], {}),
    "reap": ([], {"at_most": 10}),
    "revive": ([("1",)], {}),
    "drop": ([("1",)], {"forget": 0}),
    "host": ([("a.test",)], {"field": "max_pages", "value": 3}),
    "reclaim": ([("1", "token")], {"seen": 1, "alone": 0, "why": ""}),
    "tally": ([("blocked", 1)], {}),
    "handled": ([("pages book", 1)], {"keep": 10}),
    "beat": ([], {"name": "w1", "message": b"x", "supervises": 0}),
    "log": ([("info", "w1", "text", "", "")], {"keep": 10}),
    "reject_items": ([("whole", b"x")], {"keep": 10}),
    "robots": ([], {"name": "a.test", "rules": b"x", "ttl_ms": 9000, "keep_ms": 0}),
    "depart": ([("a.test", 0, -1, 1000, 0)], {}),
    "record": ([("a.test 1 0 9 9 x",)], {}),
    "open_sessions": (
        [("a.test/", 1, "")],
        {"size": 1, "uses": -1, "errors": 3, "age_ms": -1, "chance": 0},
    ),
    "claim_login": ([], {"name": "a.test/", "number": 1, "claim": "me", "ttl_ms": 9}),
    "end_login": (
        [],
        {"name": "a.test/", "number": 1, "claim": "me", "reason": "", "rest_ms": 9},
    ),
    "note_sessions": ([(encode({"name": "a.test/", "fields": ["c:a", "1"]}),)], {}),
    "group": ([], {"name": "load"}),
    "stats": ([], {}),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_purged_job_refuses_every_verb_and_stays_away(frontier, raw, verb):
    await raw.add("1")
    await purge_job(frontier)

    each, values = VERBS[verb]
    with pytest.raises(JobMissing) as caught:
        await raw.call(verb, each, **values)

    assert caught.value.job == frontier.job
    assert await raw.dump() == {}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_job_that_is_being_purged_refuses_every_verb(frontier, raw, verb):
    await raw.add("1")
    await raw.control(state="purge")
    before = await raw.dump()

    each, values = VERBS[verb]
    with pytest.raises(JobMissing):
        await raw.call(verb, each, **values)

    assert await raw.dump() == before


async def test_a_job_that_is_being_purged_cannot_be_resumed(frontier, raw):
    await raw.control(state="purge")

    with pytest.raises(JobMissing):
        await set_state(frontier, State.RUNNING)

    assert (await raw.read("control"))["state"] == "purge"


async def test_a_purged_job_is_not_brought_back_by_a_state(frontier, raw):
    await purge_job(frontier)

    with pytest.raises(JobMissing):
        await set_state(frontier, State.PAUSED)

    assert await raw.dump() == {}
