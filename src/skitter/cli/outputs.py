"""Items into databases and files: load, export."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import uvloop

from skitter.cli.common import (
    Directory,
    Job,
    Json,
    Redis,
    settings,
)
from skitter.cli.loader import LoaderProcess
from skitter.cli.parameters import Option
from skitter.cli.show.output import answer, print_error, print_progress, say
from skitter.crawl.course import write_output
from skitter.errors import SkitterError, UsageError
from skitter.observe.logs import open_log
from skitter.observe.report import Written, some
from skitter.redact import redact, shown
from skitter.settings import resolve
from skitter.sinks import Destination
from skitter.sinks.destination import store_of
from skitter.sinks.export import Target, export
from skitter.sinks.ledger import Receipts
from skitter.sinks.registry import COPY_FILES, OUT_FILES, place_of
from skitter.spider import load_transform

CsvSafe = Annotated[
    bool,
    Option(
        "--csv-safe/--no-csv-safe",
        help="In CSV, put ' in front of text that a spreadsheet would run as a formula.",
    ),
]


def load_items(
    job: Job,
    to: Annotated[
        str | None,
        Option(
            "--to",
            help=f"A file ({OUT_FILES}) or a DSN. Default: SKITTER_OUT, which `ps` does not show.",
            show_default=False,
        ),
    ] = None,
    transform: Annotated[
        str | None,
        Option(
            "--transform",
            metavar="SPIDER|MODULE:FUNCTION",
            help="Transforms to apply: those of a spider, or a single function.",
        ),
    ] = None,
    csv_safe: CsvSafe = True,
    redis: Redis = None,
    directory: Directory = None,
) -> None:
    """Move items from the server into a database or file, until stopped."""
    change = load_transform(transform, {}) if transform else None
    where, config = settings(redis, directory), resolve(job=job)
    if not (out := to or config.output.to):
        raise UsageError(
            f"where do the items of {job} go? Name a file ({OUT_FILES}) or a DSN with --to, or set "
            "SKITTER_OUT: `ps` shows arguments, and a DSN may hold a password."
        )
    destination = Destination(out, job, where.directory, csv_safe)
    destination.check()
    with open_log(config.log):
        written = uvloop.run(LoaderProcess(where, destination, change, print_progress).run())
    say(f"{job}: {some(written, 'row')} to {redact(out)}")


async def write_file(to: Destination) -> Written:
    """Write the file of a crawl from its store. If that fails, say what to do."""
    try:
        return await write_output(to)
    except SkitterError as error:
        print_error(
            f"{error} All items are in {to.store}: `skitter export {to.job} --to FILE` writes them."
        )
        return Written(to.store, exit_code=error.exit_code)


def export_items(
    job: Job,
    to: Annotated[
        str,
        Option("--to", help=f"A file ({COPY_FILES}), or - for JSON Lines on stdout."),
    ],
    source: Annotated[
        str | None,
        Option(
            "--from",
            help="The database to read. Default: JOB.db, or the store of a file that `run` wrote.",
        ),
    ] = None,
    csv_safe: CsvSafe = True,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Copy a job's rows from its database into a file."""
    store = store_of(job, settings(None, directory).directory)
    database = source or _find_database(job, store)
    if to == "-":
        _print_rows(database, job)
        return
    if "://" in to:
        raise UsageError(f"{redact(to)} is not a file: name one ({COPY_FILES}).")
    receipts = Receipts(store) if place_of(database) == str(store) else None
    target = Target(Path(to).resolve(), receipts, csv_safe)
    target.format()  # refuses a suffix before anything is read
    rows = uvloop.run(export(database, target, job=job))
    read = shown(database)  # perhaps not where the last crawl went
    sentence = f"{job}: {some(rows, 'row')} from {read} to {to}"
    answer({"job": job, "rows": rows, "from": read, "to": to}, sentence, as_json=as_json)


def _find_database(job: str, store: Path) -> str:
    """JOB.db, or the store of a crawl whose file is written at the end."""
    usual = Path(f"{job}.db")
    if store.exists() and usual.exists():
        raise UsageError(f"both {usual} and {store} have rows of {job}: name one with --from.")
    if not store.exists() and not usual.exists():
        raise UsageError(
            f"there is no database {usual}: name the one to read with --from, or move items that "
            f"wait on the server with `skitter load {job} --to FILE`."
        )
    return str(store if store.exists() else usual)


def _print_rows(database: str, job: str) -> None:
    with TemporaryDirectory() as directory:
        draft = Path(directory) / "rows.jsonl"
        uvloop.run(export(database, Target(draft), job=job))
        with draft.open("rb") as rows:
            shutil.copyfileobj(rows, sys.stdout.buffer)
