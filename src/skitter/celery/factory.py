"""Apps: ours, or your own; what happens when their workers start and stop."""

from __future__ import annotations

import logging
import re
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from celery import Celery, signals

from skitter.celery.broker import SILENTLY
from skitter.celery.config import (
    EAGER,
    TEAM_SHARE,
    CelerySettings,
    Queues,
    check_url,
    destination,
    is_consumed,
    shipped,
    warn_of,
)
from skitter.celery.revoke import LOOK_S, Revocations
from skitter.celery.runtime import Runtime, runtime_of
from skitter.celery.scheduling import SLOTS_TTL_S, WATCH_S
from skitter.celery.tasks import add_tasks
from skitter.embedded import hold
from skitter.errors import SkitterError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.settings import Settings

WATCH, PUMP = "skitter.watch", "skitter.pump"
NO_SECRET = (
    "SKITTER_SECRET is not set: this worker runs only what its configuration names "
    "(SKITTER_SPIDERS, SKITTER_OUTPUT_NAME), without %s."
)
RESEND_S = SLOTS_TTL_S - WATCH_S
logger = logging.getLogger(__name__)
_default: list[Any] = []  # the app behind `skitter.celery.app`


def make_app(settings: CelerySettings | Settings | None = None, **overrides: Any) -> Any:
    """A Celery app with our tasks and the settings in config.py; `overrides` are Celery's own."""
    if not isinstance(settings, CelerySettings):
        settings = CelerySettings(where=settings) if settings else CelerySettings()
    app = Celery("skitter", set_as_current=False)
    app.conf.update(shipped(settings) | overrides)
    return _set_up(app, settings)


def register(app: Any, settings: CelerySettings | None = None) -> Any:
    """Add our tasks to your app. Its configuration is not changed: the tasks carry their own
    options, and use the app's default queue unless `settings.queues` names others."""
    if settings is None:
        queue = app.conf.task_default_queue
        settings = CelerySettings(queues=Queues(http=queue, browser=queue))
    _set_up(app, replace(settings, share=settings.share or TEAM_SHARE))
    _default[:] = [app]
    return app


def default_app() -> Any:
    """The app registered last, or our own, configured from the environment."""
    if not _default:
        _default.append(make_app())
    return _default[0]


def _set_up(app: Any, settings: CelerySettings) -> Any:
    warn_of(app.conf)
    app.skitter = Runtime(app, settings)
    add_tasks(app)
    WorkerSignals(app).connect()
    mute_logs()
    return app


# --- their workers --------------------------------------------------------------------------------


class WorkerSignals:
    """Handles Celery's signals for one app. They are sent for all apps of a process, so handlers
    check the sender where it matters."""

    def __init__(self, app: Any) -> None:
        self._app, self._runtime, self._held = app, runtime_of(app), ExitStack()

    def connect(self) -> None:
        """In the order in which they are sent."""
        for one, handler in (
            (signals.worker_init, self.on_init),
            (signals.worker_ready, self.on_ready),
            (signals.worker_shutting_down, lambda **_: self._runtime.stop_worker()),
            (signals.worker_process_shutdown, lambda **_: self._runtime.close()),
            (signals.worker_shutdown, self.on_shutdown),
        ):
            one.connect(handler, weak=False)

    def on_init(self, sender: Any, **_: Any) -> None:
        """Fail early on a setup that cannot work; keep the embedded server up while the worker
        runs. Workers that consume only other queues are not checked."""
        if sender.app is not self._app:
            return
        self._runtime.in_worker = True
        if not self._fetches():
            return
        try:
            check_pool(sender.pool_cls)
            if self._app.conf.task_always_eager:
                raise UsageError(EAGER.format("this worker"))
            where = self._runtime.where
            if self._runtime.secret is None:  # looked up once, for all processes
                sends = "" if self._runtime.is_on_broker else "chains, chords, callbacks or "
                logger.warning(NO_SECRET, f"{sends}reducers")
            if where.redis_url is None:
                self._held.enter_context(hold(where.directory))
        except SkitterError as error:
            print(f"Error: {error}", file=sys.__stderr__, flush=True)
            # Celery logs other exceptions, and continues.
            raise SystemExit(error.exit_code) from None

    def _fetches(self) -> bool:
        queues = self._runtime.settings.queues
        return any(is_consumed(self._app, PUMP, one) for one in (queues.http, queues.browser))

    def on_ready(self, sender: Any, **_: Any) -> None:
        """Watch now and every few seconds. Not in a worker that consumes only other queues: its
        messages would pile up, and it has no slots for pumps."""
        queue = self._runtime.settings.queues.http
        if sender.app is self._app and is_consumed(self._app, WATCH, queue):
            worker = sender.controller
            slots = worker.max_concurrency or worker.concurrency  # the upper one of --autoscale
            watch = Watch(self._app, sender.hostname, slots)
            self._note_events(sender)
            watch.send()
            sender.timer.call_repeatedly(WATCH_S, watch.send)
            sender.timer.call_repeatedly(LOOK_S, Revocations(self._app).pass_on)
            sender.timer.call_repeatedly(LOOK_S, lambda: self._note_events(sender))

    def _note_events(self, consumer: Any) -> None:
        """`-E`, the configuration, or Flower, which enables them when it starts."""
        sender = consumer.event_dispatcher
        groups = getattr(sender, "groups", None) or {"task"}
        self._runtime.sends_events = bool(sender and sender.enabled and "task" in groups)

    def on_shutdown(self, sender: Any, **_: Any) -> None:
        if sender.app is self._app:
            self._runtime.close()
            self._held.close()


