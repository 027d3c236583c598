"""Crawls in scripts and notebooks: `spider.run()`, and `items()` for what they stored."""

from __future__ import annotations

import asyncio
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.app import open_server
from skitter.crawl.job_loader import Loader, load_all, loaders_of
from skitter.crawl.lifecycle import begin, write_outputs
from skitter.crawl.plan import Plan
from skitter.engine.assembly import open_worker
from skitter.engine.parts import WorkerOptions
from skitter.errors import SkitterError, UsageError
from skitter.frontier.jobs import open_job
from skitter.frontier.records.outputs import find_sink
from skitter.frontier.transport.endpoints import client_name
from skitter.model import TYPE
from skitter.observe.report import report_of
from skitter.redact import redact
from skitter.settings import find_server, resolve
from skitter.settings.sources import check_given
from skitter.sinks import BadSink, Destination, main_first
from skitter.sinks.registry import find_type, is_database, open_database
from skitter.sinks.rows import row_of
from skitter.spider.hooks import run_hooks
from skitter.spider.transform import chain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skitter.crawl.lifecycle import Crawl
    from skitter.engine.loop import Worker
    from skitter.observe.report import Report
    from skitter.settings import Settings
    from skitter.spider.spider import Spider


BATCH = 500


class Items(list[dict[str, Any]]):
    """Rows: the fields of an item, and `_id`, `_url` and `_fetched_at`."""

    def of(self, kind: str) -> Items:
        """Those of one type, by its name: rows of `class Book` are `book`. With its own fields."""
        rows = [row for row in self if row.get(TYPE) == kind]
        filled = {name for row in rows for name, value in row.items() if value is not None} - {TYPE}
        return Items({name: v for name, v in row.items() if name in filled} for row in rows)

    def df(self) -> Any:
        """A DataFrame of pandas, or else of polars."""
        # polars takes the columns of the first rows, unless told to read them all.
        for library, options in (("pandas", {}), ("polars", {"infer_schema_length": None})):
            try:
                return import_module(library).DataFrame(list(self), **options)
            except ImportError:
                continue
        raise UsageError("df() needs pandas or polars: pip install pandas")


def items(job: str, out: str | None = None, *, redis: str | None = None) -> Items:
    """All rows that a job has stored. `out`: its output, as given to `run`; by default, as the
    server `redis` or the embedded one knows it."""
    where = find_server(redis)
    if out is not None:
        return read_items(Destination(out, job, where.directory))
    with ThreadPoolExecutor(1) as thread:  # a notebook's own thread has a loop that runs
        place = thread.submit(asyncio.run, _find(job, where)).result()
    return read_items(Destination(place, job, where.directory))


async def _find(job: str, where: Settings) -> str:
    async with open_server(where) as server:
        place = await find_sink(await open_job(server, job))
    if not place:
        raise BadSink(f"{job} has stored nothing yet.")
    return place


def read_items(destination: Destination) -> Items:
    """A file that is written at the end is read from its store."""
    if is_database(destination.store):
        return Items(_rows(destination.store, destination.job))
    if find_type(destination.store).names[0] != ".jsonl":
        dsn = redact(destination.dsn)
        raise BadSink(f"rows cannot be read back from {dsn}: use its own client.")
    return Items(_lines(Path(destination.store)))


def _rows(dsn: str, job: str) -> Iterator[dict[str, Any]]:
    table = open_database(dsn, job=job)
    try:
        for page in table.read(batch=BATCH):
            for result in page.results:
                row = row_of(result)
                own = {"_id": row.id, "_url": row.url, "_fetched_at": row.fetched_at}
                yield row.fields | own
    finally:
        table.close()


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The last line of each row: while a crawl runs, a changed row has several."""
    if not path.exists():
        raise BadSink(f"there is no file {path}: nothing was stored yet, or it was moved.")
    rows: dict[str, dict[str, Any]] = {}
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                row = msgspec.json.decode(line)
                rows[row.pop("_id")] = row
    for row_id, row in rows.items():
        at = datetime.fromisoformat(row.pop("_fetched_at"))  # as databases have it
        yield row | {"_id": row_id, "_url": row.pop("_url"), "_fetched_at": at}


LOOK_S = 0.1


async def run_spider(
    spider: Spider,
    *,
    job: str | None,
    fresh: bool,
    keep_rows: bool,
    settings: Mapping[str, Any],
) -> Report:
    """Like `skitter run`, with one worker and a loader in this event loop."""
    name = job or spider.name
    config = resolve(check_given(settings), job=name, spider=spider.tables)
    out, *also = main_first(config.output.places(f"{name}.db"))
    how: dict[str, Any] = {"fresh": fresh, "keep_rows": keep_rows}
    plan = Plan(spider=spider, job=name, config=config, out=out, also=tuple(also), **how)
    async with open_server(config.server) as server:
        crawl = await begin(server, plan, progress=lambda _: None)
        stopped = await _work(crawl)
        result = await crawl.end(over=not stopped, interrupted=stopped)
        written = await write_outputs(crawl)
        if result.over:
            await run_hooks(spider.hooks.finish, result.after)
    report = report_of(result, *written)
    report.items.read = partial(read_items, crawl.out)
    return report


async def _work(crawl: Crawl) -> bool:
    """Fetch and load until nothing is left (False) or until Ctrl-C (True)."""
    # The process belongs to the script: no watchdog, no memory limit.
    config = crawl.plan.worker
    options = WorkerOptions.of(config, stuck_s=None, max_memory_mb=None, watch_signals=False)
    spider, frontier = crawl.plan.spider, crawl.frontier
    transform = chain(spider.transforms) if spider.transforms else None
    async with open_worker(frontier, spider, config, options=options) as worker:
        figures = worker.delivery.figures
        stop = asyncio.Event()
        make = partial(Loader, frontier, client_name(), worker.logbook, stop, transform)
        loaders = await loaders_of(frontier, crawl.outs, partial(make, figures=figures))
        loading = asyncio.create_task(load_all(loaders))
        loading.add_done_callback(lambda _: worker.stop())  # if it fails; the error is raised below
        try:
            with _stopped_by_signals(worker):
                await _run(worker)
                while not worker.is_stopped and (await frontier.stats()).items:  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_S)
            stopped = worker.is_stopped
        finally:
            stop.set()
            await loading
            with suppress(SkitterError):
                await figures.send(frontier)
    return stopped


async def _run(worker: Worker) -> None:
    """If cancelled, do not wait for pages in flight: they return to the queue."""
    running = asyncio.create_task(worker.run())
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        worker.stop()
        worker.stop()  # twice: without the grace period
        with suppress(SkitterError):
            await running
        raise


@contextmanager
def _stopped_by_signals(worker: Worker) -> Iterator[None]:
    """While this lasts; only the main thread can handle signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        loop.add_signal_handler(number, worker.stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
