"""What may happen to a crawl. Each is one function; the seed chooses which, and when."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from storm.crawl import Crawl


@dataclass
class Storm:
    """Does things to a crawl, and counts them."""

    crawl: Crawl
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    _later: set[asyncio.Task[None]] = field(default_factory=set)

    async def strike(self) -> None:
        """One fault, by chance. What could not be done, as there is nobody to do it to, is none."""
        name = self.chance.choices(list(FAULTS), [weight for weight, _ in FAULTS.values()])[0]
        if await FAULTS[name][1](self):
            self.counts[name] += 1

    async def calm(self) -> None:
        """Until all that was held up goes on."""
        await asyncio.gather(*self._later)

    def after(self, seconds: float, work: Callable[[], object]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(work)

        task = asyncio.create_task(wait())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def victim(self, role: str) -> int | None:
        found = sorted(self.crawl.children(role))
        return self.chance.choice(found) if found else None


async def cut_one(storm: Storm) -> bool:
    if links := storm.crawl.wire.links:
        storm.chance.choice(links).cut()
    return bool(links)


async def cut_all(storm: Storm) -> bool:
    links = list(storm.crawl.wire.links)
    for link in links:
        link.cut()
    return bool(links)


async def lose_answer(storm: Storm) -> bool:
    """The server does it, and nobody hears so."""
    if links := storm.crawl.wire.links:
        storm.chance.choice(links).loses_answer = True
    return bool(links)


async def hold_wire(storm: Storm) -> bool:
    storm.crawl.wire.hold(storm.chance.uniform(0.05, 0.5))
    return True


def kill(role: str) -> Callable[[Storm], Awaitable[bool]]:
    async def strike(storm: Storm) -> bool:
        pid = storm.victim(role)
        with suppress(ProcessLookupError):
            if pid:
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    return strike


def pause(role: str, longest_s: float) -> Callable[[Storm], Awaitable[bool]]:
    async def strike(storm: Storm) -> bool:
        pid = storm.victim(role)
        with suppress(ProcessLookupError):
            if pid:
                os.kill(pid, signal.SIGSTOP)
                storm.after(storm.chance.uniform(0.1, longest_s), lambda: wake(pid))
                return True
        return False

    return strike


def wake(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


async def kill_supervisor(storm: Storm) -> bool:
    """With its workers left to find that out, and another one in its place."""
    assert storm.crawl.run
    if storm.crawl.is_running:
        storm.crawl.run.kill()
        storm.crawl.run.wait()
        storm.crawl.begin()
        return True
    return False


async def kill_server(storm: Storm) -> bool:
    with suppress(ProcessLookupError, FileNotFoundError):
        os.kill(storm.crawl.server_pid(), signal.SIGKILL)
        await asyncio.sleep(storm.chance.uniform(0, 0.5))
        await asyncio.to_thread(storm.crawl.start_server)
        return True
    return False


async def pause_server(storm: Storm) -> bool:
    with suppress(ProcessLookupError, FileNotFoundError):
        pid = storm.crawl.server_pid()
        os.kill(pid, signal.SIGSTOP)
        storm.after(storm.chance.uniform(0.1, 2.0), lambda: wake(pid))
        return True
    return False


async def fill_memory(storm: Storm) -> bool:
    await asyncio.to_thread(storm.crawl.limit_memory, 1)
    storm.after(storm.chance.uniform(0.1, 1.0), lambda: storm.crawl.limit_memory(0))
    return True


#: fault -> how often, compared with the others, and what it does
FAULTS: dict[str, tuple[int, Callable[[Storm], Awaitable[bool]]]] = {
    "connection cut": (30, cut_one),
    "all connections cut": (10, cut_all),
    "answer lost": (30, lose_answer),
    "network held up": (10, hold_wire),
    "worker killed": (6, kill("work")),
    "worker suspended": (6, pause("work", 7.0)),
    "loader killed": (2, kill("load")),
    "loader suspended": (2, pause("load", 3.0)),
    "supervisor killed": (2, kill_supervisor),
    "server killed": (2, kill_server),
    "server suspended": (3, pause_server),
    "memory full": (3, fill_memory),
}
