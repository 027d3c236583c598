"""What a loader does beside loading: heartbeats, the log, what could not be stored."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from dataclasses import dataclass, field

from skitter.cli.output import tell
from skitter.errors import SkitterError
from skitter.frontier.crew import Heartbeat, beat, leave, log, server_time
from skitter.frontier.frontier import Frontier
from skitter.frontier.items import Aside, set_aside
from skitter.frontier.wire import cut
from skitter.model import Result
from skitter.sinks import LoadState
from skitter.worker.loop import is_orphan, memory_mb

BEAT_S = 2.0


@dataclass(slots=True)
class LoaderDuty:
    """Keeps everybody informed about one loader."""

    frontier: Frontier
    name: str
    stop: asyncio.Event
    parent: int | None
    rejected: int = 0
    _said: list[tuple[str, str]] = field(default_factory=list)

    def tell(self, state: LoadState) -> None:
        """The database went away, or came back."""
        self._said.append(("info" if state.ok else "warning", state.message))
        if self.parent is None:
            tell(state.message)

    async def set_aside(self, result: Result, error: Exception) -> None:
        """Keep an item that can never be stored, with the reason."""
        aside = Aside(url=result.url, field="", reason=cut(str(error)), item=result.item)
        await set_aside(self.frontier, aside)
        self.rejected += 1
        self._said.append(("warning", f"an item of {result.url} was set aside: {error}"))

    async def beat(self) -> None:
        """For ever; without its parent the loader stops."""
        started_at = await server_time(self.frontier)
        while True:
            with suppress(SkitterError):  # the server is away: the loader itself waits for it
                await self._beat_once(started_at)
            if is_orphan(self.parent):
                self.stop.set()
            await asyncio.sleep(BEAT_S)

    async def leave(self) -> None:
        await leave(self.frontier, self.name)

    async def _beat_once(self, started_at: float) -> None:
        while self._said:
            await log(self.frontier, self._said[0][0], self.name, self._said[0][1])
            self._said.pop(0)
        await beat(
            self.frontier,
            Heartbeat(
                name=self.name,
                host=socket.gethostname(),
                pid=os.getpid(),
                kind="loader",
                started_at=started_at,
                at=await server_time(self.frontier),
                errors=self.rejected,
                memory_mb=memory_mb(),
            ),
        )
