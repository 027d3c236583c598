"""Publishing to Celery's broker, which may go down meanwhile: messages, and events for Flower; and
tasks that need no message."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from celery._state import get_current_worker_task
from celery.app.task import Context
from kombu.exceptions import OperationalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.celery.runtime import Runtime


@contextmanager
def publishing() -> Iterator[None]:
    """Raises OperationalError if the broker is down, also where kombu fails on a channel that just
    lost its connection with `'NoneType' object has no attribute 'client'`."""
    try:
        yield
    except AttributeError as error:
        if error.name is None or error.obj is not None:
            raise
        raise OperationalError(f"the connection was lost ({error})") from error


class Silent:
    """As `event_dispatcher`: nobody hears that the message was sent."""

    def publish(self, *_: object, **__: object) -> None:
        pass


TIME_LIMITS = ("time_limit", "soft_time_limit")
#: Celery's options with which no message is needed.
WITHOUT = {"expires", "ignore_result", *TIME_LIMITS} | {
    "group_id", "group_index", "root_id", "parent_id", "add_to_parent", "producer", "reply_to",
}  # fmt: skip


def needs_no_message(options: dict[str, Any]) -> bool:
    is_number = isinstance(options.get("expires"), int | float | None)
    return options.keys() <= WITHOUT and is_number


def as_request(task: Any, id: str, args: Any, kwargs: Any, **options: Any) -> Context:
    """What a worker would make of the message."""
    parent, expires_s = get_current_worker_task(), options.get("expires")
    expires = None if expires_s is None else datetime.now(UTC) + timedelta(seconds=expires_s)
    own = parent.request if parent else Context()
    return Context(
        id=id,
        task=task.name,
        args=args,
        kwargs=kwargs,
        group=options.get("group_id"),
        group_index=options.get("group_index"),
        root_id=options.get("root_id") or own.root_id or own.id,
        parent_id=options.get("parent_id") or own.id,
        expires=expires,
        timelimit=[options.get(limit) or getattr(task, limit) for limit in TIME_LIMITS],
        ignore_result=options.get("ignore_result", task.ignore_result),
    )


#: For our housekeeping, which would fill Flower.
SILENTLY = {"event_dispatcher": Silent()}


def tell(runtime: Runtime, kind: str, id: str, /, **fields: Any) -> None:
    """Note what happened to a task, as Celery calls it, if somebody wants to know."""
    if runtime.sends_events:
        runtime.told.append((kind, {"uuid": id, "timestamp": time.time()} | fields))


def send_told(runtime: Runtime) -> None:
    """Send all that was noted, in one message. One that is lost costs lines in Flower; blocks."""
    told, runtime.told = runtime.told, []
    if not told:
        return
    sender = runtime.app.events.default_dispatcher(hostname=runtime.machine)
    with suppress(OperationalError, OSError), publishing(), sender as dispatcher:
        dispatcher.buffer_group, dispatcher.buffer_limit = {"task"}, len(told) + 1
        for kind, fields in told:
            dispatcher.send(kind, **fields)
        dispatcher.flush(errors=False)
