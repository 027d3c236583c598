"""Apps: ours, or the one that a team already has."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from celery import Celery
from celery.bin.celery import main as celery_main

from skitter.celery.config import CelerySettings, Queues, shipped, warn_of
from skitter.celery.runtime import Runtime
from skitter.celery.tasks import add_tasks
from skitter.celery.worker import WorkerSignals, mute_watch_logs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.settings import Settings


_default: list[Any] = []  # the app behind `skitter.celery.app`


def make_app(settings: CelerySettings | Settings | None = None, **overrides: Any) -> Any:
    """A Celery app with our tasks and the settings in config.py; `overrides` are Celery's own."""
    if not isinstance(settings, CelerySettings):
        settings = CelerySettings.from_environment(settings)
    app = Celery("skitter", set_as_current=False)
    app.conf.update(shipped(settings) | overrides)
    return _set_up(app, settings)


def register(app: Any, settings: CelerySettings | None = None) -> Any:
    """Add our tasks to your app. Its configuration stays as it is: the tasks bring what they need,
    and use the app's default queue unless `settings.queues` names others."""
    if settings is None:
        queue = app.conf.task_default_queue
        settings = CelerySettings.from_environment(queues=Queues(http=queue, browser=queue))
    _set_up(app, settings)
    _default[:] = [app]
    return app


def default_app() -> Any:
    """The app that was registered last; without one, our own from the environment."""
    if not _default:
        _default.append(make_app())
    return _default[0]


def _set_up(app: Any, settings: CelerySettings) -> Any:
    warn_of(app.conf)
    app.skitter = Runtime(app, settings)
    add_tasks(app)
    app.finalize()
    WorkerSignals(app).connect()
    mute_watch_logs()
    return app


def run_command(words: Sequence[str]) -> int:
    """`celery -A skitter.celery WORDS`. Returns the exit code."""
    before, sys.argv = sys.argv, ["celery", "-A", "skitter.celery", *words]
    try:
        return int(celery_main() or 0)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.argv = before
