"""Which processes are gone, and what they held."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from skitter.engine.leases import find_dead, is_running, reclaim
from skitter.frontier.workers import Heartbeat, beat, heartbeats
from skitter.model import Request


async def heartbeat(frontier, *, pid: int, host: str = "", ago_s: float = 0.0) -> Heartbeat:
    now = await frontier.server_time()
    return Heartbeat(
        name=frontier.client,
        host=host or socket.gethostname(),
        pid=pid,
        kind="scrapy",
        started_at=now,
        at=now - ago_s,
        memory_mb=1.0,
    )


def test_only_what_runs_on_this_machine_is_running(dead_pid):
    assert is_running(os.getpid())
    assert is_running(1)  # somebody else's, as a rule
    assert not is_running(dead_pid)
    assert not is_running(2**70)  # whoever can write to the server can write anything


async def test_a_process_is_gone_if_it_is_silent_and_does_not_run(frontier, dead_pid):
    silent = await heartbeat(frontier, pid=dead_pid, ago_s=10)
    busy = await heartbeat(frontier, pid=os.getpid(), ago_s=10)  # a page holds it up
    fresh = await heartbeat(frontier, pid=dead_pid)  # in a container with the same host name
    beats = [silent, busy, fresh]

    assert await find_dead(frontier, beats, silent_s=6) == [silent]


async def test_of_other_machines_silence_is_all_there_is_to_go_by(frontier, dead_pid):
    far = await heartbeat(frontier, pid=os.getpid(), host="elsewhere", ago_s=10)

    assert await find_dead(frontier, [far], silent_s=6) == []
    assert await find_dead(frontier, [far], silent_s=6, elsewhere=True) == [far]


async def test_what_the_dead_held_is_handed_out_again_at_once(frontier, dead_pid):
    await frontier.add([Request(url="https://a.test/")])
    await frontier.lease(1)
    dead = await heartbeat(frontier, pid=dead_pid, ago_s=10)
    await beat(frontier, dead)

    assert await reclaim(frontier, [dead]) == [(dead, 1)]

    assert await heartbeats(frontier) == []
    stats = await frontier.stats()
    assert (stats.leased, stats.pending + stats.delayed) == (0, 1)


def test_the_memory_of_a_process_is_not_that_of_the_one_that_started_it():
    big = b"x" * 2**28  # 256 MB
    script = "from skitter.engine.pulse import memory_mb; print(memory_mb())"
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True).stdout
    assert 5 < float(said) < len(big) / 2**20
