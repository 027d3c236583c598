"""Pages for a handler that this worker does not have, as while a new version is being deployed.

They go back to the queue, for workers that have it. If none has, they wait: for as long as the
worker stays, or for a minute in a run that has to end. Then the attempt fails, with the reason.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skitter.errors import SkitterError, SpiderError
from skitter.frontier.admin.workers import live_workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease
    from skitter.spider import Spider

#: How long a page is left to the others.
ELSEWHERE_S, NOWHERE_S = 1.0, 5.0
PATIENCE_S = 60.0
LOOK_S = 2.0  # heartbeats come as often


@dataclass(slots=True)
class Strays:
    """The handlers that this worker has been asked for, and lacks."""

    frontier: Frontier
    spider: Spider
    log: Callable[[str, str], None]  # level, text
    stays: bool = False  # however long it takes
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
        back = [lease for lease, name in strays if self._may_wait(name)]
        for after_s in (ELSEWHERE_S, NOWHERE_S):
            some = [one for one in back if self._after_s(one) == after_s]
            with suppress(SkitterError):  # then the leases expire
                await self.frontier.release(some, after_s=after_s)
        gone = {lease.fingerprint for lease in back}
        return [lease for lease in leases if lease.fingerprint not in gone]

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
            self._elsewhere = frozenset(name for one in beats for name in one.handlers)
            self._looked_at = time.monotonic()

    def _note(self, name: str) -> None:
        if name in self._since:
            if name in self._elsewhere:
                self._since[name] = time.monotonic()
            return
        self._since[name] = time.monotonic()
        who = "they go to workers that have it"
        if name not in self._elsewhere:
            who = f"no worker has it, so they wait{'' if self.stays else f' {PATIENCE_S:.0f} s'}"
        self.log("warning", f"pages for handler {name!r}, which this worker does not have: {who}")

    def _may_wait(self, name: str) -> bool:
        if name in self._elsewhere or self.stays:
            return True
        return time.monotonic() - self._since[name] < PATIENCE_S

    def _after_s(self, lease: Lease) -> float:
        return ELSEWHERE_S if lease.request.handler in self._elsewhere else NOWHERE_S
