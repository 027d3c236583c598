"""What happens when a Celery worker starts, forks and stops."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from celery import signals

from skitter.celery.care import SILENCE_S, WATCH_S
from skitter.celery.office import office_of
from skitter.celery.routing import destination, is_consumed
from skitter.errors import SkitterError, UsageError
from skitter.valkey import hold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.celery.office import Office

WATCH, PUMP = "skitter.watch", "skitter.pump"
NO_SECRET = (
    "without SKITTER_SECRET this worker runs only what its configuration names (SKITTER_SPIDERS, "
    "SKITTER_OUTPUT_NAME), and no chains, chords, callbacks or reducers of pages."
)
logger = logging.getLogger(__name__)
AGAIN_S = SILENCE_S - WATCH_S


class Lifecycle:
    """Listens to Celery's signals for one app. They are sent for all apps of a process, so those
    that matter look whether they are meant."""

    def __init__(self, app: Any) -> None:
        self._app, self._office, self._held = app, office_of(app), ExitStack()

    def connect(self) -> None:
        """In the order in which they come."""
        for moment, method in (
            (signals.worker_init, self.prepare),
            (signals.worker_ready, self.begin_watch),
            (signals.worker_shutting_down, self.announce),
            (signals.worker_process_shutdown, self.close_process),
            (signals.worker_shutdown, self.release),
        ):
            moment.connect(method, weak=False)

    def prepare(self, sender: Any, **_: Any) -> None:
        """Refuse what cannot work, before anything runs. The embedded server, if it is the broker,
        runs for as long as the worker does. A worker that takes only other queues may be anything.
        """
        if sender.app is not self._app:
            return
        self._office.in_worker = True
        if not self._fetches():
            return
        try:
            check_pool(pool_name(sender.pool_cls))
            where = self._office.where
            if self._office.secret is None:  # looked for once, for all processes
                logger.warning(NO_SECRET)
            if where.redis_url is None:
                self._held.enter_context(hold(where.directory))
        except SkitterError as error:
            print(f"Error: {error}", file=sys.__stderr__, flush=True)
            # Celery writes other exceptions into its log, and goes on.
            raise SystemExit(error.exit_code) from None

    def _fetches(self) -> bool:
        queues = self._office.settings.queues
        return any(is_consumed(self._app, PUMP, one) for one in (queues.http, queues.browser))

    def begin_watch(self, sender: Any, **_: Any) -> None:
        """Now, and every few seconds. A worker that takes other queues keeps none, and is no room
        for pumps: its messages would pile up where nobody takes them."""
        queue = self._office.settings.queues.http
        if sender.app is self._app and is_consumed(self._app, WATCH, queue):
            watch = Watch(self._app, sender.hostname, sender.controller.concurrency)
            watch.send()
            sender.timer.call_repeatedly(WATCH_S, watch.send)

    def announce(self, **_: Any) -> None:
        self._office.announce_close()

    def close_process(self, **_: Any) -> None:
        self._office.close()

    def release(self, sender: Any, **_: Any) -> None:
        if sender.app is self._app:
            self._office.close()
            self._held.close()


def pool_name(pool: Any) -> str:
    """Of an alias, a dotted path or a class."""
    return pool if isinstance(pool, str) else str(getattr(pool, "__module__", ""))


def check_pool(name: str) -> None:
    """Raises UsageError."""
    for other in ("gevent", "eventlet"):
        if other in name:
            raise UsageError(
                f"pages cannot be fetched in a pool of {other}, because there is an event loop "
                "inside: leave `-P` out or use `-P threads`, and let a worker with that pool take "
                "other queues (`-Q`)."
            )


class Watch:
    """A worker's messages to itself. They are messages and no thread: a process that forks children
    should have none."""

    def __init__(self, app: Any, machine: str, places: int) -> None:
        self._app, self._office, self._words = app, office_of(app), (machine, places)
        self._sent_at = -AGAIN_S

    def send(self) -> None:
        """Unless the last one still waits. Another worker may have run it, so not for ever."""
        if self._office.watch_waits and time.monotonic() - self._sent_at < AGAIN_S:
            return
        self._sent_at = time.monotonic()
        self._office.watch_waits = True
        where = destination(self._app, WATCH, self._office.settings.queues.http)
        self._app.tasks[WATCH].apply_async(self._words, expires=10 * WATCH_S, **where)


@contextmanager
def minding_sigterm(office: Office) -> Iterator[None]:
    """systemd and containers send SIGTERM to every process of a worker, not only to the first: a
    pump then hands back what it has, as at any other stop, instead of dying with it.

    Around each pump: Celery sets its own handlers after all its signals for a new process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # a pool of threads: the process has but one handler, Celery's
        return
    before = signal.signal(signal.SIGTERM, lambda *_: office.leave())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
    office.go_if_told()


def hush_watch() -> None:
    """A line every few seconds that says nothing would hide those that say something."""
    for name in ("celery.worker.strategy", "celery.app.trace"):
        logger = logging.getLogger(name)
        if _is_news not in logger.filters:
            logger.addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return "skitter.watch[" not in record.getMessage()
