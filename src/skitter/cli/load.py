"""Items into databases and files: load, export."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TypeAlias

import typer
import uvloop

from skitter.app import open_server
from skitter.cli.common import Directory, Job, Json, Parent, Redis, settings, told_by
from skitter.cli.duty import LoaderDuty
from skitter.cli.output import emit_json, say, tell
from skitter.frontier.admin.items import ItemStream
from skitter.frontier.admin.jobs import open_job
from skitter.frontier.admin.sink import check_sink, claim_sink, find_sink
from skitter.frontier.client import client_name
from skitter.frontier.frontier import Frontier
from skitter.redact import redact
from skitter.settings import check_job_name
from skitter.sinks import Hooks, Loaded, Patience, Sink, Stopped, load, open_sink
from skitter.sinks.dsn import is_local, place_of
from skitter.sinks.export import export
from skitter.spider import load_transform

Place: TypeAlias = Callable[[], AbstractAsyncContextManager[Sink]]
#: Where a loader that `run` started puts items. A DSN may hold a password: no argument, as `ps`
#: shows those to everybody.
LOAD_TO = "SKITTER_LOAD_TO"


CsvSafe = Annotated[
    bool,
    typer.Option(
        "--csv-safe/--no-csv-safe",
        help="In CSV, put ' in front of text that a spreadsheet would run as a formula.",
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command("load", rich_help_panel="Crawl")(load_items)
    app.command("export", rich_help_panel="Crawl")(export_items)


def load_items(
    job: Job,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            envvar=LOAD_TO,
            show_envvar=False,
            help="A .db, .jsonl, .csv or .parquet file, or a DSN.",
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
    change = load_transform(transform) if transform else None

    async def main() -> Loaded:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with open_server(settings(redis, directory), progress=tell) as server:
            frontier = await open_job(server, job)
            duty = LoaderDuty(frontier, client_name(), stop, parent)
            hooks = Hooks(transform=change, on_state=duty.tell, on_rejected=duty.set_aside)
            async with duty.at_work():
                source = ItemStream(frontier, duty.name)
                place = partial(open_place, frontier, to, csv_safe=csv_safe)
                return await _load(source, place, stop=stop, hooks=hooks)

    with told_by(parent):
        loaded = uvloop.run(main())
    if parent is None:
        say(f"{job}: {loaded.written:,} rows to {redact(to)}")


@asynccontextmanager
async def open_place(frontier: Frontier, to: str, *, csv_safe: bool = True) -> AsyncIterator[Sink]:
    """The sink, which from now on has all items of the job. Or ItemsElsewhere."""
    place, before = place_of(to), await find_sink(frontier)
    moved_from = before if is_local(to) and _has_moved(Path(before), Path(place)) else ""
    await check_sink(frontier, place, moved_from=moved_from)  # before a file is made for nothing
    async with open_sink(to, job=frontier.job, csv_safe=csv_safe) as sink:
        await claim_sink(frontier, place, moved_from=moved_from)
        yield sink


def _has_moved(before: Path, now: Path) -> bool:
    """A folder that was moved, with the file in it."""
    return before.name == now.name and now.exists() and not before.exists()


async def _load(source: ItemStream, place: Place, *, stop: asyncio.Event, hooks: Hooks) -> Loaded:
    """A place that is away is waited for, now and later; the heartbeat says so."""
    insist = Patience(stop, on_state=hooks.on_state)
    async with AsyncExitStack() as stack:

        async def open_it() -> Sink:
            return await stack.enter_async_context(place())

        try:
            sink = await insist(open_it)
        except Stopped:
            return Loaded()
        return await load(source, sink, stop=stop, hooks=hooks)


def export_items(
    job: Job,
    to: Annotated[
        Path,
        typer.Option(
            "--to", help="A .jsonl, .csv or .parquet file, or - for JSON Lines on stdout."
        ),
    ],
    source: Annotated[
        str | None, typer.Option("--from", help="The database to read. Default: JOB.db.")
    ] = None,
    csv_safe: CsvSafe = True,
    as_json: Json = False,
) -> None:
    """Copy a job's rows from its database into a file."""
    check_job_name(job)
    if str(to) == "-":
        _print_rows(source or f"{job}.db", job)
        return
    rows = uvloop.run(export(source or f"{job}.db", job=job, to=to, csv_safe=csv_safe))
    if as_json:
        emit_json({"job": job, "rows": rows, "to": str(to)})
    else:
        say(f"{job}: {rows:,} rows to {to}")


def _print_rows(source: str, job: str) -> None:
    with TemporaryDirectory() as directory:
        draft = Path(directory) / "rows.jsonl"
        uvloop.run(export(source, job=job, to=draft))
        with draft.open("rb") as rows:
            shutil.copyfileobj(rows, sys.stdout.buffer)
