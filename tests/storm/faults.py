"""What may happen to a crawl. Each is one function; the seed chooses which, and when."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import clocks
from disks import fill_disk
from storm.releases import previous_release
from storm.scenes import OUT

if TYPE_CHECKING:
    from storm.crawl import Crawl
    from storm.processes import Kept


PAUSE_S = 0.04  # between two faults, at the most


@dataclass
class Storm:
    """Does things to a crawl, and counts them."""

    crawl: Crawl
    seed: int
    chance: random.Random = field(default_factory=random.Random)
    strikes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    wakings: list[float] = field(default_factory=list)  # when something that was stopped went on
    server_is_away: bool = False
    _later: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def faults(self) -> Counter[str]:
        wire = self.crawl.wire
        return self.counts + Counter({"answer lost": wire.lost, "connection cut": wire.cuts})

    async def strike(self) -> None:
        """One fault, by chance, and a pause. What could not be done, as there is nobody to do it
        to, is none. The chance of each is its own, so that a seed repeats all of them in order."""
        self.strikes += 1
        self.chance = random.Random(f"{self.seed} {self.strikes}")
        known = FAULTS | FAULTS_OF[self.crawl.scene.faults]
        name = self.chance.choices(list(known), [weight for weight, _ in known.values()])[0]
        if await known[name][1](self):
            self.counts[name] += 1
        await asyncio.sleep(self.chance.uniform(0, PAUSE_S))

    async def calm(self) -> None:
        """Until all that was held up goes on."""
        while self._later:
            await asyncio.gather(*self._later)
        for name in ("spider", *self.crawl.scene.helpers) if self.crawl.versions else ():
            self.crawl.deploy(name, 1)  # to the last machine: now all have every handler

    def after(self, seconds: float, work: Callable[[], object]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(work)

        self.meanwhile(wait())

    def meanwhile(self, work: Coroutine[Any, Any, None]) -> None:
        """What takes its time does not keep the next fault waiting."""
        task = asyncio.create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def victim(self, word: str) -> int | None:
        found = self.crawl.pids(word)
        return self.chance.choice(found) if found else None

    def wake(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        self.wakings.append(time.monotonic())


Fault = Callable[[Storm], Awaitable[bool]]


async def cut_one(storm: Storm) -> bool:
    """The wire counts the connections that it cut."""
    if links := storm.crawl.wire.used:
        storm.crawl.wire.cut([storm.chance.choice(links)])
    return False


async def cut_all(storm: Storm) -> bool:
    wire = storm.crawl.wire
    wire.cut(list(wire.links))
    return False


async def lose_answer(storm: Storm) -> bool:
    """The server does it, and nobody hears so. The wire counts those that were really lost."""
    if links := storm.crawl.wire.used:
        storm.chance.choice(links).loses_answer = True
    return False


async def lose_answers(storm: Storm) -> bool:
    """The next one to each client."""
    for link in storm.crawl.wire.links:
        link.loses_answer = True
    return False


async def hold_wire(storm: Storm) -> bool:
    storm.crawl.wire.hold(storm.chance.uniform(0.05, 0.5))
    return True


def kill(word: str) -> Fault:
    """A process with that word on its command line."""

    async def strike(storm: Storm) -> bool:
        pid = storm.victim(word)
        with suppress(ProcessLookupError):
            if pid:
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    return strike


def pause(word: str, longest_s: float) -> Fault:
    async def strike(storm: Storm) -> bool:
        pid = storm.victim(word)
        with suppress(ProcessLookupError):
            if pid:
                os.kill(pid, signal.SIGSTOP)
                storm.after(storm.chance.uniform(0.1, longest_s), lambda: storm.wake(pid))
                return True
        return False

    return strike


async def kill_main(storm: Storm) -> bool:
    """With its children left to find that out, and another one in its place."""
    one = storm.chance.choice(storm.crawl.mains)
    if one.is_running:
        one.kill()
        one.begin()
        return True
    return False


async def deploy(storm: Storm) -> bool:
    """One machine gets the next version of the spider, or goes back to the one before."""
    one = storm.chance.choice(storm.crawl.helpers)
    storm.crawl.deploy(one.name, storm.chance.choice([0, 1]))
    return _restart(one)


async def change_release(storm: Storm) -> bool:
    """One machine is upgraded, or goes back; the one with the supervisor and loader as well."""
    one = storm.chance.choice([*storm.crawl.helpers, *storm.crawl.mains])
    is_old = one.environment.get("PYTHONPATH")
    one.environment["PYTHONPATH"] = "" if is_old else str(previous_release())
    if one in storm.crawl.helpers:
        return _restart(one)
    one.kill()
    one.begin()
    return True


async def lose_machine(storm: Storm) -> bool:
    """Its supervisor and its worker at one moment."""
    one = storm.chance.choice(storm.crawl.helpers)
    with suppress(ProcessLookupError):
        if one.is_running and one.process:
            os.killpg(one.process.pid, signal.SIGKILL)
            return True
    return False


def _restart(one: Kept) -> bool:
    """As systemd would: it is asked to stop, and begins again when it has."""
    if is_running := one.is_running and one.process is not None:
        one.process.terminate()
    return is_running


async def kill_server(storm: Storm) -> bool:
    """Not before it has written what it answered when its disk was full."""
    crawl = storm.crawl
    if storm.server_is_away or not await asyncio.to_thread(crawl.has_written):
        return False
    os.kill(crawl.server_pid(), signal.SIGKILL)
    storm.server_is_away, away_s = True, storm.chance.uniform(0, 0.5)

    async def come_back() -> None:
        await asyncio.sleep(away_s)
        await asyncio.to_thread(crawl.start_server)
        storm.server_is_away = False

    storm.meanwhile(come_back())
    return True


async def pause_server(storm: Storm) -> bool:
    if storm.server_is_away:
        return False
    pid = storm.crawl.server_pid()
    os.kill(pid, signal.SIGSTOP)
    storm.after(storm.chance.uniform(0.1, 2.0), lambda: storm.wake(pid))
    return True


async def fill_memory(storm: Storm) -> bool:
    if storm.server_is_away:
        return False
    full_s = storm.chance.uniform(0.1, 1.0)

    async def fill() -> None:
        await asyncio.to_thread(storm.crawl.limit_memory, 1)
        await asyncio.sleep(full_s)
        await asyncio.to_thread(storm.crawl.limit_memory, 0)

    storm.meanwhile(fill())
    return True


async def fill_a_disk(storm: Storm) -> bool:
    """That of the server or of the output. Not if the server has rewritten its file: filled twice,
    it would lose answers, unless it is embedded (tests/chaos/test_full_disk.py)."""
    if storm.server_is_away or not storm.crawl.disks:
        return False
    place = storm.chance.choice(storm.crawl.disks)
    if storm.crawl.has_rewritten and place == storm.crawl.server_directory:
        return False
    storm.crawl.may_be_unwritten |= place == storm.crawl.server_directory
    await asyncio.to_thread(fill_disk, place)
    storm.after(storm.chance.uniform(0.1, 2.0), lambda: storm.crawl.free_disk(place))
    return True


async def lock_database(storm: Storm) -> bool:
    """Nobody else can write to it meanwhile: for a loader, it is away."""
    file = storm.crawl.folder / OUT
    if not file.exists():
        return False
    database = sqlite3.connect(file, timeout=0, check_same_thread=False)
    try:
        database.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:  # the loader is writing, or its disk is full
        database.close()
        return False
    storm.after(storm.chance.uniform(0.1, 8.0), database.close)
    return True


async def rewrite_file(storm: Storm) -> bool:
    """No fault, but another moment at which a kill, or a full disk, may do harm."""
    if storm.server_is_away:
        return False
    await asyncio.to_thread(storm.crawl.rewrite_file)
    return True


async def set_clock(storm: Storm) -> bool:
    offset = storm.crawl.folder / "offset"
    if offset.exists():
        clocks.set_clock(offset, storm.chance.choice(["+2h", "-2h", "+40s", "-40s", "+0"]))
    return offset.exists()


#: fault -> how often, compared with the others, and what it does. Many are cheap, few are kills.
FAULTS: dict[str, tuple[int, Fault]] = {
    "connection cut": (300, cut_one),
    "all connections cut": (15, cut_all),
    "answer lost": (300, lose_answer),
    "answers lost": (20, lose_answers),
    "network held up": (10, hold_wire),
    "server killed": (2, kill_server),
    "server suspended": (3, pause_server),
    "memory full": (3, fill_memory),
    "disk full": (3, fill_a_disk),
    "database locked": (3, lock_database),
}
_SUPERVISED: dict[str, tuple[int, Fault]] = {
    "loader killed": (2, kill("load")),
    "loader suspended": (2, pause("load", 3.0)),
    "supervisor killed": (2, kill_main),
}
#: The same of what a scene has besides.
FAULTS_OF: dict[str, dict[str, tuple[int, Fault]]] = {
    "skitter": _SUPERVISED
    | {
        "worker killed": (6, kill("work")),
        "worker suspended": (6, pause("work", 7.0)),
        "API killed": (2, kill("serve")),
        "clocks of workers set": (4, set_clock),
    },
    "Celery": _SUPERVISED
    | {
        "Celery process killed": (4, kill("celery")),
        "Celery process suspended": (4, pause("celery", 7.0)),
    },
    "Scrapy": {
        "Scrapy node killed": (5, kill_main),
        "Scrapy node suspended": (5, pause("runspider", 7.0)),
        "loader killed": (2, kill("load")),
    },
    "releases": _SUPERVISED
    | {
        "worker killed": (6, kill("work")),
        "machine lost": (2, lose_machine),
        "handler deployed": (12, deploy),
        "release changed": (12, change_release),
    },
    "browsers": _SUPERVISED
    | {
        "worker killed": (3, kill("work")),
        "browser killed": (60, kill("--remote-debugging-pipe")),
        "tab killed": (60, kill("--type=renderer")),
    },
    # Far more kills: there is no crawl that has to go on.
    "pushes": {
        "server killed": (20, kill_server),
        "server suspended": (10, pause_server),
        "memory full": (10, fill_memory),
        "disk full": (12, fill_a_disk),
        "append-only file rewritten": (10, rewrite_file),
        "API killed": (2, kill("serve")),
        "clock of the API set": (5, set_clock),
    },
}
