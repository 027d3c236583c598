"""`revoke`, `expires` and `time_limit` of a task whose page waits in the frontier.

A revoked page is taken out of the queue; one in flight goes on, as Celery's running tasks do. An
expired page is dropped when its turn comes. A time limit bounds each attempt, and is final. The
dead letter says which it was, and the task gets the state that Celery would give it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from celery.exceptions import TaskRevokedError, TimeLimitExceeded
from celery.utils.saferepr import saferepr
from celery.worker import state as worker_state

from skitter.celery.broker import SILENTLY
from skitter.celery.config import destination
from skitter.celery.jobs import QUEUED, TASK, is_task, task_meta, unregister_job
from skitter.celery.runtime import runtime_of
from skitter.engine.loop import Worker
from skitter.engine.visit import Buried, Retried
from skitter.errors import JobMissing
from skitter.frontier.control import read_birth
from skitter.frontier.dead import withdraw
from skitter.frontier.jobs import open_job, purge_job
from skitter.model import Failure, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.celery.runtime import Runtime
    from skitter.engine.visit import Outcome
    from skitter.frontier.transport.connection import Server
    from skitter.model import Lease

CANCEL = "skitter.cancel"
REVOKED, EXPIRED = "its task was revoked", "its task has expired"
TOO_LONG = "it took longer than the time limit of its task"
#: How often a worker looks for tasks that were revoked, and how many fit into one message.
LOOK_S, AT_ONCE = 1.0, 1000
#: How often to look at a revoked page in flight, which may fail and wait for a retry: for a minute.
TRIES = 6


def limits_of(request: Any) -> dict[str, float]:
    """When a Celery request expires, and how long an attempt may take; neither, for most."""
    found, expires = {}, request.expires
    if isinstance(expires, str):
        expires = datetime.fromisoformat(expires)
    if isinstance(expires, datetime):
        found["expires"] = (expires if expires.tzinfo else expires.replace(tzinfo=UTC)).timestamp()
    if limits := [one for one in request.timelimit or () if one]:
        found["time_limit"] = min(limits)
    return found


def end_of(task: dict[str, Any], reason: str) -> Any:
    """The exception with which Celery ends a task whose page was given up for this reason; None:
    the page failed."""
    if reason == TOO_LONG:
        return TimeLimitExceeded(task.get("time_limit"))
    words = {REVOKED: "revoked", EXPIRED: "expired"}
    return TaskRevokedError(words[reason]) if reason in words else None


@dataclass(slots=True)
class TaskWorker(Worker):
    """A worker whose pages are waited for by tasks."""

    tell: Callable[..., None] = lambda *_, **__: None

    async def _attempt(self, lease: Lease) -> None:
        task = lease.request.meta.get(TASK)
        if is_task(task) and task.get("handed_over") and lease.attempt == 1:
            self._tell_as_a_worker(task)
        outcome = await self._outcome(lease)
        self.delivery.add(outcome)
        if isinstance(outcome, Retried) and is_task(task):
            said = {"exception": outcome.failure.error, "traceback": None}
            self.tell("task-retried", task["id"], **said)

    def _tell_as_a_worker(self, task: dict[str, Any]) -> None:
        """What Celery says of a task whose message a worker has taken; this one had none."""
        texts = {name: saferepr(task.get(name)) for name in ("args", "kwargs")}
        about = {name: task.get(name) for name in ("root_id", "parent_id")}
        self.tell("task-received", task["id"], name=task.get("task"), retries=0, **texts, **about)
        self.tell("task-started", task["id"])

    async def _outcome(self, lease: Lease) -> Outcome:
        task, patterns = lease.request.meta.get(TASK), self.frontier.options.limits.patterns
        expires, limit_s = (_number(task, name) for name in ("expires", "time_limit"))
        if expires and time.time() > expires:  # excluded: its host's turn is given back
            return Buried(Failure(lease=lease, error=EXPIRED, excluded_by=patterns))
        try:
            async with asyncio.timeout(limit_s):
                return await self.attempts.make(lease)
        except TimeoutError:
            return Buried(Failure(lease=lease, error=TOO_LONG))


def _number(task: Any, name: str) -> float | None:
    """Anyone may have written it."""
    found = task.get(name) if is_task(task) else None
    return float(found) if isinstance(found, int | float) else None


# --- revoking -------------------------------------------------------------------------------------


class Revocations:
    """Passes on what a worker was told to revoke. Every worker hears of it; several may do it."""

    def __init__(self, app: Any) -> None:
        self._app, self._told = app, set[str]()

    def pass_on(self) -> None:
        revoked = set(worker_state.revoked)
        fresh = sorted(revoked - self._told)
        for start in range(0, len(fresh), AT_ONCE):
            send_cancel(self._app, fresh[start : start + AT_ONCE])
        self._told = revoked


def send_cancel(app: Any, ids: list[str], tries: int = 0) -> None:
    where = destination(app, CANCEL, runtime_of(app).settings.queues.http)
    app.tasks[CANCEL].apply_async((ids, tries), countdown=tries and 2**tries, **where, **SILENTLY)


def cancel_tasks(runtime: Runtime, ids: list[str]) -> list[str]:
    """Withdraw the pages of those that wait in the frontier. Returns those in flight."""
    return [id for id in ids if _cancel(runtime, id) is False]


def _cancel(runtime: Runtime, id: str) -> bool | None:
    """Whether it was withdrawn; None: it does not wait."""
    state, facts = task_meta(runtime.app, id)
    if state != QUEUED or not isinstance(facts, dict):
        return None

    async def work(server: Server) -> bool:
        frontier = await open_job(server, facts["job"])
        if facts["born"] != await read_birth(frontier):
            raise JobMissing(frontier.job, [])
        if url := facts.get("url"):
            return await withdraw(frontier, [Request(url=url, unique=id)], REVOKED) == 1
        await unregister_job(server, frontier.job)  # a map_reduce
        await purge_job(frontier)
        return True

    try:
        is_out = runtime.ask(work)
    except JobMissing:
        return None
    if is_out and not facts.get("url"):
        runtime.app.backend.mark_as_revoked(id, "revoked")
    return is_out
