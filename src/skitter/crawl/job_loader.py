"""Loaders: each stores the items of a job in one output, and keeps those that cannot be stored.

Below the command line and the engines: all of them load items with this. `load` is the process, and
`run` starts it as a child.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from skitter.app import open_server
from skitter.crawl.outputs import main_of, naming_the_export, open_destination, open_further
from skitter.engine.pulse import Figures, Pulse, cancel_all
from skitter.errors import OutputDropped, SkitterError
from skitter.frontier.items import TAKE_OVER_S, RejectedItem, reject_items, set_count
from skitter.frontier.jobs import open_job
from skitter.frontier.records.outputs import add_output, claim_sink, find_sink, further, stream_of
from skitter.frontier.transport.endpoints import client_name
from skitter.frontier.transport.messages import cut
from skitter.frontier.workers import Vitals
from skitter.observe.logs import ClusterLog
from skitter.observe.metrics import Recorder
from skitter.observe.report import duration, some
from skitter.redact import redact, shown
from skitter.sinks import LoadHooks, LoadPace, LoadState, Retrier, Sink, Stopped, load
from skitter.sinks.base import ThreadedSink, Watching

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skitter.crawl.outputs import OpenSink, Say
    from skitter.frontier.frontier import Frontier
    from skitter.model import Result
    from skitter.settings import Settings
    from skitter.sinks import Destination
    from skitter.sinks.loader import Transform

Log: TypeAlias = Callable[[str, str], None]


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
    place: str = ""  # of a further output; empty: the main one

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
            source = stream_of(self.frontier, self.name, self.take_over_s, place=self.place)
            hooks = replace(hooks, on_stored=partial(self._count, sink))
            return await load(source, sink, stop=self.stop, hooks=hooks, pace=self.pace)

    def _note(self, state: LoadState) -> None:
        self.note = "" if state.ok else state.message
        self.log("info" if state.ok else "warning", state.message)
        self.progress(state.message)

    async def _count(self, sink: Sink, stored: int, took_s: float) -> None:
        if not self.place:  # the others store the same items once more
            self.figures.count("stored", stored)
        self.figures.time("load", 1000 * took_s)
        await self._tell_changes(sink)

    async def _tell_changes(self, sink: Sink) -> None:
        """The server knows how many changes the main output has: for `status` and webhooks."""
        if self.place or not isinstance(sink, ThreadedSink):
            return
        store = sink.store
        if not isinstance(store, Watching) or store.changes == self.told:
            return
        with suppress(SkitterError):  # next time, then
            more = store.changes - (await self.frontier.stats()).changes
            while self.told != store.changes:  # another loader may have told more since we looked
                await set_count(self.frontier, "changes", now := store.changes)
                self.told = now
                await sink.run(store.count_changes)
            if more > 0:
                self.log("info", f"{some(more, 'change')}: `skitter changes {self.frontier.job}`")

    async def _is_finished(self) -> bool:
        return (await self.frontier.stats()).finished

    async def _reject(self, result: Result, error: Exception) -> None:
        reason = f"{error} (by {shown(self.place)})" if self.place else str(error)
        item = RejectedItem(url=result.url, field="", reason=cut(reason), item=result.item)
        await keep_rejected(self.frontier, self.log, item)
        self.rejected += 1


async def add_parts(to: Destination, every_s: float, log: Log) -> None:
    """Again and again, until cancelled: a part that was begun is completed by the next one."""
    while True:
        await asyncio.sleep(every_s)
        try:
            if not to.is_missing:
                await to.finish()
        except SkitterError as error:
            log("warning", f"{error} It is tried again in {duration(every_s)}.")


LAST_WORDS_S = 3.0  # the server may be down


async def loaders_of(
    frontier: Frontier, outs: Sequence[Destination], make: Callable[[], Loader]
) -> dict[str, tuple[Loader, OpenSink]]:
    """By place, a loader, and how it opens it: files of one store have one."""
    main, others = main_of(outs, await find_sink(frontier)), await further(frontier)
    found: dict[str, tuple[Loader, OpenSink]] = {}
    for out in outs:
        loader = make()
        opening: OpenSink = partial(open_destination, frontier, out)
        if out.place in others:
            loader.place = out.place
            opening = partial(open_further, frontier, out, main, loader.stop)
        found.setdefault(out.place, (loader, opening))
    return found


async def load_all(loaders: Mapping[str, tuple[Loader, OpenSink]]) -> dict[str, int]:
    """Each at its own pace. The first error that retrying will not cure ends them all. Returns how
    many rows each has written."""
    tasks = {place: asyncio.create_task(_load(*one)) for place, one in loaders.items()}
    try:
        await asyncio.gather(*tasks.values())
        return {place: task.result() for place, task in tasks.items()}
    finally:
        for loader, _ in loaders.values():
            loader.stop.set()
        await asyncio.wait(tasks.values())


async def _load(loader: Loader, opening: OpenSink) -> int:
    try:
        return await loader.run(opening)
    except OutputDropped as dropped:  # the others go on
        loader.log("warning", str(dropped))
        return 0


@dataclass(frozen=True, slots=True)
class LoaderProcess:
    """Loads until a signal stops it, its parent dies or, if asked, the crawl is finished."""

    where: Settings
    outs: Sequence[Destination]
    transform: Transform | None
    progress: Say
    parent: int | None = None  # writes the files when all is stored
    until_finished: bool = False

    async def run(self) -> dict[str, int]:
        """Returns how many rows were written to each place."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with open_server(self.where, progress=self.progress) as server:
            frontier = await open_job(server, self.outs[0].job)
            logbook, figures = ClusterLog("skitter.loader"), Figures()
            if self.parent is None:
                await self._name(frontier)
            make = partial(Loader, frontier, client_name(), logbook, stop, self.transform)
            make = partial(make, figures=figures, until_finished=self.until_finished)
            if self.parent is None:
                make = partial(make, progress=self.progress)
            loaders = await loaders_of(frontier, self.outs, make)
            async with self._beating([loader for loader, _ in loaders.values()], logbook, figures):
                parts = [
                    asyncio.create_task(add_parts(out, every_s, logbook))
                    for out in self.outs
                    if (every_s := out.every_s)
                ]
                try:
                    written = await load_all(loaders)
                finally:
                    await cancel_all(parts)
        if self.parent is None:
            for to in self.outs:
                await to.finish()
        return written

    async def _name(self, frontier: Frontier) -> None:
        """Those of a job that has none yet; or further ones, beside the main one."""
        held, to = await find_sink(frontier), [redact(out.dsn) for out in self.outs]
        known = {held, *await further(frontier)}
        if len(self.outs) > 1 and any(out.place not in known for out in self.outs):
            main = main_of(self.outs, held) or self.outs[0]
            with naming_the_export():
                await claim_sink(frontier, main.place)
            for out in self.outs:
                if out.place != main.place:
                    await add_output(frontier, out.place, can_fill=main.can_be_read)
        self.progress(
            f"Loading the items of {frontier.job} into {' and '.join(to)}; Ctrl-C stops it."
        )

    @asynccontextmanager
    async def _beating(
        self, loaders: Sequence[Loader], logbook: ClusterLog, figures: Figures
    ) -> AsyncIterator[None]:
        """Send heartbeats and the log. The loaders stop if their parent dies."""

        def vitals() -> Vitals:
            notes = filter(None, (loader.note for loader in loaders))
            return Vitals(errors=sum(loader.rejected for loader in loaders), note="; ".join(notes))

        first = loaders[0]
        pulse = Pulse(
            frontier=first.frontier,
            name=first.name,
            kind="loader",
            logbook=logbook,
            vitals=vitals,
            parent=self.parent,
            on_orphaned=first.stop.set,
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
