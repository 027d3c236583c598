"""The result of a page goes into Celery's result backend, as if the task had returned it.

The backend is a sink like any other: items are read from the frontier's stream and acknowledged
once the backend has them, so a killed process costs only time. Storing twice is harmless: the same
task gets the same result.

One caller must not hold up the others: a callback that cannot be sent fails its own task only.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import msgspec
from celery.app.task import Context, Task
from celery.canvas import maybe_signature
from celery.exceptions import TaskRevokedError
from celery.states import FAILURE, READY_STATES, SUCCESS
from celery.utils.saferepr import saferepr
from kombu.exceptions import EncodeError, OperationalError
from kombu.utils.json import dumps

from skitter.celery.broker import publishing, tell
from skitter.celery.jobs import QUEUED, TASK, is_task, task_meta
from skitter.celery.line import stores_in_redis
from skitter.celery.revoke import end_of
from skitter.celery.security import HOW
from skitter.errors import InfrastructureError, NotAllowed, ServerUnreachable, SkitterError
from skitter.frontier.dead import drop, lock_dead, unfetched, unlock_dead
from skitter.sinks.base import SinkAway
from skitter.spider.source import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.celery.jobs import JobSpec
    from skitter.celery.runtime import Runtime
    from skitter.celery.security import Secret
    from skitter.frontier.frontier import Frontier
    from skitter.model import DeadLetter, Result


#: A waiting task, and the value of its page, or the exception.
Ended = tuple[dict[str, Any], Any]
FAILURES_S = 0.2
LOCK_S = 30.0
#: The fields of a task that make others run, and those that only describe it.
SENDING = ("callbacks", "errbacks", "chain", "chord")
HARMLESS = ("id", "task", "args", "kwargs", "since", "root_id", "parent_id", "group",
            "ignore_result", "reply_to", "correlation_id")  # fmt: skip
logger = logging.getLogger(__name__)


def to_json(value: Any) -> Any:
    """The value as the receiver gets it: Celery's JSON has no tuples."""
    return msgspec.json.decode(dumps(value))


class ScrapeFailed(Exception):
    """A page could not be fetched or handled, after all retries. The text says why."""


class ResultSink:
    """Stores the items of each page as the result of the task that waits for it."""

    description = "Celery's result backend"

    def __init__(self, runtime: Runtime, spec: JobSpec) -> None:
        self._runtime, self._job, self._plain = runtime, spec.job, not spec.target
        self._stored: set[str] = set()  # of rows that are retried because the backend went away

    async def write(self, rows: Sequence[Result]) -> None:
        records = [row.item for row in rows if isinstance(row.item, dict)]
        ended = [
            (record["task"], self._outcome(record))
            for record in records
            if is_task(record.get("task")) and record["task"]["id"] not in self._stored
        ]
        await asyncio.to_thread(self._store, ended)
        self._stored.clear()

    def _store(self, ended: list[Ended]) -> None:
        others = store_together(self._runtime, self._job, ended)
        self._stored |= {task["id"] for task, _ in ended} - {task["id"] for task, _ in others}
        for task, value in others:
            finish_task(self._runtime, self._job, task, value)
            self._stored.add(task["id"])

    async def forget(self, pages: Sequence[Result]) -> None:
        pass  # a stored task result does not change

    async def close(self) -> None:
        pass

    def _outcome(self, record: dict[str, Any]) -> Any:
        """The page's record; with a spider, all its items. Without any, why."""
        items, why = record.get("items"), record.get("error")
        if isinstance(why, str):
            return _failed(record["task"], str(record.get("url")), why)
        return items[0] if self._plain and isinstance(items, list) and items else items


async def store_failures(runtime: Runtime, frontier: Frontier, stop: asyncio.Event) -> None:
    """Fail the tasks of dead pages and drop the dead letters: the tasks record the failure."""
    while not stop.is_set():
        try:
            # One pump at a time, or callbacks would run twice.
            stats = await frontier.stats()
            if (stats.dead or stats.excluded) and await lock_dead(frontier, ttl_s=LOCK_S):
                await _store_failures(runtime, frontier)
        except SkitterError as error:
            if not error.retryable:
                raise
        await asyncio.sleep(FAILURES_S)


async def _store_failures(runtime: Runtime, frontier: Frontier) -> None:
    try:
        async for letter in unfetched(frontier):
            task = letter.request.meta.get(TASK)
            if is_task(task):
                outcome = _failure(task, letter)
                await asyncio.to_thread(finish_task, runtime, frontier.job, task, outcome)
            await drop(frontier, [letter])
    finally:
        await unlock_dead(frontier)


