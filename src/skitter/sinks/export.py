"""Copy the rows of a database into a file: `skitter export JOB --to FILE`."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from skitter.sinks.base import BadSink
from skitter.sinks.dsn import databases, open_sink
from skitter.sinks.ledger import state_path, sync_directory
from skitter.sinks.thread import open_on_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractAsyncContextManager

    from skitter.model import Result
    from skitter.sinks.base import Sink
    from skitter.sinks.sql import SqlTable
    from skitter.sinks.thread import ThreadedSink

_BATCH = 5000


async def export(
    dsn: str,
    *,
    job: str,
    to: Path,
    table: str | None = None,
    csv_safe: bool = True,
    on_progress: Callable[[int], None] = lambda rows: None,
) -> int:
    """Write the job's rows to a new file, which takes the place of an older one at once.

    The rows are those of the moment when it begins. Answers how many there were. `csv_safe`: text
    that a spreadsheet would take for a formula begins with an apostrophe.
    """
    dialect = databases().find_dialect(dsn)
    if dialect is None:
        raise BadSink("only a database can be exported; a file of items can be copied as it is.")
    _check_target(to)
    table_of = partial(databases().table_of, dialect, job=job, table=table)
    with _draft_for(to) as draft:
        async with open_on_thread(table_of) as source:
            new_file = open_sink(str(draft), job=job, csv_safe=csv_safe)
            rows = await _copy(source, new_file, on_progress)
        _publish(draft, to)
    return rows


@contextmanager
def _draft_for(to: Path) -> Iterator[Path]:
    """A name beside the target, so that the last step is a rename within one file system."""
    try:
        with tempfile.TemporaryDirectory(prefix=".skitter-export-", dir=to.parent) as directory:
            yield Path(directory) / to.name
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BadSink(f"cannot write {to}: {reason}. Export to another place.") from error


async def _copy(
    source: ThreadedSink[SqlTable],
    new_file: AbstractAsyncContextManager[Sink],
    on_progress: Callable[[int], None],
) -> int:
    rows = 0
    batches = source.store.read(batch=_BATCH)
    try:
        async with new_file as sink:
            while batch := await source.run(_next, batches):
                await sink.write(batch)
                rows += len(batch)
                on_progress(rows)
    finally:
        await source.run(batches.close)
    return rows


def _next(batches: Generator[list[Result]]) -> list[Result]:
    return next(batches, [])


def _check_target(to: Path) -> None:
    if databases().find_dialect(str(to)) is not None:
        raise BadSink(f"{to} is a database: name a .jsonl, .csv or .parquet file.")
    if to.suffix.lower() not in (".jsonl", ".csv", ".parquet"):
        raise BadSink(f"cannot write {to}: name a .jsonl, .csv or .parquet file.")
    if not to.parent.is_dir():
        raise BadSink(f"there is no directory {to.parent}: create it first.")
    if state_path(to).exists():
        raise BadSink(f"a loader writes {to}: export to another name.")
    if to.is_dir():
        raise BadSink(f"{to} is a directory: move it away, or export to another name.")


def _publish(draft: Path, to: Path) -> None:
    if draft.is_dir():  # Parquet; closed, so there is one part
        part = next(draft.glob("part-*.parquet"), None)
        if part is None:
            raise BadSink("there are no rows yet, and a Parquet file needs some.")
        draft = part
    draft.touch()  # no rows, no file
    draft.replace(to)
    sync_directory(to.parent)
