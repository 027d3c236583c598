"""The supervisor on real processes, however short their lives."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

import msgspec
import pytest

from chaos.rig import PrivateServer, until
from skitter.crawl.children import Children, ProcessPool
from skitter.crawl.plan import bounded, is_hopeless
from skitter.crawl.supervisor import Supervisor
from skitter.crawl.watch import Watcher
from skitter.errors import JobRemoved, ServerUnreachable, UsageError
from skitter.frontier.jobs import create_job, purge_job
from skitter.frontier.transport import endpoints
from skitter.frontier.transport.connection import connect
from skitter.frontier.workers import (
    Heartbeat,
    Wish,
    beat,
    heartbeats,
    live_machines,
    log_lost_machines,
    read_log,
    report_machine,
    set_wanted_workers,
    supervisors,
    take_back,
)
from skitter.model import Request

STAYS = [sys.executable, "-c", "import time; time.sleep(600)"]


def exits(code: int) -> list[str]:
    return [sys.executable, "-c", f"raise SystemExit({code})"]


def make(frontier, said: list[str], **changes) -> Supervisor:
    children = Children(frontier, on_output=said.append)
    pool = ProcessPool(children, changes.pop("worker_command", STAYS))
    return Supervisor(frontier, pool, children, **({"workers": 1} | changes))


@asynccontextmanager
async def running(supervisor: Supervisor) -> AsyncIterator[None]:
    task = asyncio.create_task(supervisor.run())
    try:
        yield
    finally:
        supervisor.stop()
        await task


@pytest.fixture
async def busy(frontier):
    await frontier.add([Request(url="https://a.test/")])
    return frontier


async def test_a_death_is_told_to_whoever_watches(busy):
    said: list[str] = []
    async with running(make(busy, said, worker_command=exits(3), loader_command=exits(4))):
        await until(lambda: len(said) > 1, what="both have died")

    assert {line.split(",")[0] for line in said[:-1]} == {"the worker", "the loader"}
    assert said[-1] == "stopping: 0 pages in flight; Ctrl-C to stop now"
    assert any("ended with exit code 4; restarting in 1.0 s." in line for line in said)


async def test_a_mistake_that_would_be_repeated_ends_it_in_plain_words(busy):
    with pytest.raises(UsageError, match="the worker cannot start: see the error above"):
        await make(busy, [], worker_command=exits(2)).run()


async def test_a_worker_that_was_heard_of_never_ends_the_fleet(busy):
    """It had begun: what it died of later is its own affair, whatever the exit code."""
    said: list[str] = []
    script = (
        "import asyncio, os, sys, uvloop\n"
        "from skitter.frontier.transport.connection import connect\n"
        "from skitter.frontier.workers import log\n"
        "from skitter.frontier.jobs import open_job\n"
        "from skitter.frontier.transport.endpoints import MARK, client_name\n"
        "async def main():\n"
        "    async with connect(sys.argv[1]) as server:\n"
        "        name = client_name(mark=os.environ[MARK])\n"
        "        await log(await open_job(server, sys.argv[2]), 'info', name, 'worker started')\n"
        "asyncio.run(main())\n"
        "sys.exit(2)\n"
    )
    words = [sys.executable, "-c", script, busy.server.where, busy.job]
    async with running(make(busy, said, worker_command=words)):
        await until(lambda: len(said) > 1, what="it has died twice")

    assert all("ended with exit code 2; restarting in" in line for line in said[:2])


@pytest.mark.parametrize(
    ("code", "heard", "in_a_row", "hopeless"),
    [
        (2, False, 1, True),
        (2, True, 9, False),
        (1, False, 4, False),
        (1, False, 5, True),
        (1, True, 9, False),
        (3, False, 9, False),  # the server or a disk: that may pass
        (-9, False, 9, False),
    ],
)
def test_only_a_process_that_cannot_start_ends_the_fleet(code, heard, in_a_row, hopeless):
    assert is_hopeless(code, heard=heard, in_a_row=in_a_row) is hopeless


async def test_a_worker_that_ends_with_work_left_is_restarted_silently(busy):
    said: list[str] = []
    supervisor = make(busy, said, worker_command=exits(0))
    async with running(supervisor):
        await until(lambda: pid_of(supervisor), what="it runs")
        first = pid_of(supervisor)
        await until(lambda: pid_of(supervisor) not in (first, None), what="another one runs")
        assert said == []


def all_run(supervisor: Supervisor, number: int) -> bool:
    return sum(child.running for child in supervisor.children._all) == number


def pid_of(supervisor: Supervisor) -> int | None:
    processes = [child.process for child in supervisor.children._all if child.what == "worker"]
    return processes[0].pid if processes and processes[0] else None


async def test_a_total_is_shared_out_and_one_fewer_is_one_fewer(busy):
    """With three machines of two workers each, 5 once made 15."""
    fleet = [make(busy, [], workers=2) for _ in range(3)]

    def counts() -> list[int]:
        return sorted(sum(child.running for child in one.children._all) for one in fleet)

    async with AsyncExitStack() as stack:
        for one in fleet:
            await stack.enter_async_context(running(one))
        await until(lambda: counts() == [2, 2, 2], what="all run")
        await set_wanted_workers(busy, Wish(5))
        await until(lambda: counts() == [1, 2, 2], what="one has stopped")
        await set_wanted_workers(busy, Wish(2))
        await until(lambda: counts() == [0, 1, 1], what="a machine may have none")
        await set_wanted_workers(busy, Wish(1, per_machine=True))
        await until(lambda: counts() == [1, 1, 1], what="each has one")
    assert await live_machines(busy) == []


async def test_the_leases_of_a_worker_that_dies_while_it_stops_are_reclaimed(busy):
    said: list[str] = []
    supervisor = make(busy, said, workers=2)
    async with running(supervisor):
        await until(lambda: all_run(supervisor, 2), what="both run")
        await busy.shards[0].call("control", ["workers", 1], create=0)
        await until(lambda: logged(busy), what="one has gone")

    [event] = await read_log(busy)
    assert "was killed by SIGTERM; 0 requests returned to the queue" in event.text


async def test_a_worker_that_died_is_no_longer_counted(busy):
    """Whoever watches would see more workers than run, until it had been silent for a while."""
    supervisor = make(busy, [])
    async with running(supervisor):
        await until(lambda: pid_of(supervisor), what="it runs")
        [child] = supervisor.children._all
        now = await busy.server_time()
        one = Heartbeat(name=child._client, host="a", pid=1, started_at=now, at=now)
        await beat(busy, one)
        child.send(signal.SIGKILL)
        await until(lambda: logged(busy), what="its death was noticed")

    assert await heartbeats(busy) == []


async def logged(frontier) -> bool:
    return bool(await read_log(frontier))


async def test_an_outage_is_told_once_and_so_is_its_end():
    server = PrivateServer()
    said: list[str] = []
    try:
        server.start()
        async with connect(server.url) as connected:
            connected.patience_s = 0.05
            frontier = await create_job(connected, "outage")
            await frontier.add([Request(url="https://a.test/")])
            async with running(make(frontier, said)):
                server.kill()
                await until(lambda: said and not server.alive, what="somebody noticed")
                await asyncio.to_thread(server.start)
                await until(lambda: len(said) > 1, what="it is back")
    finally:
        server.close()

    assert said[0].endswith(" Waiting.")
    assert re.fullmatch(r"The server is back after \d+ s\.", said[1])


async def test_a_death_that_the_server_did_not_hear_of_is_told_when_it_is_back():
    """Or what the process held would wait for its lease to expire."""
    server = PrivateServer()
    said: list[str] = []
    try:
        server.start()
        async with connect(server.url) as connected:
            connected.patience_s = 0.05
            frontier = await create_job(connected, "outage")
            children = Children(frontier, on_output=said.append)
            child = children.add("worker", exits(1))
            await children.keep_running(child)
            await child.ended()
            server.kill()
            with pytest.raises(ServerUnreachable):
                await children.keep_running(child)
            await asyncio.to_thread(server.start)
            await children.keep_running(child)
            [event] = await read_log(frontier)
    finally:
        server.close()

    assert "ended with exit code 1; restarting in 1.0 s; 0 requests returned" in event.text
    assert len(said) == 1


async def test_whoever_only_works_for_a_crawl_waits_when_it_is_removed(busy):
    said: list[str] = []
    supervisor = make(busy, said, keep_alive=True)
    async with running(supervisor):
        await until(lambda: pid_of(supervisor), what="it runs")
        first = pid_of(supervisor)
        await purge_job(busy)
        await until(lambda: said, what="somebody noticed")
        await create_job(busy.server, busy.job)
        await until(lambda: len(said) > 1, what="it is back")
        assert pid_of(supervisor) == first

    gone, back, _ = said
    assert gone.endswith("was removed: waiting until it is run again.")
    assert " is back after " in back


@pytest.mark.parametrize("changes", [{}, {"keep_alive": True, "loader_command": STAYS}])
async def test_whoever_began_a_crawl_ends_when_it_is_removed(busy, changes):
    supervisor = make(busy, [], **changes)
    task = asyncio.create_task(supervisor.run())
    await until(lambda: pid_of(supervisor), what="it runs")

    await purge_job(busy)

    with pytest.raises(JobRemoved, match="was removed from the server while it ran"):
        await task


async def test_whoever_writes_to_the_server_cannot_have_ten_million_processes(busy):
    """Nor stop the supervisor with a request that is no number: it keeps to its own."""
    shard = busy.shards[0]
    supervisor = make(busy, [], worker_command=["sleep", "600"], workers=2)
    pool = cast("ProcessPool", supervisor.pool)
    most = bounded(10_000_000, os.cpu_count() or 1)
    seen: list[int] = []

    async def note(_) -> None:
        seen.append(sum(child.running for child in pool._workers))

    supervisor.on_tick = note
    async with running(supervisor):
        for requested, expected in ((b"10000000", most), (b"9" * 5000, 2), (b"-7", 2), (b"1e9", 2)):
            await shard.server.command("HSET", shard.keys.key("control"), "workers", requested)
            seen.clear()

            def follows(wanted: int | None = expected) -> bool:
                return len(seen) > 3 and seen[-1] == wanted

            await until(follows, what="it follows")
            assert max(seen) <= (most or 0)


async def test_what_workers_of_an_earlier_run_held_is_handed_out_again_at_once(busy):
    child = await asyncio.create_subprocess_exec(*exits(0))
    await child.wait()
    (lease,) = (await busy.lease(1, ttl_s=3600)).leases
    now = await busy.server_time()
    gone = Heartbeat(
        name=busy.client, host=socket.gethostname(), pid=child.pid, started_at=now, at=now - 60
    )
    other = msgspec.structs.replace(gone, name="elsewhere", host="another-machine")
    for one in (gone, other):
        await beat(busy, one)
    said: list[str] = []

    async with running(make(busy, said)):
        await until(lambda: said, what="it was taken over")

    assert said[0].endswith("is gone; 1 request returned to the queue.")
    assert [one.url for one in (await busy.lease(5)).leases] == [lease.url]
    assert [one.name for one in await heartbeats(busy)] == ["elsewhere"]


async def test_a_machine_that_is_lost_is_named_with_what_it_held_and_what_came_of_it(busy, clock):
    """Its workers are gone with it: another supervisor says so."""
    now, here = await busy.server_time(), socket.gethostname()
    await busy.lease(1)
    head = Heartbeat(
        name=endpoints.client_name(), host=here, pid=1, kind="supervisor", started_at=1, at=now - 20
    )
    worker = Heartbeat(name="w", host=here, pid=2, started_at=1, at=now - 20, active=1)
    await report_machine(busy, head)
    await beat(busy, worker)

    await log_lost_machines(busy, "other")
    await log_lost_machines(busy, "other")
    look = await Watcher(busy.server).look_at(busy)
    [machine] = look.machines
    assert (machine.host, machine.is_lost) == (here, True)
    assert machine.note == "it held 1 URL: others take over when its leases end"
    assert [one.name for one in look.silent] == ["w"]
    lost = look.troubles[-1]
    assert lost.kind == "machine lost"
    assert lost.says == f"{here} has been silent for 20 s: {machine.note}"

    await take_back(busy, busy.client, seen=False)
    await log_lost_machines(busy, "other")
    [machine] = (await Watcher(busy.server).look_at(busy)).machines
    assert machine.note == "it held 1 URL, returned to the queue"
    said = [event.text for event in await read_log(busy)]
    assert [text.partition("; ")[0] for text in said] == [
        f"machine {here} is lost: silent for 20 s"
    ] * 2

    again = msgspec.structs.replace(head, name="again", at=now + 60)
    await report_machine(busy, again)
    await log_lost_machines(busy, "other")
    assert [one.name for one in await supervisors(busy)] == ["again"]
