"""A loader in this process: `load` runs one, and `run` starts one as a child."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from skitter.app import open_server
from skitter.crawl.loading import Loader, open_destination
from skitter.engine.pulse import Figures, Pulse, cancel_all
from skitter.frontier.jobs import open_job
from skitter.frontier.transport.endpoints import client_name
from skitter.frontier.workers import Vitals
from skitter.observe.logs import ClusterLog
from skitter.redact import redact

if TYPE_CHECKING:
    from skitter.settings import Settings
    from skitter.sinks import Destination
    from skitter.sinks.loader import Transform

LAST_WORDS_S = 3.0  # the server may be down


@dataclass(frozen=True, slots=True)
class LoaderProcess:
    """Loads until a signal stops it, its parent dies or, if asked, the crawl is finished."""

    where: Settings
    destination: Destination
    transform: Transform | None
    progress: Callable[[str], None]
    parent: int | None = None  # writes the file when all is stored
    until_finished: bool = False

    async def run(self) -> int:
        """Returns how many rows were written."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with open_server(self.where, progress=self.progress) as server:
            frontier = await open_job(server, self.destination.job)
            logbook = ClusterLog("skitter.loader")
            figures = Figures()
            loader = Loader(frontier, client_name(), logbook, stop, self.transform, figures=figures)
            loader.until_finished = self.until_finished
            if self.parent is None:
                loader.progress = self.progress
                to = f"the items of {frontier.job} into {redact(self.destination.dsn)}"
                self.progress(f"Loading {to}; Ctrl-C stops it.")
            async with self._beating(loader, logbook, figures):
                written = await loader.run(partial(open_destination, frontier, self.destination))
        if self.parent is None:
            await self.destination.finish()
        return written

    @asynccontextmanager
    async def _beating(
        self, loader: Loader, logbook: ClusterLog, figures: Figures
    ) -> AsyncIterator[None]:
        """Send heartbeats and the log. The loader stops if its parent dies."""
        pulse = Pulse(
            frontier=loader.frontier,
            name=loader.name,
            kind="loader",
            logbook=logbook,
            vitals=lambda: Vitals(errors=loader.rejected, note=loader.note),
            parent=self.parent,
            on_orphaned=loader.stop.set,
            also=figures.send,
        )
        beating = asyncio.create_task(pulse.run())
        try:
            with logbook.attached():
                logbook("info", "loader started")  # shows the supervisor that it could begin
                yield
        finally:
            await cancel_all([beating])
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await pulse.end()
