"""What came of a page goes into Celery's result backend, as if the task had returned it.

The backend is a sink like any other: items are read from the frontier's stream and acknowledged
after the backend has them, so that a process that is killed in between costs nothing but time. To
deliver twice is harmless: the same task gets the same result.

What one caller asked for must not stop the pages of the others: a callback that cannot be sent is
a failure of the task that it belongs to, and everybody else goes on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeGuard

from celery.app.task import Context
from celery.backends.base import DisabledBackend
from celery.canvas import maybe_signature
from celery.states import FAILURE, PENDING
from kombu.exceptions import EncodeError, OperationalError

from skitter.celery.registry import TASK
from skitter.celery.security import HOW
from skitter.errors import NotAllowed, ServerUnreachable, SkitterError
from skitter.frontier.admin.dead import dead_letters, drop, lock_dead, unlock_dead
from skitter.sinks.base import SinkAway
from skitter.spider.source_line import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.celery.registry import JobSpec
    from skitter.celery.runtime import Runtime
    from skitter.celery.security import Secret
    from skitter.frontier.frontier import Frontier
    from skitter.model import DeadLetter, Result


#: The state of a task whose pages wait in the frontier for their turn, or are being fetched.
QUEUED = "QUEUED"
DEAD_S = 0.2
LOCK_S = 30.0
#: The fields of a task that make others run, and those that only say what it was.
SENDING = ("callbacks", "errbacks", "chain", "chord")
HARMLESS = ("id", "task", "args", "kwargs", "root_id", "parent_id", "ignore_result", "reply_to",
            "correlation_id")  # fmt: skip
logger = logging.getLogger(__name__)


def has_backend(app: Any) -> bool:
    return not isinstance(app.backend, DisabledBackend)


def task_meta(app: Any, id: str) -> tuple[str, Any]:
    """Its state, and its result or what was noted with the state. PENDING: nothing is known."""
    if not has_backend(app):
        return PENDING, None
    meta = app.backend.get_task_meta(id)
    return meta["status"], meta["result"]


class ScrapeFailed(Exception):
    """A page that could not be fetched or handled, after all tries. Its text says why."""


class ResultSink:
    """The Celery tasks that wait for pages."""

    description = "Celery's result backend"

    def __init__(self, runtime: Runtime, spec: JobSpec) -> None:
        self._runtime, self._job, self._plain = runtime, spec.job, not spec.target
        self._ended: set[str] = set()  # of rows that come again because the backend went away

    async def write(self, rows: Sequence[Result]) -> None:
        for row in rows:
            task = row.item.get("task") if isinstance(row.item, dict) else None
            if is_task(task) and task["id"] not in self._ended:
                value = self._value(row.item.get("items"))
                await asyncio.to_thread(finish_task, self._runtime, self._job, task, value)
                self._ended.add(task["id"])
        self._ended.clear()

    async def close(self) -> None:
        pass

    def _value(self, items: Any) -> Any:
        """The record of the page; with a spider, all its items."""
        return items[0] if self._plain and isinstance(items, list) and items else items


async def store_failures(runtime: Runtime, frontier: Frontier, stop: asyncio.Event) -> None:
    """Tell those who wait for a page that it is dead; their task is its record from then on."""
    while not stop.is_set():
        try:
            # One pump at a time, or callbacks would run twice.
            if (await frontier.stats()).dead and await lock_dead(frontier, ttl_s=LOCK_S):
                await _store_failures(runtime, frontier)
        except SkitterError as error:
            if not error.retryable:
                raise
        await asyncio.sleep(DEAD_S)


async def _store_failures(runtime: Runtime, frontier: Frontier) -> None:
    try:
        async for letter in dead_letters(frontier):
            await asyncio.to_thread(_end_of, runtime, frontier.job, letter)
            await drop(frontier, [letter])
    finally:
        await unlock_dead(frontier)


def _end_of(runtime: Runtime, job: str, letter: DeadLetter) -> None:
    task = letter.request.meta.get(TASK)
    if not is_task(task):
        return
    if task.get("record_errors"):
        outcome: Any = {"url": letter.url, "ok": False, "error": letter.reason}
    else:
        outcome = ScrapeFailed(f"{letter.url}: {letter.reason}")
    finish_task(runtime, job, task, outcome)


# --- a task that waits in the frontier, where anybody may have written it ------------------------


def is_task(found: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(found, dict) and isinstance(found.get("id"), str)


def sign_task(secret: Secret | None, job: str, task: dict[str, Any]) -> dict[str, Any]:
    """Without a secret, only one that has nothing but a result to wait for."""
    if secret:
        return task | {"signature": secret.sign("task", job, task)}
    if has_callbacks(task):
        raise NotAllowed(
            "a task with a callback, a chain or a chord waits in the frontier, where somebody "
            f"could change what is sent: {HOW}."
        )
    return task


def has_callbacks(task: dict[str, Any]) -> bool:
    """Whether its end makes other tasks run."""
    return any(task.get(name) for name in SENDING)


def finish_task(runtime: Runtime, job: str, task: dict[str, Any], outcome: Any) -> None:
    """Its end, if one of us made it. If not, it gets a result and sends nothing."""
    content = {name: value for name, value in task.items() if name != "signature"}
    secret = runtime.secret
    if not (secret and secret.has_signed(task.get("signature"), "task", job, content)):
        if has_callbacks(content):
            outcome = ScrapeFailed(
                f"its callbacks were not signed by a worker that has our secret: {HOW}."
            )
        content = {name: content[name] for name in HARMLESS if name in content}
    end(runtime.app, content, outcome)


# --- the end of a task: it blocks ----------------------------------------------------------------


def end(app: Any, task: dict[str, Any], outcome: Any) -> None:
    """Tell a task's caller what came of it: a value, or an exception. What cannot be told becomes
    a failure. Raises SinkAway if backend or broker do not answer, and nothing else."""
    request = Context(task | {"delivery_info": {}})  # where Celery looks before an error callback
    try:
        if not isinstance(outcome, Exception):
            outcome = _succeed(app, request, outcome)
        if outcome is not None:
            _fail(app, request, outcome)
    except Exception as error:  # not even the plain failure can be stored
        raise SinkAway(f"Celery's result backend does not answer ({error})") from error


def _away(app: Any) -> tuple[type[Exception], ...]:
    known = getattr(app.backend, "connection_errors", ())
    return (OperationalError, ServerUnreachable, ConnectionError, TimeoutError, *known)


def _succeed(app: Any, request: Context, value: Any) -> Exception | None:
    """What Celery does when a task returns: links, chain, result, chord. Or why that failed."""
    try:
        _send_callbacks(app, request, value)
        app.backend.mark_as_done(request.id, value, request)
    except _away(app):
        raise
    except EncodeError as error:
        return ScrapeFailed(f"what came of it cannot be sent as JSON: {error}")
    except Exception as error:
        return ScrapeFailed(f"its callback could not be sent: {describe(error)}")
    return None


def _send_callbacks(app: Any, request: Context, value: Any) -> None:
    after = {"parent_id": request.id, "root_id": request.root_id or request.id}
    for callback in request.callbacks or ():
        maybe_signature(callback, app=app).apply_async((value,), **after)
    if request.chain:
        following = maybe_signature(request.chain[-1], app=app)
        following.apply_async((value,), chain=request.chain[:-1], **after)


def _fail(app: Any, request: Context, error: Exception) -> None:
    """What Celery does when a task raises: result, chord, chain; then its error callbacks, some of
    which run right here and may raise whatever they like."""
    try:
        app.backend.mark_as_failure(request.id, error, request=request, call_errbacks=False)
    except _away(app):
        raise
    except Exception:
        logger.exception("the failure of %s is stored without its chain or chord", request.id)
        app.backend.store_result(request.id, error, FAILURE, request=request)
    alone = Context(request.__dict__ | {"chord": None, "chain": None})
    try:
        app.backend.mark_as_failure(request.id, error, request=alone, store_result=False)
    except (OperationalError, ServerUnreachable):
        raise
    except Exception:
        logger.exception("an error callback of %s could not be sent", request.id)
