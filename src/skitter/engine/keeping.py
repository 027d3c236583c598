"""Keeps the pages of a worker: before they are completed, and in the index afterwards."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from skitter.archive.index import UNNAMED, is_here, write_lines
from skitter.archive.playback import ROBOTS
from skitter.archive.record import Record
from skitter.errors import SkitterError
from skitter.frontier.records.archived import forget_written, unwritten
from skitter.frontier.records.metrics import record
from skitter.observe.metrics import Batch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skitter.archive.playback import PageCache
    from skitter.archive.store import Store
    from skitter.archive.writer import ArchiveWriter
    from skitter.engine.pulse import Figures
    from skitter.fetch.http.exchange import Leave
    from skitter.fetch.http.fetcher import Fetcher
    from skitter.frontier.frontier import Frontier
    from skitter.model import Request, Response

#: Bodies that are packed on the event loop, which takes some milliseconds. A thread would need the
#: interpreter for each record, and both would wait for each other longer than that.
ON_LOOP_BYTES: Final = 4 * 10**6


@dataclass(slots=True)
class Archived:
    """The archive of one worker, and the lines of pages completed since its last heartbeat."""

    writer: ArchiveWriter
    store: Store | None = None  # where finished files are copied to
    _copying: asyncio.Task[None] | None = None
    _away: str = ""  # why they cannot be
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # shards complete side by side
    _lines: dict[int, list[str]] = field(default_factory=dict)  # by shard
    _is_settled: bool = False

    @property
    def trouble(self) -> str:
        """Why no page is kept or copied now; empty: they are."""
        return self.writer.trouble or self._away

    async def keep(self, records: Sequence[Record], figures: Figures | None = None) -> list[str]:
        """The lines of responses that are on disk now; they travel with the completions."""
        async with self._turn:
            lines = await self._keep(records)
        if figures:
            figures.count("archived_bytes", self.writer.take_bytes())
            figures.count("unarchived", lines.count(""))
        return lines

    async def _keep(self, records: Sequence[Record]) -> list[str]:
        if sum([len(record.response.body) for record in records]) > ON_LOOP_BYTES:
            return await asyncio.to_thread(self.writer.write, records)
        lines = self.writer.add(records)
        is_kept = await asyncio.to_thread(self.writer.sync)
        return lines if is_kept else [""] * len(records)

    async def keep_now(self, request: Request, response: Response, fingerprint: str = "") -> None:
        """For a cache, which needs no completion."""
        at = time.time() - response.elapsed_s
        record = Record(request, response, at, self.writer.job, fingerprint or UNNAMED)
        if lines := [line for line in await self.keep([record]) if line]:
            with suppress(OSError):  # the disk is full: the writer says so
                await asyncio.to_thread(write_lines, self.writer.folder, lines)

    def add(self, shard: int, line: str) -> None:
        """A page was completed."""
        self._lines.setdefault(shard, []).append(line)

    async def send(self, frontier: Frontier) -> None:
        """What cannot be written now stays on the server, until the next time. The first time, it
        may be that of a killed worker."""
        lines, self._lines = self._lines, {}  # more may come meanwhile
        is_settled, self._is_settled = self._is_settled, False
        is_written = await _write(frontier, self.writer.folder, lines)
        if is_written:
            self._is_settled = is_settled or await settle(frontier, self.writer.folder)
        if self.store and (self._copying is None or self._copying.done()):
            self._copying = asyncio.create_task(self._copy(self.store))

    async def _copy(self, store: Store) -> None:
        """Beside the heartbeats: a file may take minutes."""
        before, self._away = self._away, await copy_out(store, self.writer.folder)
        if self._away and not before:
            self.writer.log("error", self._away)

    async def close(self) -> None:
        self.writer.close()
        if self._copying:
            await self._copying
        if self.store:
            await self._copy(self.store)


async def settle(frontier: Frontier, folder: Path) -> bool:
    """Write the lines of workers that could not, if their files are here. False: nor can we."""
    return await _write(frontier, folder, await _of_here(frontier, folder))


async def unlisted(frontier: Frontier, folder: Path) -> int:
    """Pages that are kept here, and in no index yet."""
    return sum(map(len, (await _of_here(frontier, folder)).values()))


async def _of_here(frontier: Frontier, folder: Path) -> dict[int, list[str]]:
    found = await unwritten(frontier)
    return {
        shard: [line for line in lines if is_here(folder, line)] for shard, lines in found.items()
    }


async def copy_out(store: Store, folder: Path) -> str:
    """Why finished files cannot be copied; empty: they were."""
    try:
        await asyncio.to_thread(store.push, folder)
    except (SkitterError, OSError) as error:
        return f"the archive in {folder} is not copied: {error}"
    return ""


async def _write(frontier: Frontier, folder: Path, by_shard: dict[int, list[str]]) -> bool:
    """Before the server forgets them, they are on disk. False: some cannot be written. A page
    counts as kept here: somebody writes the lines of a worker that was killed, not its figures."""
    is_written, count = True, 0
    for shard, lines in by_shard.items():
        try:
            await asyncio.to_thread(write_lines, folder, lines)
        except OSError:
            is_written = False
        else:
            count += await forget_written(frontier, shard, lines)
    if count:
        await record(frontier, Batch(Counter(archived=count)))
    return is_written


@dataclass(frozen=True, slots=True)
class CachedRobots:
    """Asks a cache for robots.txt, then the site; keeps its answer."""

    fetcher: Fetcher
    pages: PageCache
    archived: Archived

    async def fetch(
        self, request: Request, *, leave: Leave | None = None, proxy: str | None = None
    ) -> Response:
        if kept := self.pages.find(request):
            return kept
        response = await self.fetcher.fetch(request, leave=leave, proxy=proxy)
        if response.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            await self.archived.keep_now(replace(request, handler=ROBOTS), response)
        return response
