"""Leases: which may run, which are lost, and those that dead processes held."""

from __future__ import annotations

import math
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skitter.errors import SkitterError, SpiderError
from skitter.frontier.frontier import IN_COMPANY
from skitter.frontier.sites.learned import free_handled, hold_unhandled
from skitter.frontier.workers import live_workers, take_back
from skitter.model import Ended, Failure
from skitter.observe.report import some

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.workers import Heartbeat
    from skitter.model import Lease
    from skitter.settings import Limits
    from skitter.spider import Spider


def exclude(lease: Lease, limits: Limits) -> Failure | None:
    """How to end a lease that the operator's patterns exclude now; None: they do not."""
    why = limits.excludes_request(lease.request)
    return Failure(lease=lease, error=why, excluded_by=limits.patterns) if why else None


def is_suspect(lease: Lease, frontier: Frontier) -> bool:
    """Whether it is on its last chance and may be what kills workers: lua/lib/take.lua hands it
    out alone, and it must run alone."""
    return 0 < lease.losses >= frontier.options.retries.max_losses - 1


def must_wait(lease: Lease, frontier: Frontier) -> bool:
    """Whether it is a suspect that the server does not know to be alone yet."""
    return lease.token.endswith(IN_COMPANY) and is_suspect(lease, frontier)


@dataclass(slots=True)
class InHand:
    """What a program with a loop of its own has taken and not ended. A suspect is handed out when
    there is nothing else, and nothing else with it."""

    ready: deque[Lease]  # not handed out yet
    lease_s: float
    _until: dict[str, float] = field(default_factory=dict)  # by fingerprint: when the lease ends
    _alone: str = ""

    def take(self, limit: int, frontier: Frontier) -> tuple[list[Lease], Lease | None]:
        """Up to `limit`, or the suspect whose turn it is. Other threads may do the same."""
        now = time.monotonic()
        taken: list[Lease] = []
        suspects: list[Lease] = []
        with suppress(IndexError):
            while len(taken) < limit and self._until.get(self._alone, 0.0) < now:
                lease = self.ready.popleft()
                (suspects if must_wait(lease, frontier) else taken).append(lease)
        is_next = not taken and all(until < now for until in list(self._until.values()))
        suspect = suspects.pop() if suspects and is_next else None
        self.ready.extend(suspects)
        self.add(taken)
        return taken, suspect

    async def isolate(self, suspect: Lease, frontier: Frontier) -> list[Lease]:
        alone = await frontier.isolate(suspect, ttl_s=self.lease_s)
        if alone is None:
            return []
        self._alone = alone.fingerprint
        self.add([alone])
        return [alone]

    def add(self, leases: Iterable[Lease]) -> None:
        until = time.monotonic() + self.lease_s
        self._until.update((lease.fingerprint, until) for lease in leases)

    def end(self, lease: Lease) -> None:
        self._until.pop(lease.fingerprint, None)


async def extend(frontier: Frontier, leases: Sequence[Lease], *, ttl_s: float) -> list[Lease]:
    """Extend the leases. Returns the lost ones: somebody else has their requests."""
    answers = await frontier.extend(leases, ttl_s=ttl_s) if leases else []
    said = zip(leases, answers, strict=True)
    return [lease for lease, answer in said if answer is Ended.LOST]


#: Three heartbeats (engine/pulse.py).
SILENT_S = 6.0


