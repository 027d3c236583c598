"""What Celery's result backend knows of a task. A team's app may have none."""

from __future__ import annotations

from typing import Any

from celery.backends.base import DisabledBackend
from celery.states import PENDING

#: The state of a task whose pages wait in the frontier for their turn, or are being fetched.
QUEUED = "QUEUED"


def has_backend(app: Any) -> bool:
    return not isinstance(app.backend, DisabledBackend)


def known_of(app: Any, id: str) -> tuple[str, Any]:
    """Its state, and its result or what was noted with the state. PENDING: nothing is known."""
    if not has_backend(app):
        return PENDING, None
    meta = app.backend.get_task_meta(id)
    return meta["status"], meta["result"]
