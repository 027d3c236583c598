"""Which queue a task of ours goes to. What the app's `task_routes` say comes first."""

from __future__ import annotations

from typing import Any


def destination(app: Any, task: str, queue: str) -> dict[str, str]:
    """Options of apply_async: the queue, unless the app routes the task itself."""
    routed = app.amqp.router.lookup_route(task, (), {}, {}, app.tasks[task])
    return {} if routed else {"queue": queue}


def is_consumed(app: Any, task: str, queue: str) -> bool:
    """Whether this worker takes such messages: `-Q` may name other queues."""
    options = app.amqp.router.route(destination(app, task, queue), task, task_type=app.tasks[task])
    found = options.get("queue")
    return found is None or getattr(found, "name", found) in app.amqp.queues.consume_from
