"""Items into databases and files: load, export."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import uvloop

from skitter.app import open_server
from skitter.cli.common import SERVER, Directory, Job, Json, Where, seconds_of
from skitter.cli.flags import LOGGING, Given, with_flags
from skitter.cli.parameters import Option
from skitter.cli.show.output import (
    ABOUT,
    LINES,
    answer,
    emit_line,
    print_error,
    print_progress,
    say,
)
from skitter.crawl.job_loader import LoaderProcess
from skitter.crawl.lifecycle import write_output
from skitter.errors import SkitterError, UsageError
from skitter.frontier.jobs import open_job
from skitter.frontier.records.outputs import find_sink
from skitter.observe.logs import open_log
from skitter.observe.report import Written, some
from skitter.redact import redact, shown
from skitter.settings import find_server, resolve
from skitter.sinks import Destination, main_first
from skitter.sinks.columns import json_text, text_of
from skitter.sinks.comparison import is_text, unified
from skitter.sinks.destination import store_of
from skitter.sinks.export import Target, export, read_feed
from skitter.sinks.files.ledger import Receipts
from skitter.sinks.registry import (
    COPY_FILES,
    OUT_FILES,
    folder_of,
    is_database,
    place_of,
)
from skitter.sinks.selection import Condition, Selection
from skitter.spider import load_transform

if TYPE_CHECKING:
    from skitter.settings import Settings
    from skitter.sinks.comparison import Change

PAGE = 1000  # entries read at once
FOLLOW_S = 1.0

CsvSafe = Annotated[
    bool,
    Option(
        "--csv-safe/--no-csv-safe",
        help="In CSV, put ' in front of text that a spreadsheet would run as a formula.",
    ),
]


@with_flags(LOGGING)
def load_items(
    job: Job,
    to: Annotated[
        list[str] | None,
        Option(
            "--to",
            help=f"A file ({OUT_FILES}) or a DSN; may be repeated. Default: SKITTER_OUT, which "
            "`ps` does not show.",
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
    where: Where = SERVER,
    *,
    given: Given,
) -> None:
    """Move items from the server into a database or file, until stopped."""
    change = load_transform(transform, {}) if transform else None
    where, config = where, resolve(given, job=job)
    LINES.set(config.log.format)
    ABOUT.set(job)
    if not (named := main_first(to or config.output.to)):
        raise UsageError(
            f"where do the items of {job} go? Name a file ({OUT_FILES}) or a DSN with --to, or set "
            "SKITTER_OUT: `ps` shows arguments, and a DSN may hold a password."
        )
    outs = [Destination(dsn, job, where.directory, csv_safe) for dsn in named]
    for out in outs:
        out.check()
    with open_log(config.log, job=job):
        written = uvloop.run(LoaderProcess(where, outs, change, print_progress).run())
    for out in outs:
        say(f"{job}: {some(written[out.place], 'row')} to {redact(out.dsn)}")


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
    columns: Annotated[
        str, Option("--columns", metavar="A,B", help="Only these fields, in this order.")
    ] = "",
    where: Annotated[
        list[str] | None,
        Option(
            "--where",
            metavar="FIELD=VALUE",
            help="Only rows with this value; also !=, <, <=, >, >=.",
        ),
    ] = None,
    changed_since: Annotated[
        str | None,
        Option(
            "--changed-since", metavar="TIME", help="Only rows stored in the last 6h, 1d or 2w."
        ),
    ] = None,
    csv_safe: CsvSafe = True,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Copy a job's rows from its database into a file."""
    server = find_server(None, directory)
    store = store_of(job, server.directory)
    database = source or _find_database(job, store, server)
    selection = Selection(
        columns=tuple(name.strip() for name in columns.split(",") if name.strip()),
        where=tuple(Condition.of(one) for one in where or ()),
        changed_since=time.time() - seconds_of("--changed-since", changed_since)
        if changed_since
        else 0.0,
    )
    if to == "-":
        _print_rows(database, job, selection)
        return
    if to.endswith("/") or "://" in to:
        rows, added = _add_to_folder(to, database, job, selection), " added"
    else:
        receipts = Receipts(store) if place_of(database) == str(store) else None
        target = Target(Path(to).resolve(), receipts, csv_safe)
        target.format()  # refuses a suffix before anything is read
        rows = uvloop.run(export(database, target, job=job, selection=selection))
        added = ""
    read = shown(database)  # perhaps not where the last crawl went
    sentence = f"{job}: {some(rows, 'row')} from {read}{added} to {redact(to)}"
    answer({"job": job, "rows": rows, "from": read, "to": redact(to)}, sentence, as_json=as_json)


