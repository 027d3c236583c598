"""A stop of the whole machine is nobody's fault: what was under way is not counted against it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from chaos.rig import PrivateServer, until
from conftest import rude
from skitter.frontier.audit.auditor import audit
from skitter.frontier.dead import dead_letters
from skitter.frontier.jobs import create_job, open_job
from skitter.frontier.transport.connection import connect
from skitter.frontier.workers import take_back
from skitter.model import Request

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def private() -> Iterator[PrivateServer]:
    server = PrivateServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


async def create_with_five(server: PrivateServer, job: str) -> None:
    async with connect(server.url) as connected:
        frontier = await create_job(connected, job, options=rude())
        await frontier.add([Request(url=f"https://a.test/{i}") for i in range(5)])


async def lease_and_let_it_run_out(frontier, *, ttl_s=0.05) -> int:
    """How many were handed out; when this returns, a lease would be of an earlier second."""
    began = time.time()
    leases = (await frontier.lease(10, ttl_s=ttl_s)).leases
    await until(lambda: time.time() - began > 3, what="the second is over")
    return len(leases)


async def test_what_is_under_way_when_the_power_goes_is_not_lost_by_its_own_fault(private):
    await create_with_five(private, "cuts")
    for _ in range(4):  # one more than max_losses
        async with connect(private.url) as connected:
            assert await lease_and_let_it_run_out(await open_job(connected, "cuts")) == 5
        private.kill()
        private.start()
    async with connect(private.url) as connected:
        frontier = await open_job(connected, "cuts")
        leases = (await frontier.lease(10)).leases
        stats = await frontier.stats()
        assert sorted(lease.url for lease in leases) == [f"https://a.test/{i}" for i in range(5)]
        assert {lease.attempt for lease in leases} == {1}
        assert (stats.dead, stats.lost) == (0, 20)
        assert not (await audit(frontier)).problems


async def test_workers_that_are_found_gone_after_a_power_cut_died_of_no_page(private):
    await create_with_five(private, "gone")
    for _ in range(3):  # max_losses
        async with connect(private.url) as connected:
            frontier = await open_job(connected, "gone")
            assert await lease_and_let_it_run_out(frontier, ttl_s=60) == 5
        private.kill()
        private.start()
        async with connect(private.url) as connected:
            after = await open_job(connected, "gone")
            assert await take_back(after, frontier.client, seen=False) == 5
    async with connect(private.url) as connected:
        stats = await (await open_job(connected, "gone")).stats()
        assert (stats.dead, stats.pending) == (0, 5)


async def test_what_kills_the_only_worker_dies_although_nobody_else_is_there(private):
    async with connect(private.url) as connected:
        frontier = await create_job(connected, "poison", options=rude())
        await frontier.add([Request(url="https://a.test/poison")])
        for _ in range(3):  # each time a new client, as after a restart of the worker
            again = await open_job(connected, "poison")
            assert await lease_and_let_it_run_out(again) == 1
        assert (await (await open_job(connected, "poison")).lease(1)).leases == []
        [letter] = [one async for one in dead_letters(frontier)]
        assert letter.reason == "its worker vanished 3 times"
