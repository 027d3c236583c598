"""`skitter run SPIDER --engine celery`: seeds, pumps, display and loader as with workers of our
own, and the pages are fetched by Celery workers wherever they run."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skitter.celery.care import read_room, send_pumps
from skitter.celery.charges import drop_charge, is_over, read_charge, take_charge
from skitter.celery.office import office_of
from skitter.fleet.supervisor import STOP_GRACE_S, TICK_S, Supervisor
from skitter.frontier.admin.permits import void_tickets
from skitter.frontier.admin.workers import crew, read_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.celery.charges import Charge
    from skitter.model import Stats

NOBODY = (
    "No Celery worker answers: start one with `skitter celery worker`, or with "
    "`celery -A skitter.celery worker`. The crawl waits for it."
)
UNSIGNED = (
    "Without SKITTER_SECRET, only workers whose own configuration names this spider run it "
    "(`skitter celery worker --spiders ...`)."
)
PATIENCE_S = 8.0


@dataclass(slots=True, kw_only=True)
class Pumping(Supervisor):
    """A supervisor whose workers are pumps: it starts no process but the loader."""

    app: Any
    charge: Charge
    tell: Callable[[str], None]
    _began: float = field(default_factory=time.monotonic)
    _told: bool = False
    _read_to: str = "-"  # the log, from here on

    async def _follow_plan(self, wish: int | None, stats: Stats) -> None:
        """The charge may be gone: pumps let go of it when it was finished for a moment."""
        server = self.frontier.shards[0].server
        if is_over(self.charge, stats):
            return
        if await read_charge(server, self.charge.job) is None:
            await take_charge(server, self.charge)
        await send_pumps(office_of(self.app), self.frontier, self.charge, stats)
        await self._pass_on_errors()
        if not self._told and time.monotonic() - self._began > PATIENCE_S:
            self._told = True
            if not await read_room(server):
                self.tell(NOBODY)

    async def _pass_on_errors(self) -> None:
        """Why a pump could not begin: its worker has another secret, or no such file."""
        first = self._read_to == "-"
        for event in await read_log(self.frontier, self._read_to):
            self._read_to = event.id
            if event.level == "error" and not first:
                self.tell(event.text)

    async def _at_work(self) -> int:
        return sum(one.kind == "celery" for one in await crew(self.frontier))

    async def _stop_workers(self) -> None:
        """Pumps notice within seconds that their tickets are void, and hand back what they hold."""
        await drop_charge(self.frontier.shards[0].server, self.charge.job)
        await void_tickets(self.frontier)
        for _ in range(round(STOP_GRACE_S / TICK_S)):
            if not await self._at_work():
                break
            await asyncio.sleep(TICK_S)
        await void_tickets(self.frontier)  # of whoever was about to send one
