"""The figures of this process, sent with its heartbeats."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skitter.frontier.metrics import record
from skitter.metrics.recorder import Recorder

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.metrics import Batch


@dataclass(slots=True)
class Figures(Recorder):
    """What this process measured since its last successful heartbeat."""

    _unsent: Batch | None = None
    _sending: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def send(self, frontier: Frontier) -> None:
        """What the server did not take is sent first the next time."""
        async with self._sending:
            if self._unsent is not None:
                await self._send(frontier, self._unsent)
            await self._send(frontier, self.take(frontier.client))

    async def _send(self, frontier: Frontier, batch: Batch) -> None:
        self._unsent = batch
        await record(frontier, batch)
        self._unsent = None