def _failure(task: dict[str, Any], letter: DeadLetter) -> Any:
    if end := end_of(task, letter.reason):
        return end
    reason = letter.reason.replace(
        "use --allow-host ", "set SKITTER_ALLOW_HOSTS of its workers to "
    )
    return _failed(task, letter.url, reason)


def _failed(task: dict[str, Any], url: str, reason: str) -> Any:
    if task.get("record_errors"):
        return {"url": url, "ok": False, "error": reason}
    return ScrapeFailed(f"{url}: {reason}")


# --- a task waiting in the frontier, where anyone may have written it ----------------------------


def sign_task(runtime: Runtime, job: str, task: dict[str, Any]) -> dict[str, Any]:
    """Raises NotAllowed without a secret, if it has callbacks."""
    secret = _secret_for(runtime, task)
    if secret:
        return task | {"signature": secret.sign("task", job, task)}
    if has_callbacks(task):
        raise NotAllowed(
            "a task with a callback, a chain or a chord waits in the frontier's Redis, which is "
            f"not the broker's, so that others could change what it sends: {HOW}."
        )
    return task


def _secret_for(runtime: Runtime, task: dict[str, Any]) -> Secret | None:
    """Most tasks send nothing: no call to the server for those."""
    return runtime.callback_secret() if has_callbacks(task) else runtime.secret


def has_callbacks(task: dict[str, Any]) -> bool:
    """Whether its result triggers other tasks."""
    return any(task.get(name) for name in SENDING)


def finish_task(runtime: Runtime, job: str, task: dict[str, Any], outcome: Any) -> None:
    """Store the outcome. An unsigned task triggers nothing, and has a result only if this job waits
    for it: whoever writes to Redis could name any task of the backend."""
    content = {name: value for name, value in task.items() if name != "signature"}
    secret = _secret_for(runtime, content)
    if not (secret and secret.has_signed(task.get("signature"), "task", job, content)):
        if not _is_queued(runtime.app, job, task["id"]):
            logger.warning("%s: no result for %r, which is not queued: %s", job, task["id"], HOW)
            return
        if has_callbacks(content):
            outcome = ScrapeFailed(f"its callbacks are not signed with the shared secret: {HOW}.")
        content = {name: content[name] for name in HARMLESS if name in content}
    tell_end(runtime, content, store_outcome(runtime.app, content, outcome))


def store_together(runtime: Runtime, job: str, ended: list[Ended]) -> list[Ended]:
    """Store values in Redis in two round trips for all of them, where Celery takes three for each.
    Returns those that need more than that, or that may not be stored: they are for `finish_task`.
    """
    backend = runtime.app.backend
    if not stores_in_redis(backend) or len(ended) < 2:
        return ended
    others, told, payloads = list[Ended](), list[Ended](), dict[str, str]()
    try:
        keys = [backend.get_key_for_task(task["id"]) for task, _ in ended]
        for key, raw, one in zip(keys, backend.mget(keys), ended, strict=True):
            payload = _payload(runtime, job, one, raw)
            if payload is None:
                others.append(one)
            elif key not in payloads:  # the first counts, as with Celery
                payloads[key] = payload
                told.append(one)
        with backend.client.pipeline() as pipe:  # all or nothing, if this process is killed
            for key, payload in payloads.items():
                pipe.set(key, payload, ex=backend.expires or None)
                pipe.publish(key, payload)  # wakes the caller
            pipe.execute()
    except Exception as error:
        raise SinkAway(f"Celery's result backend does not answer ({error})") from error
    for task, value in told:
        tell_end(runtime, task, value)
    return others


def _payload(runtime: Runtime, job: str, ended: Ended, raw: bytes | None) -> str | None:
    """As Celery writes it. None: it sends something, failed, has no result, is not known to wait
    for this job, or its value is not JSON."""
    (task, value), backend = ended, runtime.app.backend
    is_usual = not (isinstance(value, Exception) or task.get("ignore_result"))
    if raw is None or has_callbacks(task) or not is_usual:
        return None
    known = backend.decode(raw)
    if not _is_waiting(known.get("status"), known.get("result"), job):
        return None
    try:
        return _encoded(backend, task, SUCCESS, value)
    except EncodeError:
        return None


def _encoded(backend: Any, task: dict[str, Any], state: str, value: Any) -> str:
    """A state of a task as Celery writes it."""
    request = Context({name: task[name] for name in HARMLESS if name in task})
    made = backend._get_result_meta(result=value, state=state, traceback=None, request=request)
    encoded: str = backend.encode(made | {"task_id": task["id"]})
    return encoded


