"""What came of a page goes into Celery's result backend, as if the task had returned it.

The backend is a sink like any other: items are read from the frontier's stream and acknowledged
after the backend has them, so that a process that is killed in between costs nothing but time. To
deliver twice is harmless: the same task gets the same result.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from celery.app.task import Context
from celery.canvas import maybe_signature
from kombu.exceptions import EncodeError, OperationalError

from skitter.celery.envelope import TASK
from skitter.errors import SkitterError
from skitter.frontier.dead import dead_letters, drop
from skitter.sinks.base import SinkAway

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skitter.celery.charges import Charge
    from skitter.celery.office import Office
    from skitter.frontier.frontier import Frontier
    from skitter.model import DeadLetter, Result

DEAD_S = 0.2
LOCK_MS = 30_000


class ScrapeFailed(Exception):
    """A page that could not be fetched or handled, after all tries. Its text says why."""


class ResultSink:
    """The Celery tasks that wait for pages."""

    description = "Celery's result backend"

    def __init__(self, app: Any, charge: Charge) -> None:
        self._app, self._plain = app, not charge.target

    async def write(self, rows: Sequence[Result]) -> None:
        await deliver(self._app, partial(self._write, rows))

    async def close(self) -> None:
        pass

    def _write(self, rows: Sequence[Result]) -> None:
        for row in rows:
            if row.item.get("task"):
                _succeed_or_fail(self._app, row.item["task"], self._value(row.item["items"]))

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
            await deliver(office.app, partial(_fail, office.app, letter))
            await drop(frontier, [letter])
    finally:
        shard = frontier.shards[0]
        await shard.server.command("DEL", shard.keys.key("telling"))


async def _lock(frontier: Frontier) -> bool:
    """One pump at a time, or callbacks would run twice. It is no more than that, and expires."""
    shard = frontier.shards[0]
    words = (shard.keys.key("telling"), shard.client, "NX", "PX", LOCK_MS)
    return bool(await shard.server.command("SET", *words))


async def deliver(app: Any, send: Callable[[], None]) -> None:
    """Send in a thread, because it blocks. Raises SinkAway if backend or broker do not answer."""
    away = (OperationalError, OSError, *getattr(app.backend, "connection_errors", ()))
    try:
        await asyncio.to_thread(send)
    except away as error:
        raise SinkAway(f"Celery's result backend does not answer ({error})") from error


def _succeed_or_fail(app: Any, task: dict[str, Any], value: Any) -> None:
    try:
        succeed(app, task, value)
    except EncodeError as error:
        fail(app, task, ScrapeFailed(f"what came of it cannot be sent as JSON: {error}"))


def _fail(app: Any, letter: DeadLetter) -> None:
    task = letter.request.meta.get(TASK)
    if not task:
        return
    if task.get("record_errors"):
        succeed(app, task, {"url": letter.url, "ok": False, "error": letter.reason})
    else:
        fail(app, task, ScrapeFailed(f"{letter.url}: {letter.reason}"))


def succeed(app: Any, task: dict[str, Any], value: Any) -> None:
    """What Celery does when a task returns: links, chain, result, chord."""
    request = Context(task)
    after = {"parent_id": request.id, "root_id": request.root_id or request.id}
    for callback in request.callbacks or ():
        maybe_signature(callback, app=app).apply_async((value,), **after)
    if request.chain:
        following = maybe_signature(request.chain[-1], app=app)
        following.apply_async((value,), chain=request.chain[:-1], **after)
    app.backend.mark_as_done(request.id, value, request)


def fail(app: Any, task: dict[str, Any], error: Exception) -> None:
    """What Celery does when a task raises: error callbacks, chain, result, chord."""
    app.backend.mark_as_failure(task["id"], error, request=Context(task))
