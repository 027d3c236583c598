"""The log, and traces.

Standard `logging` underneath: use `page.log.info(...)` in a handler, or your own logger, and
anything else attached to the root logger (Sentry, structlog) gets the records too.
"""

from __future__ import annotations

import logging
import logging.handlers
import sys
import time
from collections import deque
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from heapq import merge
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from skitter.errors import SkitterError, UsageError
from skitter.observe.report import duration
from skitter.redact import redact, redact_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.model import Request
    from skitter.settings import LogOptions


LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
#: Lines kept for the next heartbeat: this many below warning level, and as many others.
KEPT: Final = 1000
LONGEST: Final = 4000
#: Repetitions are looked for among this many lines.
LATELY: Final = 20
#: Celery's and Scrapy's own messages matter only when something is wrong.
_ENGINES: Final = frozenset({"celery", "kombu", "scrapy", "twisted"})
_OURS: Final = logging.getLogger("skitter")

#: The page being handled. Each page has its own task, so nobody needs to reset it.
PAGE_URL: ContextVar[str] = ContextVar("skitter_page_url", default="")
_OWNER: ContextVar[ClusterLog | None] = ContextVar("skitter_log_owner", default=None)


class Line(NamedTuple):
    """One line of the log of all workers."""

    number: int
    level: str
    text: str
    url: str
    at: float = 0.0  # by the monotonic clock
    last_at: float = 0.0
    times: int = 1  # how often it was said before the server could have it

    def entry(self, *, now: float, server_now: float) -> tuple[str, str, str, float]:
        """For the server: level, text, URL, and when that was by its clock."""
        text = self.text
        if self.times > 1:
            text += f" (said {self.times:,} times in {duration(self.last_at - self.at)})"
        return self.level, text, self.url, server_now - max(0.0, now - self.at)


class ClusterLog(logging.Handler):
    """Keeps records until a heartbeat sends them to the server, where `skitter logs` reads them.

    It never blocks and never grows without bound: of a flood the newest lines are kept, and the log
    says how many were dropped. Warnings have a queue of their own, which lesser lines cannot fill.
    """

    def __init__(self, name: str = "skitter.worker") -> None:
        super().__init__(_OURS.level or logging.INFO)
        self._logger = logging.getLogger(name)
        self._quiet: deque[Line] = deque(maxlen=KEPT)
        self._loud: deque[Line] = deque(maxlen=KEPT)
        self._numbers = count()
        self._dropped = 0
        self._guard = RLock()  # handlers may log from threads

    def __call__(self, level: str, text: str) -> None:
        """Log a message of our own."""
        before = _OWNER.set(self)
        try:
            if self in logging.getLogger().handlers:
                self._logger.log(LEVELS[level], "%s", text)
            elif LEVELS[level] >= self.level:
                self._put(LEVELS[level], text)
        finally:
            _OWNER.reset(before)

    @contextmanager
    def attached(self) -> Iterator[None]:
        """While this lasts, receive the records of all loggers in this process."""
        if _OURS.level == logging.NOTSET:
            _OURS.setLevel(self.level)
        logging.getLogger().addHandler(self)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(self)

    def own(self) -> None:
        """Claim what is logged in this context: a process may work for several jobs."""
        _OWNER.set(self)

    def emit(self, record: logging.LogRecord) -> None:
        if _OWNER.get() not in (None, self):
            return
        if record.levelno < logging.WARNING and record.name.partition(".")[0] in _ENGINES:
            return
        try:
            self._put(record.levelno, _text_of(record), PAGE_URL.get())
        except Exception:  # a message that does not fit its arguments
            self.handleError(record)

    def _put(self, level: int, text: str, url: str = "") -> None:
        room = self._loud if level >= logging.WARNING else self._quiet
        text = redact_text(text[:LONGEST])
        now = time.monotonic()
        line = Line(next(self._numbers), _name_of(level), text, url and redact(url), now, now)
        with self._guard:
            if level >= logging.WARNING and self._repeats(room, line):
                return
            self._dropped += len(room) == KEPT
            room.append(line)

    @staticmethod
    def _repeats(room: deque[Line], line: Line) -> bool:
        """Count a line that waits already: an outage is one line, however often it is noticed."""
        for place in range(len(room) - 1, max(-1, len(room) - 1 - LATELY), -1):
            one = room[place]
            if one[1:4] == line[1:4]:
                room[place] = one._replace(times=one.times + 1, last_at=line.at)
                return True
        return False

    def waiting(self) -> list[Line]:
        """What the server does not have yet, oldest first."""
        with self._guard:
            if dropped := self._dropped:
                lines = f"{dropped:,} line{'s were' if dropped > 1 else ' was'}"
                self._put(logging.WARNING, f"{lines} dropped from the log: too many at once")
                self._dropped = 0
            return list(merge(self._quiet, self._loud))

    def sent(self, last: Line) -> None:
        """The server has everything up to this line."""
        with self._guard:
            for room in (self._quiet, self._loud):
                while room and room[0].number <= last.number:
                    room.popleft()


