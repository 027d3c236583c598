"""What a loader's process does beside loading: heartbeats and the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from skitter.frontier.admin.workers import Vitals
from skitter.loading import Loader
from skitter.logs import ClusterLog
from skitter.worker.pulse import Pulse, cancel_all

LAST_WORDS_S = 3.0  # the server may be away


@asynccontextmanager
async def on_duty(
    loader: Loader, logbook: ClusterLog, *, parent: int | None
) -> AsyncIterator[None]:
    """Heartbeats while this lasts. Without its parent the loader stops."""
    pulse = Pulse(
        frontier=loader.frontier,
        name=loader.name,
        kind="loader",
        logbook=logbook,
        vitals=lambda: Vitals(errors=loader.rejected, note=loader.note),
        parent=parent,
        on_orphaned=loader.stop.set,
    )
    logbook("info", "loader started")  # and so the supervisor knows that it could begin
    beating = asyncio.create_task(pulse.run())
    try:
        with logbook.attached():
            yield
    finally:
        await cancel_all([beating])
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_WORDS_S):
            await pulse.end()