def is_running(pid: int) -> bool:
    """Whether this machine has such a process."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # or it cannot be a pid
        return False
    except PermissionError:
        pass  # another user's
    return True


def is_here(beat: Heartbeat) -> bool:
    """Whether it claims to run on this machine. A container may have the same host name, and then
    its processes seem to be gone: also check how long they have been silent."""
    return beat.host == socket.gethostname()


async def find_dead(
    frontier: Frontier,
    beats: Iterable[Heartbeat],
    *,
    silent_s: float = SILENT_S,
    elsewhere: bool = False,
) -> list[Heartbeat]:
    """Those that died without signing off.

        dead = await find_dead(frontier, await heartbeats(frontier))
        for process, taken in await reclaim(frontier, dead): ...

    `elsewhere`: on other machines too, where silence is the only evidence.
    """
    now = await frontier.server_time()
    return [
        beat
        for beat in beats
        if now - beat.at > silent_s and (not is_running(beat.pid) if is_here(beat) else elsewhere)
    ]


async def reclaim(frontier: Frontier, dead: Iterable[Heartbeat]) -> list[tuple[Heartbeat, int]]:
    """Requeue what they held at once, not when the leases expire. Returns who held how much."""
    return [(beat, await take_back(frontier, beat.name, seen=False)) for beat in dead]


#: How long a page is left to the others.
ELSEWHERE_S, NOWHERE_S = 1.0, 5.0
#: Somebody who has the handler may only be restarting.
PATIENCE_S = 10.0
LOOK_S = 2.0  # heartbeats come as often


@dataclass(slots=True)
class Strays:
    """Leases of handlers that this worker lacks, as while a new version is being deployed.

    They go back to the queue, for workers that have the handler. If none has for a while, they are
    held, counted as `unhandled`, until a worker comes that has it.
    """

    frontier: Frontier
    spider: Spider
    log: Callable[[str, str], None]  # level, text
    _since: dict[str, float] = field(default_factory=dict)  # handler -> since when nobody has it
    _elsewhere: frozenset[str] = frozenset()  # handlers of live workers
    _looked_at: float = -math.inf

    @property
    def note(self) -> str:
        """What `status` shows."""
        names = sorted(set(self._since) - self._elsewhere)
        return "; ".join(f"no worker has handler {name!r}: its pages wait" for name in names)

    async def without(self, leases: list[Lease]) -> list[Lease]:
        """Give back what others can do, or will. Returns the rest."""
        strays = [(lease, name) for lease in leases if (name := self._missing(lease))]
        if not strays:
            return leases
        await self._look()
        for name in {name for _, name in strays}:
            self._note(name)
        with suppress(SkitterError):  # then the leases expire
            for after_s in (ELSEWHERE_S, NOWHERE_S):
                back = [lease for lease, name in strays if self._after_s(name) == after_s]
                await self.frontier.release(back, after_s=after_s)
            held = [lease for lease, name in strays if self._after_s(name) is None]
            await hold_unhandled(self.frontier, held)
        gone = {lease.fingerprint for lease, _ in strays}
        return [lease for lease in leases if lease.fingerprint not in gone]

    async def tend(self) -> int:
        """Queue what waited for a handler that this worker has. Returns how many."""
        if self._since:
            await self._look()
        freed = await free_handled(self.frontier, self.spider.handlers)
        if freed:
            self.log("info", f"{some(freed, 'page')} waited for a handler that this worker has")
        return freed

    def _missing(self, lease: Lease) -> str:
        try:
            self.spider.handler_of(lease.request)
        except SpiderError:
            return lease.request.handler or ""
        return ""

    async def _look(self) -> None:
        if time.monotonic() - self._looked_at < LOOK_S:
            return
        with suppress(SkitterError):
            beats = await live_workers(self.frontier)
            self._elsewhere = frozenset(name for beat in beats for name in beat.handlers)
            self._looked_at = time.monotonic()

    def _note(self, name: str) -> None:
        if name in self._since:
            if name in self._elsewhere:
                self._since[name] = time.monotonic()
            return
        self._since[name] = time.monotonic()
        who = "they go to workers that have it"
        if name not in self._elsewhere:
            who = "no worker has it, so they wait until one has"
        self.log("warning", f"pages for handler {name!r}, which this worker does not have: {who}")

    def _after_s(self, name: str) -> float | None:
        """When to offer its pages again; None: when a worker has it."""
        if name in self._elsewhere:
            return ELSEWHERE_S
        return NOWHERE_S if time.monotonic() - self._since[name] < PATIENCE_S else None