def _add_to_folder(to: str, database: str, job: str, selection: Selection) -> int:
    """The number of rows that were added."""
    if (folder := folder_of(to)) is None:
        raise UsageError(f"{redact(to)} is not a file: name one ({COPY_FILES}).")
    if selection != Selection():
        raise UsageError(
            "a folder gets all rows, with all columns: name a file to export some of them."
        )
    return uvloop.run(folder.add(database, job=job))


def changes(
    job: Job,
    since: Annotated[
        str | None,
        Option(
            "--since",
            metavar="TIME",
            help="Only changes of the last 6h, 1d or 2w.",
            show_default=False,
        ),
    ] = None,
    after: Annotated[
        int, Option("--after", help="Only those after this number, which --json shows as seq.")
    ] = 0,
    source: Annotated[
        str | None,
        Option("--from", help="The database to read. Default: as for `export`."),
    ] = None,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Go on showing changes as they are noted.")
    ] = False,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Show what later visits found: fields that changed, new and gone pages.

    With --follow also those that are noted from now on, until Ctrl-C.
    """
    server = find_server(None, directory)
    database = source or _database_of(job, store_of(job, server.directory), server)
    begin = time.time() - seconds_of("--since", since) if since else 0.0
    earliest = text_of(datetime.fromtimestamp(begin, UTC))
    show, is_empty = emit_line if as_json else _show_change, True
    read = partial(read_feed, database, job=job, since=earliest, limit=PAGE)
    while (found := uvloop.run(read(after=after))) or follow:
        for change in found:
            show(change)
            after, is_empty = change.seq, False
        if not found:
            sys.stdout.flush()
            time.sleep(FOLLOW_S)
    if is_empty and not as_json:
        say(f"{job}: no changes{f' in the last {since}' if since else ''}.")


def _show_change(change: Change) -> None:
    at = change.at[:16].replace("T", " ")
    which = f" #{change.key}" if change.key not in ("", "0") else ""
    say(f"{at}  {change.kind:<7}  {change.url}{which}")
    if change.field and is_text(change):
        say(f"    {change.field}:")
        for line in unified(change.old, change.new):
            say(f"    {line}")
    elif change.field:
        say(f"    {change.field}: {_value(change.old)} -> {_value(change.new)}")


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    return value if isinstance(value, str) else json_text(value)


def _database_of(job: str, store: Path, server: Settings) -> str:
    """Where the job's output is, as configured for `run`; else as `export` finds it."""
    named = resolve(job=job).output.to
    return next(filter(is_database, named), "") or _find_database(job, store, server)


def _find_database(job: str, store: Path, server: Settings) -> str:
    """JOB.db, or the store of a file that is written at the end; of both, the main output."""
    usual = Path(f"{job}.db")
    if store.exists() and usual.exists():
        main = uvloop.run(_main_place(job, server))
        if main not in (found := {place_of(str(path)): str(path) for path in (usual, store)}):
            raise UsageError(f"both {usual} and {store} have rows of {job}: name one with --from.")
        return found[main]
    if not store.exists() and not usual.exists():
        if (lines := usual.with_suffix(".jsonl")).exists():  # the default of `crawl`
            raise UsageError(
                f"the rows of {job} are in {lines}, and `export` reads databases: a crawl with "
                f"`--out {usual}` writes one."
            )
        raise UsageError(
            f"there is no database {usual}: name the one to read with --from, or move items that "
            f"wait on the server with `skitter load {job} --to FILE`."
        )
    return str(store if store.exists() else usual)


async def _main_place(job: str, settings: Settings) -> str:
    """Where the main output is, as the job's server knows it. Empty: it does not, or is away."""
    with suppress(SkitterError):
        async with open_server(settings) as server:
            return await find_sink(await open_job(server, job))
    return ""


def _print_rows(database: str, job: str, selection: Selection) -> None:
    with TemporaryDirectory() as directory:
        draft = Path(directory) / "rows.jsonl"
        uvloop.run(export(database, Target(draft), job=job, selection=selection))
        with draft.open("rb") as rows:
            shutil.copyfileobj(rows, sys.stdout.buffer)
