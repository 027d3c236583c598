"""What a loader does beside loading: heartbeats, the log, what could not be stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from skitter.cli.output import tell
from skitter.frontier.admin.items import RejectedItem, reject_items
from skitter.frontier.admin.workers import Vitals
from skitter.frontier.frontier import Frontier
from skitter.frontier.wire import cut
from skitter.model import Result
from skitter.sinks import LoadState
from skitter.worker.pulse import Logbook, Pulse, cancel_all

LAST_WORDS_S = 3.0  # the server may be away


@dataclass(slots=True)
class LoaderDuty:
    """Keeps everybody informed about one loader."""

    frontier: Frontier
    name: str
    stop: asyncio.Event
    parent: int | None
    rejected: int = 0
    note: str = ""
    logbook: Logbook = field(default_factory=Logbook)

    def tell(self, state: LoadState) -> None:
        """The database went away, or came back."""
        self.note = "" if state.ok else state.message
        self.logbook("info" if state.ok else "warning", state.message)
        if self.parent is None:
            tell(state.message)

    async def set_aside(self, result: Result, error: Exception) -> None:
        """Keep an item that can never be stored, with the reason."""
        aside = RejectedItem(url=result.url, field="", reason=cut(str(error)), item=result.item)
        await reject_items(self.frontier, aside)
        self.rejected += 1
        self.logbook("warning", f"an item of {result.url} was rejected: {error}")

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Heartbeats while this lasts. Without its parent the loader stops."""
        pulse = Pulse(
            frontier=self.frontier,
            name=self.name,
            kind="loader",
            logbook=self.logbook,
            vitals=lambda: Vitals(errors=self.rejected, note=self.note),
            parent=self.parent,
            on_orphaned=self.stop.set,
        )
        self.logbook("info", "loader started")  # and so the supervisor knows that it could begin
        beating = asyncio.create_task(pulse.run())
        try:
            yield
        finally:
            await cancel_all([beating])
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await pulse.end()
