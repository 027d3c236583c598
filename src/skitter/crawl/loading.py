"""A job's loader: opens its output, stores items there, and keeps those that cannot be stored.

Below the command line and the engines: all of them load items with this.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from skitter.errors import ItemsElsewhere
from skitter.frontier.items import (
    ItemStream,
    RejectedItem,
    check_sink,
    claim_sink,
    find_sink,
    reject_items,
)
from skitter.frontier.transport.wire import cut
from skitter.observe.metrics import Recorder
from skitter.sinks import LoadHooks, LoadPace, LoadState, Retrier, Sink, Stopped, load
from skitter.sinks.registry import is_database, is_local

if TYPE_CHECKING:
    import asyncio

    from skitter.frontier.frontier import Frontier
    from skitter.model import Result
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
    to = replace(to, prunes=frontier.options.visits.revisit_prune)
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
    until_finished: bool = False  # ends with the crawl, not only when it is stopped

    async def run(self, open_sink: OpenSink) -> int:
        """Wait for a sink that is away; the note says so. Returns how many rows were written."""
        hooks = LoadHooks(
            transform=self.transform,
            on_rejected=self._reject,
            on_state=self._note,
            on_stored=self._count,
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
            source = ItemStream(self.frontier, self.name)
            return await load(source, sink, stop=self.stop, hooks=hooks, pace=self.pace)

    def _note(self, state: LoadState) -> None:
        self.note = "" if state.ok else state.message
        self.log("info" if state.ok else "warning", state.message)
        self.progress(state.message)

    def _count(self, stored: int, took_s: float) -> None:
        self.figures.count("stored", stored)
        self.figures.time("load", 1000 * took_s)

    async def _is_finished(self) -> bool:
        return (await self.frontier.stats()).finished

    async def _reject(self, result: Result, error: Exception) -> None:
        item = RejectedItem(url=result.url, field="", reason=cut(str(error)), item=result.item)
        await keep_rejected(self.frontier, self.log, item)
        self.rejected += 1
