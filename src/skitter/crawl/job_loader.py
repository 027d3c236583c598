"""A job's loader: stores items in its output, keeps what cannot be stored, and has a process.

Below the command line and the engines: all of them load items with this. `load` is the process, and
`run` starts it as a child.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from skitter.app import open_server
from skitter.engine.pulse import Figures, Pulse, cancel_all
from skitter.errors import ItemsElsewhere, SkitterError
from skitter.frontier.items import (
    TAKE_OVER_S,
    ItemStream,
    RejectedItem,
    check_sink,
    claim_sink,
    count,
    find_sink,
    reject_items,
)
from skitter.frontier.jobs import open_job
from skitter.frontier.transport.endpoints import client_name
from skitter.frontier.transport.messages import cut
from skitter.frontier.workers import Vitals
from skitter.observe.logs import ClusterLog
from skitter.observe.metrics import Recorder
from skitter.observe.report import some
from skitter.redact import redact
from skitter.sinks import LoadHooks, LoadPace, LoadState, Retrier, Sink, Stopped, load
from skitter.sinks.base import Watching
from skitter.sinks.comparison import Noise
from skitter.sinks.registry import is_database, is_local

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.model import Result
    from skitter.settings import Settings
    from skitter.sinks import Destination
    from skitter.sinks.loader import Transform

Log: TypeAlias = Callable[[str, str], None]
OpenSink: TypeAlias = Callable[[], AbstractAsyncContextManager[Sink]]


@asynccontextmanager
async def open_destination(frontier: Frontier, to: Destination) -> AsyncIterator[Sink]:
    """The sink, which becomes the only one for the job's items. Or ItemsElsewhere."""
    before = await find_sink(frontier)
    moved_from = before if is_local(to.store) and _has_moved(Path(before), Path(to.place)) else ""
    with _naming_the_export():
        await check_sink(frontier, to.place, moved_from=moved_from)  # before a file is created
    visits = frontier.options.visits
    noise = Noise(
        ignored=frozenset((visits.changes_ignore or "").split()), smallest=visits.changes_smallest
    )
    to = replace(to, prunes=visits.revisit_prune, noise=noise)
    async with to.open() as sink:
        with _naming_the_export():
            await claim_sink(frontier, to.place, moved_from=moved_from)
        yield sink


@contextmanager
def _naming_the_export() -> Iterator[None]:
    """The frontier does not know what a place is; we know whether it can be exported."""
    try:
        yield
    except ItemsElsewhere as error:
        job, place, stored = error.job, error.place, error.stored
        can_export = is_database(place)
        raise ItemsElsewhere(job, place, stored=stored, can_export=can_export) from error


def _has_moved(before: Path, now: Path) -> bool:
    """Whether a folder was moved with the file in it."""
    return before.name == now.name and now.exists() and not before.exists()


async def keep_rejected(frontier: Frontier, log: Log, *items: RejectedItem) -> None:
    """Keep items that can never be stored on the server, with the reason."""
    for item in items:
        await reject_items(frontier, item)
        log("warning", f"an item from {item.url} was rejected: {item.why}")


@dataclass(slots=True)
class Loader:
    """Loads the items of one job until it is stopped."""

    frontier: Frontier
    name: str
    log: Log
    stop: asyncio.Event
    transform: Transform | None = None
    pace: LoadPace = field(default_factory=LoadPace)
    progress: Callable[[str], None] = lambda _: None  # shows progress to the user
    rejected: int = 0
    note: str = ""  # why nothing is being stored
    figures: Recorder = field(default_factory=Recorder)
    take_over_s: float = TAKE_OVER_S
    told: int = 0  # changes that the server knows of
    until_finished: bool = False  # ends with the crawl, not only when it is stopped

    async def run(self, open_sink: OpenSink) -> int:
        """Wait for a sink that is away; the note says so. Returns how many rows were written."""
        hooks = LoadHooks(
            transform=self.transform,
            on_rejected=self._reject,
            on_state=self._note,
            is_over=self._is_finished if self.until_finished else None,
        )
        retry = Retrier(self.stop, self.pace, self._note)
        async with AsyncExitStack() as stack:

            async def enter() -> Sink:
                return await stack.enter_async_context(open_sink())

            try:
                sink = await retry(enter)
            except Stopped:
                return 0
            await self._tell_changes(sink)  # of a loader that was killed before it could
            source = ItemStream(self.frontier, self.name, self.take_over_s)
            hooks = replace(hooks, on_stored=partial(self._count, sink))
            return await load(source, sink, stop=self.stop, hooks=hooks, pace=self.pace)

    def _note(self, state: LoadState) -> None:
        self.note = "" if state.ok else state.message
        self.log("info" if state.ok else "warning", state.message)
        self.progress(state.message)

    async def _count(self, sink: Sink, stored: int, took_s: float) -> None:
        self.figures.count("stored", stored)
        self.figures.time("load", 1000 * took_s)
        await self._tell_changes(sink)

    async def _tell_changes(self, sink: Sink) -> None:
        """The server knows how many changes the output has: for `status`, webhooks and pages."""
        store = getattr(sink, "store", None)
        if not isinstance(store, Watching) or store.changes == self.told:
            return
        with suppress(SkitterError):  # next time, then
            more = store.changes - (await self.frontier.stats()).changes
            await count(self.frontier, changes=more)
            self.told = store.changes
            if more > 0:
                self.log("info", f"{some(more, 'change')}: `skitter changes {self.frontier.job}`")

    async def _is_finished(self) -> bool:
        return (await self.frontier.stats()).finished

    async def _reject(self, result: Result, error: Exception) -> None:
        item = RejectedItem(url=result.url, field="", reason=cut(str(error)), item=result.item)
        await keep_rejected(self.frontier, self.log, item)
        self.rejected += 1


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