def check_pool(pool: Any) -> None:
    """An alias, a dotted path or a class. Raises UsageError."""
    name = pool if isinstance(pool, str) else str(getattr(pool, "__module__", ""))
    for other in ("gevent", "eventlet"):
        if other in name:
            raise UsageError(
                f"pages cannot be fetched by a pool of {other}, as that takes an event loop of its "
                "own: remove `-P` or use `-P threads`. To keep the pool for your own tasks, give "
                "ours a queue "
                '(`register(app, CelerySettings(queues=Queues(http="crawl", browser="crawl")))`) '
                "and a worker (`celery -A ... worker -Q crawl -P threads`)."
            )


class Watch:
    """A worker's messages to itself. Messages, not a thread: a process that forks should have no
    threads."""

    def __init__(self, app: Any, machine: str, slots: int) -> None:
        self._app, self._runtime, self._args = app, runtime_of(app), (machine, slots)
        self._sent_at = -RESEND_S

    def send(self) -> None:
        """Skipped while the last one is queued; but only for a time, as another worker may have
        run it."""
        if self._runtime.watch_pending and time.monotonic() - self._sent_at < RESEND_S:
            return
        self._sent_at = time.monotonic()
        self._runtime.watch_pending = True
        where = destination(self._app, WATCH, self._runtime.settings.queues.http)
        self._app.tasks[WATCH].apply_async(self._args, expires=10 * WATCH_S, **where, **SILENTLY)


def mute_logs() -> None:
    """Watches, as a line every few seconds would hide those that matter, and errors that our tasks
    have logged themselves."""
    for name in ("celery.worker.strategy", "celery.app.trace"):
        logger = logging.getLogger(name)
        if _is_news not in logger.filters:
            logger.addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    is_told = text.startswith("Task skitter.") and " raised expected: " in text
    is_housekeeping = "skitter.watch[" in text or "skitter.cancel[" in text
    return not is_housekeeping and not is_told


# --- their command line ---------------------------------------------------------------------------


def check_words(words: Sequence[str]) -> None:
    """Checked before a server is started. Raises UsageError for a pool that cannot fetch, and for
    an address that does not parse."""
    for word in words:
        if "://" in word:
            check_url("celery's argument", word.partition("=")[2] if word[0] == "-" else word)
    if found := re.search(r"(?:^|\0)(?:-P|--pool)[=\0]?([^\0]+)", "\0".join(words)):
        check_pool(found[1])


def run_command(words: Sequence[str]) -> int:
    """`celery -A skitter.celery WORDS`. Returns the exit code."""
    # Loads all commands, and those of Flower: half of the time that importing us took.
    from celery.bin.celery import main

    before, sys.argv = sys.argv, ["celery", "-A", "skitter.celery", *words]
    try:
        return int(main() or 0)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.argv = before
