"""`spider.run()`: a crawl in this process, for scripts and notebooks."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from skitter.app import open_server
from skitter.crawl.course import begin, write_output
from skitter.crawl.items import read_items
from skitter.crawl.plan import Plan
from skitter.errors import SkitterError
from skitter.frontier.client import client_name
from skitter.loading import Loader, open_destination
from skitter.report import report_of
from skitter.settings import resolve
from skitter.settings.sources import check_given
from skitter.spider.hooks import run_hooks
from skitter.spider.transform import chain
from skitter.worker.assembly import open_worker
from skitter.worker.options import WorkerOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skitter.crawl.course import Crawl
    from skitter.report import Report
    from skitter.spider.spider import Spider
    from skitter.worker.loop import Worker

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
    out = config.output.to or f"{name}.db"
    plan = Plan(spider=spider, job=name, config=config, out=out, fresh=fresh, keep_rows=keep_rows)
    async with open_server(config.server) as server:
        crawl = await begin(server, plan, progress=lambda _: None)
        stopped = await _work(crawl)
        result = await crawl.end(over=not stopped, interrupted=stopped)
        written = await write_output(crawl.out)
        if result.over:
            await run_hooks(spider.hooks.finish, result.after)
    report = report_of(result, written)
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
        loader = Loader(frontier, client_name(), worker.logbook, asyncio.Event(), transform)
        loader.figures = figures
        loading = asyncio.create_task(loader.run(partial(open_destination, frontier, crawl.out)))
        loading.add_done_callback(lambda _: worker.stop())  # if it fails; the error is raised below
        try:
            with _stopped_by_signals(worker):
                await _run(worker)
                while not worker.is_stopped and (await frontier.stats()).items:  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_S)
            stopped = worker.is_stopped
        finally:
            loader.stop.set()
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
