"""Where the items of a job go, as named by the user."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from skitter.errors import SkitterError
from skitter.settings import check_job_name
from skitter.sinks.base import Clearable, Prunable, Watching, open_on_thread
from skitter.sinks.export import BATCH, Target, check_folder, export, export_types, write_feed
from skitter.sinks.files.ledger import Receipts
from skitter.sinks.registry import (
    find_type,
    folder_of,
    is_local,
    load,
    open_database,
    open_store,
    place_of,
)
from skitter.trust import check_known, make_ours

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable

    from skitter.model import Result
    from skitter.sinks.base import Sink
    from skitter.sinks.comparison import Noise


@asynccontextmanager
async def open_sink(
    dsn: str,
    *,
    job: str,
    table: str | None = None,
    prunes: bool = False,
    noise: Noise | None = None,
) -> AsyncIterator[Sink]:
    """A sink that takes rows as they come. `prunes`: a page's rows replace all those of earlier
    visits, if the sink is a database. `noise`: the changes that it does not note."""
    check_job_name(job)
    async with open_on_thread(partial(open_store, dsn, job=job, table=table)) as sink:
        if prunes and isinstance(sink.store, Prunable):
            sink.store.prunes = True
        if noise and isinstance(sink.store, Watching):
            sink.store.noise = noise
        yield sink


def store_of(job: str, directory: Path) -> Path:
    """The database in Skitter's directory for a job whose output file is written in one go."""
    store = directory.absolute() / "stores" / f"{check_job_name(job)}.db"
    if store.exists():
        check_known(directory)
    return store


def main_first(dsns: Iterable[str]) -> tuple[str, ...]:
    """Outputs in the order in which they may be the main one: databases, files that are written
    from one, and then those that cannot be read back."""
    return tuple(sorted(dict.fromkeys(dsns), key=_rank))


def _rank(dsn: str) -> int:
    kind = find_type(dsn)
    return 0 if kind.is_database else 2 if kind.live else 1


def remove_store(job: str, directory: Path) -> Path | None:
    """Remove it with its journal; None: there was none."""
    store = store_of(job, directory)
    if not store.exists():
        return None
    for end in ("-wal", "-shm", ""):  # the file itself last: killed before that, it goes next time
        store.with_name(store.name + end).unlink(missing_ok=True)
    return store


@dataclass(frozen=True, slots=True)
class Destination:
    """A sink, or a file that is written from a store at the end (ADR 16)."""

    dsn: str
    job: str
    directory: Path  # Skitter's
    csv_safe: bool = True
    prunes: bool = False  # when a page is visited again, its rows replace the earlier ones
    noise: Noise | None = None  # changes that are not noted

    @property
    def is_whole(self) -> bool:
        """Whether it is a file that cannot be appended to."""
        return not find_type(self.dsn).live

    @property
    def feed(self) -> Path | None:
        """The file of changes, if it is that."""
        name = self.dsn.removeprefix("changes:")
        return None if name == self.dsn else Path(name)

    @property
    def store(self) -> str:
        """What loaders write to."""
        return str(store_of(self.job, self.directory)) if self.is_whole else self.dsn

    @property
    def place(self) -> str:
        return place_of(self.store)

    @property
    def can_be_read(self) -> bool:
        """Whether its rows are in a database."""
        return _rank(self.dsn) < 2

    @property
    def every_s(self) -> float | None:
        """How often rows are added to it while a loader runs, if that is done at all."""
        folder = folder_of(self.dsn)
        return folder.every_s if folder else None

    @property
    def is_missing(self) -> bool:
        """Whether its rows are in a file that does not exist."""
        return is_local(self.store) and not Path(self.place).exists()

    @property
    def only_grows(self) -> bool:
        """Whether rows can be replaced there, but not removed."""
        return find_type(self.store).names[0] == ".jsonl"

    def check(self) -> None:
        """Raise BadSink, as far as can be known without opening it."""
        if self.feed:
            check_folder(self.feed)
        elif folder := folder_of(self.dsn):  # or MissingExtra
            folder.check()
        elif self.is_whole:
            load(find_type(self.dsn).whole)  # before the crawl: MissingExtra
            self._target.check()
            check_folder(self._target.path)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Sink]:
        self.check()
        if self.is_whole:
            make_ours(self.directory)
            Path(self.store).parent.mkdir(exist_ok=True)
        prunes, noise = self.prunes, self.noise
        async with open_sink(self.store, job=self.job, prunes=prunes, noise=noise) as sink:
            yield sink

    async def count(self) -> int | None:
        """How many rows of the job it has; None: unknown, as it is away or cannot say."""
        if self.is_missing:
            return 0
        kind = open_database if find_type(self.store).is_database else open_store
        with suppress(SkitterError):
            async with open_on_thread(partial(kind, self.store, job=self.job)) as sink:
                if isinstance(sink.store, Clearable):
                    return await sink.run(sink.store.count)
        return None

    async def read(self, *, with_files: bool = False) -> AsyncGenerator[list[Result]]:
        """All rows, as parts of their visits: those of an earlier one that are still there count,
        too. `with_files`: and what is known of downloaded files."""
        opening = partial(open_database, self.store, job=self.job)
        async with open_on_thread(opening) as source:
            rows = partial(source.store.read, batch=BATCH)
            for what in (rows, source.store.read_files)[: 1 + with_files]:
                pages = what()
                try:
                    while (page := await source.run(next, pages, None)) is not None:
                        yield [replace(result, is_part=True) for result in page.results]
                finally:
                    await source.run(pages.close)

    async def clear(self) -> int | None:
        """Remove the rows of the job, and return how many there were; None: that cannot be done
        there. A file that is written at the end stays until then."""
        if self.is_missing:
            return 0
        async with open_on_thread(partial(open_store, self.store, job=self.job)) as sink:
            if isinstance(sink.store, Clearable):
                return await sink.run(partial(sink.store.clear, drop=self.is_whole))
        return None

    async def finish(self) -> int | None:
        """Write the file and return its number of rows; None if rows were written as they came."""
        if not self.is_whole:
            return None
        if self.feed:
            return await write_feed(self.store, self.feed, job=self.job)
        if folder := folder_of(self.dsn):
            await folder.add(self.store, job=self.job)
            return await self.count()
        rows = await export(self.store, self._target, job=self.job)
        await export_types(self.store, self._target, job=self.job)
        return rows

    @property
    def _target(self) -> Target:
        return Target(Path(self.dsn).resolve(), Receipts(Path(self.store)), self.csv_safe)
