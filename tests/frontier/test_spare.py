"""Requests beyond those in flight, for a worker that is the only one of a job."""

from __future__ import annotations

import pytest

from skitter.frontier.audit.auditor import audit
from skitter.frontier.control import change_options, set_slot
from skitter.frontier.workers import Heartbeat, ask_for_spare, beat, leave
from skitter.model import Request
from skitter.settings import JobOptions, Politeness


@pytest.fixture
async def frontier(make_frontier):
    made = await make_frontier(JobOptions(politeness=Politeness(delay_s=0, max_in_flight=2)))
    await made.add(Request(url=f"http://{host}.test/{n}") for host in "ab" for n in range(9))
    return made


async def come(frontier, name: str, kind: str = "scrapy") -> None:
    await beat(frontier, Heartbeat(name=name, host="h", pid=1, kind=kind, started_at=0, at=0))


async def leased(frontier, host: str) -> int:
    leases = (await frontier.lease(20)).leases
    await frontier.release(leases)
    return sum(one.host == f"{host}.test" for one in leases)


async def test_who_is_alone_may_hold_more_than_may_be_in_flight(frontier):
    await come(frontier, "me")
    await come(frontier, "a loader", kind="loader")

    assert await ask_for_spare(frontier, "me", 3) == 3

    assert await leased(frontier, "a") == 5
    assert (await audit(frontier)).problems == set()


async def test_while_others_are_at_work_there_is_nothing_to_spare(frontier):
    await come(frontier, "me")
    await ask_for_spare(frontier, "me", 3)
    await come(frontier, "another")

    assert await ask_for_spare(frontier, "another", 3) == 0
    assert await leased(frontier, "a") == 2
    await leave(frontier, "another")
    assert await ask_for_spare(frontier, "me", 3) == 3


async def test_who_was_never_seen_gets_nothing(frontier):
    assert await ask_for_spare(frontier, "me", 3) == 0


async def test_hosts_with_a_delay_or_a_limit_of_their_own_have_none(frontier):
    await come(frontier, "me")
    await ask_for_spare(frontier, "me", 3)
    await set_slot(frontier, "a.test", max_in_flight=1)

    assert await leased(frontier, "a") == 1
    assert await leased(frontier, "b") == 5
    await change_options(frontier, {"delay_s": 1})
    await frontier.lease(20)
    assert (await frontier.lease(20)).leases == []