@contextmanager
def open_log(options: LogOptions, *, job: str = "", to_stderr: bool = False) -> Iterator[None]:
    """Apply the options: the level of our loggers, and of the root unless it has one; a file.
    `job`: which the process works for. `to_stderr`: warnings as lines of JSON, if that is wanted,
    of a process whose log nobody else keeps."""
    level, root = LEVELS[options.level], logging.getLogger()
    _OURS.setLevel(level)
    if root.level == logging.WARNING:  # Python's default; a user's own basicConfig() is respected
        root.setLevel(level)
    handler = _handler(options, job, to_stderr=to_stderr)
    handler.setLevel(max(level, logging.WARNING) if to_stderr and not options.file else level)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()


def _handler(options: LogOptions, job: str, *, to_stderr: bool) -> logging.Handler:
    if options.file:
        return _file_handler(options, job)
    if not to_stderr:
        return logging.NullHandler()
    handler = logging.StreamHandler()
    if options.format == "json":
        handler.setFormatter(JsonFormatter(job))
    return handler


def check_log(options: LogOptions) -> None:
    """Raise UsageError if the file cannot be written, before anything depends on it."""
    if options.file:
        _file_handler(options).close()


def _file_handler(options: LogOptions, job: str = "") -> logging.Handler:
    assert options.file
    try:
        handler = logging.handlers.WatchedFileHandler(options.file, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the log cannot be written to {options.file}: {error.strerror}. Choose another file."
        ) from error
    handler.setFormatter(JsonFormatter(job) if options.format == "json" else TextFormatter())
    return handler


class TextFormatter(logging.Formatter):
    """One line of text: time, level, process, logger, message, page."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(process)d %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        url = PAGE_URL.get()
        return redact_text(f"{super().format(record)}{f'  {url}' if url else ''}")


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with its traceback if there is one."""

    def __init__(self, job: str = "") -> None:
        super().__init__()
        self._job = job

    def format(self, record: logging.LogRecord) -> str:
        facts = {
            "at": record.created,
            "level": _name_of(record.levelno),
            "job": self._job,
            "logger": record.name,
            "process": record.process,
            "url": redact(PAGE_URL.get()),
            "text": redact_text(record.getMessage()),
        }
        if record.exc_info:
            facts["traceback"] = redact_text(self.formatException(record.exc_info))
        return msgspec.json.encode(facts).decode()


def _text_of(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    return record.getMessage() + (f": {type(error).__name__}: {error}" if error else "")


def _name_of(level: int) -> str:
    """Our highest level that is not above it."""
    return next((name for name, ours in reversed(LEVELS.items()) if ours <= level), "debug")


def loudness(level: str) -> int:
    """An unknown level counts as info."""
    return LEVELS.get(level, logging.INFO)


_NOTHING: Final = nullcontext()
#: The placeholder until a provider is set.
_NOT_SET_UP: Final = "ProxyTracerProvider"


class Spans:
    """OpenTelemetry spans of one worker or loader, for processes that use it; nothing for others.

    Anyone who sets OpenTelemetry up (`opentelemetry-instrument skitter run ...`, or a spider's
    file) has imported it by then: look for it among the loaded modules, and never import it.
    Libraries import it too, so a provider must have been set as well. Attribute names follow its
    conventions.
    """

    __slots__ = ("_trace", "_tracer")

    def __init__(self) -> None:
        trace = self._trace = sys.modules.get("opentelemetry.trace")
        is_set_up = trace and type(trace.get_tracer_provider()).__name__ != _NOT_SET_UP
        self._tracer: Any = trace.get_tracer("skitter") if trace and is_set_up else None

    def fetch(self, request: Request) -> AbstractContextManager[object]:
        return self._of_page("fetch", request) if self._tracer else _NOTHING

    def handle(self, request: Request) -> AbstractContextManager[object]:
        return self._of_page("handle", request) if self._tracer else _NOTHING

    def load(self, rows: int) -> AbstractContextManager[object]:
        return self._start("load", {"skitter.rows": rows}) if self._tracer else _NOTHING

    def _of_page(self, name: str, request: Request) -> AbstractContextManager[object]:
        about = {
            "http.request.method": request.method,
            "url.full": redact(request.url),
            "server.address": urlsplit(request.url).hostname or "",
            "skitter.handler": request.handler or "",
            "skitter.depth": request.depth,
        }
        return self._start(name, about)

    @contextmanager
    def _start(self, name: str, attributes: dict[str, Any]) -> Iterator[None]:
        """Other exceptions than ours say that it is too early, or time to stop: not an error."""
        with self._tracer.start_as_current_span(
            f"skitter.{name}",
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except SkitterError as error:
                assert self._trace is not None
                span.record_exception(error)
                span.set_status(self._trace.StatusCode.ERROR, str(error))
                raise
