"""What callers use besides tasks: map_reduce and status."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from celery.canvas import Signature

from skitter.celery.factory import default_app
from skitter.celery.jobs import QUEUED, has_backend, is_over, read_spec, task_meta
from skitter.celery.runtime import runtime_of
from skitter.errors import JobMissing, UsageError
from skitter.frontier.control import read_birth
from skitter.frontier.jobs import open_job
from skitter.frontier.workers import FETCHING, live_workers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skitter.frontier.transport.connection import Server


PURGED = "PURGED"
COUNTS = ("pending", "delayed", "leased", "done", "dead")
NO_BACKEND = (
    "this app has no result backend, so the state of its tasks is unknown: configure one, or "
    "look a job up by name."
)


def map_reduce(urls: Iterable[str], reducer: Any, *, app: Any = None, **options: Any) -> Any:
    """Fetch each of `urls` once, then call `reducer(records)` with an iterator over the results:
    {"url", "ok", "items"} or {"url", "ok": False, "error"}. Returns an AsyncResult.

    The reducer is a Celery task, or its signature (`summarize.s()`). For options see MapOptions.
    """
    app = app or default_app()
    signature = _signature(app, reducer)
    return app.tasks["skitter.map_reduce"].apply_async((list(urls), dict(signature)), options)


def _signature(app: Any, reducer: Any) -> Any:
    """Raises UsageError if no worker could call it."""
    signature = reducer if isinstance(reducer, Signature) else getattr(reducer, "s", lambda: None)()
    if signature is None:
        raise UsageError(
            f"{reducer!r} is not a reducer: decorate the function with @app.task and pass it."
        )
    if signature.task not in app.tasks:
        raise UsageError(f"this app has no task {signature.task!r}: register the reducer.")
    return signature


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a task or job."""

    id: str  # of the task or job
    #: Celery's, or QUEUED, PURGED or UNKNOWN; of a job: running, paused, draining, cancelled or
    #: finished, as `skitter status` says.
    state: str
    over: bool = False  # a job that Celery has nothing left to do for; items may wait for a loader
    url: str | None = None  # of a task's page
    error: str | None = None  # why a task failed
    job: str | None = None  # whose counts these are
    pending: int = 0  # in the queue
    delayed: int = 0  # waiting for a retry
    leased: int = 0  # being fetched
    done: int = 0  # completed pages
    dead: int = 0  # pages given up
    pumps: int = 0  # messages at work or waiting for a worker

    @property
    def ready(self) -> bool:
        """Whether the task or job has ended, well or not."""
        return self.over or self.state in ("SUCCESS", "FAILURE", "REVOKED", PURGED, "cancelled")


def status(id: str, *, app: Any = None) -> Status:
    """The status of a task by its id, or of a crawl by its job's name."""
    app = app or default_app()
    runtime = runtime_of(app)
    try:
        return runtime.ask(partial(_of_job, id=id, job=id))
    except JobMissing:
        return _of_task(app, id)


def _of_task(app: Any, id: str) -> Status:
    if not has_backend(app):
        return Status(id=id, state="UNKNOWN", error=NO_BACKEND)
    runtime_of(app).brief.check_results()
    state, info = task_meta(app, id)
    if state != QUEUED:
        error = str(info) if isinstance(info, BaseException) else None
        return Status(id=id, state=state, error=error)
    runtime, url = runtime_of(app), info.get("url")
    try:
        found = runtime.ask(partial(_of_job, id=id, job=info["job"], born=info["born"]))
    except JobMissing:
        error = f"its job {info['job']} was purged: send the task again."
        return Status(id=id, state=PURGED, job=info["job"], url=url, error=error)
    return msgspec.structs.replace(found, state=state, url=url, over=False)


async def _of_job(server: Server, *, id: str, job: str, born: str = "") -> Status:
    frontier = await open_job(server, job)
    if born and born != await read_birth(frontier):
        raise JobMissing(job, [])  # another job has its name now
    stats = await frontier.stats()
    spec = await read_spec(server, job)  # None: loaded and delivered too
    over = stats.crawled and (spec is None or (spec.kind == "scrape" and is_over(spec, stats)))
    pumps = sum(worker.kind in FETCHING for worker in await live_workers(frontier))
    counts = {name: getattr(stats, name) for name in COUNTS}
    return Status(id=id, state=stats.status, over=over, job=job, pumps=pumps, **counts)