def mark_queued(runtime: Runtime, task: dict[str, Any], facts: dict[str, Any]) -> bool:
    """Called before its page is submitted: a result must not be overwritten, not even by a
    redelivered message. False: it has one already."""
    app, id = runtime.app, task["id"]
    backend = app.backend
    if stores_in_redis(backend):
        client = backend.client if runtime.in_worker else runtime.brief.results
        key, payload = backend.get_key_for_task(id), _encoded(backend, task, QUEUED, facts)
        if client.set(key, payload, nx=True, ex=backend.expires or None):
            return True
    state, known = task_meta(app, id)
    if state in READY_STATES:
        return False
    if (state, known) != (QUEUED, facts):
        request = Context({name: task[name] for name in HARMLESS if name in task})
        backend.store_result(id, facts, QUEUED, request=request)
    return True


def tell_end(runtime: Runtime, task: dict[str, Any], outcome: Any) -> None:
    """Note how a task has ended, if somebody wants to know: a long value takes time to spell."""
    if runtime.sends_events:
        kind, fields = _event_of(task, outcome)
        tell(runtime, kind, task.get("id", ""), **fields)


def _event_of(task: dict[str, Any], outcome: Any) -> tuple[str, dict[str, Any]]:
    """What Celery says of a task that ended so."""
    if isinstance(outcome, TaskRevokedError):
        expired = str(outcome) == "expired"
        return "task-revoked", {"terminated": False, "signum": None, "expired": expired}
    if isinstance(outcome, Exception):
        return "task-failed", {"exception": repr(outcome), "traceback": None}
    since = task.get("since")
    runtime_s = max(0.0, time.time() - since) if isinstance(since, float) else 0.0
    result = saferepr(outcome, Task.resultrepr_maxsize)
    return "task-succeeded", {"result": result, "runtime": runtime_s}


def _is_queued(app: Any, job: str, id: str) -> bool:
    try:
        state, facts = task_meta(app, id)
    except Exception as error:
        raise SinkAway(f"Celery's result backend does not answer ({error})") from error
    return _is_waiting(state, facts, job)


def _is_waiting(state: Any, facts: Any, job: str) -> bool:
    return state == QUEUED and isinstance(facts, dict) and facts.get("job") == job


# --- what Celery does at the end of a task; blocking ----------------------------------------------


def store_outcome(app: Any, task: dict[str, Any], outcome: Any) -> Any:
    """Store a value or an exception, and return it. A value that cannot be stored becomes a
    failure. Raises only SinkAway, if the backend or the broker does not answer."""
    request = Context(task | {"delivery_info": {}})  # where Celery looks before an error callback
    try:
        if isinstance(outcome, TaskRevokedError):
            app.backend.mark_as_revoked(request.id, str(outcome), request)
            return outcome
        error = outcome if isinstance(outcome, Exception) else _succeed(app, request, outcome)
        if error is not None:
            _fail(app, request, error)
        if request.ignore_result:  # Celery has stored nothing: it would be queued for ever
            app.backend.forget(request.id)
    except Exception as problem:  # not even the plain failure can be stored
        raise SinkAway(f"Celery's result backend does not answer ({problem})") from problem
    return outcome if error is None else error


def away_errors(app: Any) -> tuple[type[Exception], ...]:
    known = getattr(app.backend, "connection_errors", ())
    return (OperationalError, InfrastructureError, ConnectionError, TimeoutError, *known)


def _succeed(app: Any, request: Context, value: Any) -> Exception | None:
    """What Celery does when a task returns: links, chain, result, chord. Returns any error."""
    try:
        with publishing():
            _send_callbacks(app, request, value)
        app.backend.mark_as_done(request.id, value, request)
    except away_errors(app):
        raise
    except EncodeError as error:
        return ScrapeFailed(f"its result cannot be sent as JSON: {error}")
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
    """What Celery does when a task raises: result, chord, chain; then error callbacks, some of
    which run here and may raise anything."""
    try:
        app.backend.mark_as_failure(request.id, error, request=request, call_errbacks=False)
    except away_errors(app):
        raise
    except Exception:
        logger.exception("the failure of %s was stored without its chain or chord", request.id)
        app.backend.store_result(request.id, error, FAILURE, request=request)
    alone = Context(request.__dict__ | {"chord": None, "chain": None})
    try:
        app.backend.mark_as_failure(request.id, error, request=alone, store_result=False)
    except (OperationalError, ServerUnreachable):
        raise
    except Exception:
        logger.exception("an error callback of %s could not be sent", request.id)
