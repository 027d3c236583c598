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
from typing import TYPE_CHECKING, Any

from celery.app.task import Context
from celery.canvas import maybe_signature
from celery.states import FAILURE
from kombu.exceptions import EncodeError, OperationalError

from skitter.celery.envelope import TASK
from skitter.errors import ServerUnreachable, SkitterError
from skitter.frontier.dead import dead_letters, drop
from skitter.sinks.base import SinkAway
from skitter.spider.blame import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.celery.charges import Charge
    from skitter.celery.office import Office
    from skitter.frontier.frontier import Frontier
    from skitter.model import DeadLetter, Result

DEAD_S = 0.2
LOCK_MS = 30_000
logger = logging.getLogger(__name__)


class ScrapeFailed(Exception):
    """A page that could not be fetched or handled, after all tries. Its text says why."""


class ResultSink:
    """The Celery tasks that wait for pages."""

    description = "Celery's result backend"

    def __init__(self, app: Any, charge: Charge) -> None:
        self._app, self._plain = app, not charge.target
        self._ended: set[str] = set()  # of rows that come again because the backend went away

    async def write(self, rows: Sequence[Result]) -> None:
        for row in rows:
            task = row.item.get("task")
            if task and task["id"] not in self._ended:
                await asyncio.to_thread(end, self._app, task, self._value(row.item["items"]))
                self._ended.add(task["id"])
        self._ended.clear()

    async def close(self) -> None:
        pass

    def _value(self, items: list[Any]) -> Any:
        """The record of the page; with a spider, all its items."""
        return items[0] if self._plain and items else items


async def deliver_dead(office: Office, frontier: Frontier, stop: asyncio.Event) -> None:
    """Tell those who wait for a page that it is dead; their task is its record from then on."""
    while not stop.is_set():
        try:
            if (await frontier.stats()).dead and await _lock(frontier):
                await _deliver_dead(office, frontier)
        except SkitterError as error:
            if not error.retryable:
                raise
        await asyncio.sleep(DEAD_S)


async def _deliver_dead(office: Office, frontier: Frontier) -> None:
    try:
        async for letter in dead_letters(frontier):
            await asyncio.to_thread(_end_of, office.app, letter)
            await drop(frontier, [letter])
    finally:
        shard = frontier.shards[0]
        await shard.server.command("DEL", shard.keys.key("telling"))


async def _lock(frontier: Frontier) -> bool:
    """One pump at a time, or callbacks would run twice. It is no more than that, and expires."""
    shard = frontier.shards[0]
    words = (shard.keys.key("telling"), shard.client, "NX", "PX", LOCK_MS)
    return bool(await shard.server.command("SET", *words))


def _end_of(app: Any, letter: DeadLetter) -> None:
    task = letter.request.meta.get(TASK)
    if not task:
        return
    if task.get("record_errors"):
        end(app, task, {"url": letter.url, "ok": False, "error": letter.reason})
    else:
        end(app, task, ScrapeFailed(f"{letter.url}: {letter.reason}"))


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
