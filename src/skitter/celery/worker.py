"""What happens when a Celery worker starts, forks and stops."""

from __future__ import annotations

import logging
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from celery import signals

from skitter.celery.config import destination, is_consumed
from skitter.celery.runtime import runtime_of
from skitter.celery.scheduling import SLOTS_TTL_S, WATCH_S
from skitter.errors import SkitterError, UsageError
from skitter.valkey import hold

if TYPE_CHECKING:
    from collections.abc import Sequence


WATCH, PUMP = "skitter.watch", "skitter.pump"
NO_SECRET = (
    "without SKITTER_SECRET this worker runs only what its configuration names (SKITTER_SPIDERS, "
    "SKITTER_OUTPUT_NAME), and no chains, chords, callbacks or reducers of pages."
)
logger = logging.getLogger(__name__)
AGAIN_S = SLOTS_TTL_S - WATCH_S


class WorkerSignals:
    """Listens to Celery's signals for one app. They are sent for all apps of a process, so those
    that matter look whether they are meant."""

    def __init__(self, app: Any) -> None:
        self._app, self._runtime, self._held = app, runtime_of(app), ExitStack()

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
        self._runtime.in_worker = True
        if not self._fetches():
            return
        try:
            check_pool(pool_name(sender.pool_cls))
            where = self._runtime.where
            if self._runtime.secret is None:  # looked for once, for all processes
                logger.warning(NO_SECRET)
            if where.redis_url is None:
                self._held.enter_context(hold(where.directory))
        except SkitterError as error:
            print(f"Error: {error}", file=sys.__stderr__, flush=True)
            # Celery writes other exceptions into its log, and goes on.
            raise SystemExit(error.exit_code) from None

    def _fetches(self) -> bool:
        queues = self._runtime.settings.queues
        return any(is_consumed(self._app, PUMP, one) for one in (queues.http, queues.browser))

    def begin_watch(self, sender: Any, **_: Any) -> None:
        """Now, and every few seconds. A worker that takes other queues keeps none, and has no slots
        for pumps: its messages would pile up where nobody takes them."""
        queue = self._runtime.settings.queues.http
        if sender.app is self._app and is_consumed(self._app, WATCH, queue):
            watch = Watch(self._app, sender.hostname, sender.controller.concurrency)
            watch.send()
            sender.timer.call_repeatedly(WATCH_S, watch.send)

    def announce(self, **_: Any) -> None:
        self._runtime.announce_stop()

    def close_process(self, **_: Any) -> None:
        self._runtime.close()

    def release(self, sender: Any, **_: Any) -> None:
        if sender.app is self._app:
            self._runtime.close()
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

    def __init__(self, app: Any, machine: str, slots: int) -> None:
        self._app, self._runtime, self._words = app, runtime_of(app), (machine, slots)
        self._sent_at = -AGAIN_S

    def send(self) -> None:
        """Unless the last one still waits. Another worker may have run it, so not for ever."""
        if self._runtime.watch_pending and time.monotonic() - self._sent_at < AGAIN_S:
            return
        self._sent_at = time.monotonic()
        self._runtime.watch_pending = True
        where = destination(self._app, WATCH, self._runtime.settings.queues.http)
        self._app.tasks[WATCH].apply_async(self._words, expires=10 * WATCH_S, **where)


def mute_watch_logs() -> None:
    """A line every few seconds that says nothing would hide those that say something."""
    for name in ("celery.worker.strategy", "celery.app.trace"):
        logger = logging.getLogger(name)
        if _is_news not in logger.filters:
            logger.addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return "skitter.watch[" not in record.getMessage()


def check_words(words: Sequence[str]) -> None:
    """Raises UsageError for a pool that cannot fetch, before there is a server."""
    for word, following in zip(words, (*words[1:], ""), strict=True):
        if word in ("-P", "--pool"):
            check_pool(following)
        elif word.startswith(("-P", "--pool=")):
            check_pool(word.removeprefix("-P").removeprefix("--pool="))
