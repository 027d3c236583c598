"""A worker, loader or dashboard that `run` started, without what only a terminal needs.

Its configuration is in its environment, as it may hold passwords, which anybody could read in `ps`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import msgspec
import uvloop

from skitter.app import open_server
from skitter.cli import tuning
from skitter.cli.tuning import give_way
from skitter.crawl.printed import Output
from skitter.errors import JobMissing, ServerStopped, SkitterError, UsageError
from skitter.frontier.jobs import open_job
from skitter.frontier.transport.endpoints import MARK, client_name
from skitter.observe.logs import open_log
from skitter.settings import WorkerConfig, find_server

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from skitter.engine.loop import Worker
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server

    Work = Callable[[], Coroutine[None, None, object]]

#: JSON of a WorkerConfig; of the outputs of a loader.
WORKER, LOAD_TO = "SKITTER_WORKER", "SKITTER_LOAD_TO"


def main(words: list[str]) -> None:
    """Runs `work JOB --parent PID`, `load JOB --parent PID [--transform SPIDER]` or, for a
    dashboard, `serve - --parent PID`."""
    kind, job, _, parent, *rest = words
    text = os.environ.pop(WORKER, "")  # our own children must not inherit it
    config = WorkerConfig.from_json(text) if text else WorkerConfig()
    if kind == "serve":
        from skitter.cli.dashboard import serving_beside

        work: Work = serving_beside(int(parent))
    elif kind == "work":
        give_way(config.workers.nice)
        work = _worker(job, int(parent), config)
    else:
        work = _loader(job, int(parent), config, transform=rest[1] if rest else "")
    tuning.begin()
    with open_log(config.log, job=job):
        try:
            uvloop.run(work())
        except (JobMissing, ServerStopped) as error:
            # Every process of the crawl gets this error; the supervisor reports it once.
            sys.exit(error.exit_code)


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr)  # a file that the parent reads


def _worker(job: str, parent: int, config: WorkerConfig) -> Work:
    from skitter.cli.tuning import tune_collector
    from skitter.engine.assembly import open_worker
    from skitter.engine.loop import GONE_S
    from skitter.engine.parts import WorkerOptions
    from skitter.engine.pulse import is_orphan
    from skitter.spider import load_spider

    where = find_server()
    spider = load_spider(config.spider, config.arguments)
    stuck_log = Output.of(where.directory, job).stuck
    options = WorkerOptions.of(config, parent=parent, stuck_log=stuck_log)

    async def work() -> None:
        async with open_server(where, progress=_print_progress) as server:
            name = client_name(mark=os.environ.get(MARK))
            wait = config.keep_alive
            while (frontier := await _find(server, job, client=name, wait=wait)) is None:
                if is_orphan(parent):
                    return
                await asyncio.sleep(GONE_S)
            async with open_worker(frontier, spider, config, options=options) as worker:
                tune_collector()
                await run_to_the_end(worker)

    return work


async def _find(server: Server, job: str, *, client: str, wait: bool) -> Frontier | None:
    """The job. None: it was just removed, and the caller waits for it to be created again."""
    try:
        return await open_job(server, job, client=client)
    except JobMissing:
        if wait:
            return None
        raise


async def run_to_the_end(worker: Worker) -> None:
    """Run a worker. The exit code of a usage error means that a restart cannot help, and ends the
    whole fleet. That is true only of a worker that could not begin."""
    try:
        await worker.run()
    except JobMissing:
        raise  # the supervisor notices and reports it
    except UsageError as error:
        if not worker.has_begun:
            raise
        raise SkitterError(str(error)) from error


def _loader(job: str, parent: int, config: WorkerConfig, *, transform: str) -> Work:
    from skitter.crawl.job_loader import LoaderProcess
    from skitter.sinks import Destination
    from skitter.spider import load_transform

    where = find_server()
    change = load_transform(transform, config.arguments) if transform else None
    named = msgspec.json.decode(os.environ[LOAD_TO], type=list[str])
    outs = [Destination(dsn, job, where.directory) for dsn in named]
    return LoaderProcess(
        where,
        outs,
        change,
        parent=parent,
        until_finished=not config.keep_alive,
        progress=_print_progress,
    ).run
