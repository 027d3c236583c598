"""Items into databases and files: load, export."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
import uvloop

from skitter.app import open_server
from skitter.cli.common import (
    Directory,
    Job,
    Json,
    Parent,
    Redis,
    received_config,
    settings,
    told_by,
)
from skitter.cli.output import answer, complain, say, tell
from skitter.engine.pulse import Pulse, cancel_all
from skitter.errors import SkitterError, UsageError
from skitter.frontier.admin.jobs import open_job
from skitter.frontier.admin.workers import Vitals
from skitter.frontier.client import client_name
from skitter.loading import Loader, open_destination
from skitter.logs import ClusterLog, open_log
from skitter.redact import redact
from skitter.report import Written, some
from skitter.settings import resolve
from skitter.sinks import Destination, Loaded
from skitter.sinks.destination import store_of
from skitter.sinks.export import Target, export
from skitter.sinks.receipts import Receipts
from skitter.sinks.registry import COPY_FILES, OUT_FILES, place_of
from skitter.spider import load_transform

#: Where a loader that `run` started puts items. A DSN may hold a password: no argument, as `ps`
#: shows those to everybody.
LOAD_TO = "SKITTER_LOAD_TO"
LAST_WORDS_S = 3.0  # the server may be away


CsvSafe = Annotated[
    bool,
    typer.Option(
        "--csv-safe/--no-csv-safe",
        help="In CSV, put ' in front of text that a spreadsheet would run as a formula.",
    ),
]


def load_items(
    job: Job,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            envvar=LOAD_TO,
            show_envvar=False,
            help=f"A file ({OUT_FILES}) or a DSN.",
        ),
    ],
    transform: Annotated[
        str | None,
        typer.Option(
            "--transform",
            metavar="SPIDER|MODULE:FUNCTION",
            help="Transforms to apply: those of a spider, or a single function.",
        ),
    ] = None,
    csv_safe: CsvSafe = True,
    parent: Parent = None,
    redis: Redis = None,
    directory: Directory = None,
) -> None:
    """Move items from the server into a database or file, until stopped."""
    received = received_config()
    change = load_transform(transform, received.arguments) if transform else None
    where = settings(redis, directory)
    destination = Destination(to, job, where.directory, csv_safe)

    async def main() -> Loaded:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with open_server(where, progress=tell) as server:
            frontier, logbook = await open_job(server, job), ClusterLog("skitter.loader")
            loader = Loader(frontier, client_name(), logbook, stop, change)
            if parent is None:
                loader.tell = tell
            async with _beating(loader, logbook, parent=parent):
                loaded = await loader.run(partial(open_destination, frontier, destination))
        if parent is None:  # else it is the parent that writes the file, when all is stored
            await destination.finish()
        return loaded

    with open_log(received.log if parent else resolve(job=job).log), told_by(parent):
        loaded = uvloop.run(main())
    if parent is None:
        say(f"{job}: {some(loaded.written, 'row')} to {redact(to)}")


@asynccontextmanager
async def _beating(
    loader: Loader, logbook: ClusterLog, *, parent: int | None
) -> AsyncIterator[None]:
    """Heartbeats and a log while this lasts. Without its parent the loader stops."""
    pulse = Pulse(
        frontier=loader.frontier,
        name=loader.name,
        kind="loader",
        logbook=logbook,
        vitals=lambda: Vitals(errors=loader.rejected, note=loader.note),
        parent=parent,
        on_orphaned=loader.stop.set,
    )
    beating = asyncio.create_task(pulse.run())
    try:
        with logbook.attached():
            logbook("info", "loader started")  # and so the supervisor knows that it could begin
            yield
    finally:
        await cancel_all([beating])
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_WORDS_S):
            await pulse.end()


async def write_file(to: Destination) -> Written:
    """The file of a crawl whose rows are in a store. If that fails: say what to do."""
    try:
        return Written(redact(to.dsn), await to.finish())
    except SkitterError as error:
        complain(
            f"{error} All items are in {to.store}: `skitter export {to.job} --to FILE` writes them."
        )
        return Written(to.store, exit_code=error.exit_code)


def export_items(
    job: Job,
    to: Annotated[
        Path,
        typer.Option("--to", help=f"A file ({COPY_FILES}), or - for JSON Lines on stdout."),
    ],
    source: Annotated[
        str | None,
        typer.Option("--from", help="The database to read. Default: the job's own."),
    ] = None,
    csv_safe: CsvSafe = True,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Copy a job's rows from its database into a file."""
    store = store_of(job, settings(None, directory).directory)
    database = source or _find_database(job, store)
    if str(to) == "-":
        _print_rows(database, job)
        return
    receipts = Receipts(store) if place_of(database) == str(store) else None
    target = Target(to.resolve(), receipts, csv_safe)
    rows = uvloop.run(export(database, target, job=job))
    sentence = f"{job}: {some(rows, 'row')} to {to}"
    answer({"job": job, "rows": rows, "to": str(to)}, sentence, as_json=as_json)


def _find_database(job: str, store: Path) -> str:
    """JOB.db, or the store of a crawl into a file that is written whole."""
    usual = Path(f"{job}.db")
    if store.exists() and usual.exists():
        raise UsageError(f"both {usual} and {store} have rows of {job}: name one with --from.")
    return str(store if store.exists() else usual)


def _print_rows(database: str, job: str) -> None:
    with TemporaryDirectory() as directory:
        draft = Path(directory) / "rows.jsonl"
        uvloop.run(export(database, Target(draft), job=job))
        with draft.open("rb") as rows:
            shutil.copyfileobj(rows, sys.stdout.buffer)
