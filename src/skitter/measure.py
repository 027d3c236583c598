"""Metrics: count and time what your own code does, across the whole cluster.

    import skitter

    metrics = skitter.Metrics()

    @metrics.timing("parse price")
    def parse_price(text): ...

    metrics.increment("books", tags={"shop": "one"})
    print(metrics.stats("parse price").p95)

Use it in a script, a handler or a Celery task, from any thread, inside an event loop or not: its
own thread sends what was counted, in one round trip per second. While the server is away nothing
waits and nothing fails; only figures are lost.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import inspect
import logging
import os
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import AbstractContextManager, AsyncExitStack, aclosing, suppress
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

import skitter.frontier.transport.redis_client  # noqa: F401 - at exit, it could not be imported any more
from skitter.embedded import hold
from skitter.errors import no_such_name
from skitter.frontier.records.own import (
    DAYS,
    ERROR,
    SUCCESS,
    OwnBatch,
    OwnMetrics,
    checked_name,
    checked_value,
    spell_tags,
)
from skitter.frontier.transport.connection import connect
from skitter.settings import check_number, find_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
    from pathlib import Path

P = ParamSpec("P")
T = TypeVar("T")

FLUSH_S: Final = 1.0
FLUSH_RECORDS: Final = 500
#: How long a call is retried while the server is away, and how long process exit waits.
PATIENCE_S: Final = 2.0
ANSWER_S: Final = 30.0
logger = logging.getLogger("skitter.metrics")

#: What methods are called elsewhere.
ELSEWHERE = {
    **dict.fromkeys(("incr", "inc", "count"), "use increment(name, value)."),
    **dict.fromkeys(("timer", "timed", "time_function"), "use the decorator @timing(name)."),
    **dict.fromkeys(
        ("record", "record_timing", "record_time", "histogram"), "use observe(name, seconds)."
    ),
    **dict.fromkeys(("get_stats", "get_timing"), "use stats(name)."),
    **dict.fromkeys(("get", "get_counter", "get_count"), "use total(name)."),
    "monitor": "use `skitter metrics` in a terminal.",
}


@dataclass(frozen=True, slots=True)
class TimingStats:
    """What the whole cluster measured, in seconds, within 2.2 %. None: no measurements."""

    count: int  # calls that were measured
    errors: int  # those that raised
    mean: float | None  # of all calls
    p50: float | None  # half of the calls took at most this long
    p95: float | None  # 95 % took at most this long
    p99: float | None  # 99 % took at most this long


class Metrics:
    """Your own counters and timings, by day (UTC), kept for 7 days."""

    _thread: threading.Thread | None

    def __init__(self, *, redis: str | None = None, directory: Path | None = None) -> None:
        """`redis`: a server's URL; None: SKITTER_REDIS_URL, or the embedded server."""
        self._opening = functools.partial(find_server, redis, directory)
        self._begin_anew()
        atexit.register(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    if not TYPE_CHECKING:  # a type checker reports unknown names itself

        def __getattr__(self, name: str) -> Any:
            raise no_such_name(self, name, ELSEWHERE)

    def increment(
        self, name: str, value: float = 1, *, tags: Mapping[str, object] | None = None
    ) -> None:
        """Add to a counter. Each combination of tags is counted separately: use few."""
        row = checked_name(name), spell_tags(tags)
        self._record(lambda batch: batch.count(row, checked_value(value)))

    def timing(self, name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
        """Decorate a function or generator, sync or async: each call is timed until it ends; calls
        that raise count as errors."""
        checked_name(name)

        def decorate(function: Callable[P, T]) -> Callable[P, T]:
            timed = _timed(function, functools.partial(_Stopwatch, self, name))
            return functools.wraps(function)(timed)

        return decorate

    def observe(self, name: str, seconds: float, *, ok: bool = True) -> None:
        """Record a duration."""
        checked_name(name)
        checked_value(seconds)
        self._record(lambda batch: batch.time(name, seconds, ok=ok))

    def stats(self, name: str, *, days: int = 1) -> TimingStats:
        """Timings of today, or of the last days, from the whole cluster. One round trip per day;
        raises server errors."""
        check_number("days", days, low=1, high=DAYS, whole=True)

        async def read(own: OwnMetrics) -> TimingStats:
            timing = await own.read_timing(name, days=days)
            totals = await own.read_totals(days=days)
            p50, p95, p99 = (_seconds(timing.quantile(share)) for share in (0.5, 0.95, 0.99))
            ok, errors = (round(totals.get((name, how), 0)) for how in (SUCCESS, ERROR))
            return TimingStats(ok + errors, errors, _seconds(timing.mean_ms), p50, p95, p99)

        return self._ask(read)

    def total(self, name: str, *, days: int = 1, tags: Mapping[str, object] | None = None) -> float:
        """The counter's value; over all tags, or for exactly these."""
        check_number("days", days, low=1, high=DAYS, whole=True)
        wanted = None if tags is None else spell_tags(tags)

        async def read(own: OwnMetrics) -> float:
            totals = await own.read_totals(days=days)
            of_name = {row[1]: value for row, value in totals.items() if row[0] == name}
            return sum(of_name.values()) if wanted is None else of_name.get(wanted, 0)

        return self._ask(read)

    def flush(self) -> None:
        """Send what was counted now. Raises server errors."""

        async def nothing(own: OwnMetrics) -> None:
            return None

        self._ask(nothing)

    def close(self) -> None:
        """Send what is left, without retrying, and end the thread. Counting again restarts it."""
        thread = self._thread
        if thread is None or self._pid != os.getpid():
            return
        self._stop.set()
        self._some.set()
        self._many.set()
        thread.join(PATIENCE_S + FLUSH_S)
        self._thread = None

    # --- in the caller's thread -------------------------------------------------------------------

    def _begin_anew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._some, self._many = threading.Event(), threading.Event()
        self._batch = OwnBatch()
        self._asks: deque[tuple[Callable[[OwnMetrics], Awaitable[Any]], Future[Any]]] = deque()
        self._thread = None

    def _record(self, add: Callable[[OwnBatch], None]) -> None:
        self._have_thread()
        with self._lock:
            add(self._batch)
            is_enough = self._batch.records >= FLUSH_RECORDS
        self._some.set()
        if is_enough:
            self._many.set()

    def _ask(self, read: Callable[[OwnMetrics], Awaitable[T]]) -> T:
        self._have_thread()
        answer: Future[T] = Future()
        self._asks.append((read, answer))
        self._many.set()
        self._some.set()
        return answer.result(ANSWER_S)

    def _have_thread(self) -> None:
        if self._pid != os.getpid():  # a forked process has neither the thread nor the connection
            self._begin_anew()
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._stop = threading.Event()  # an earlier thread may still be ending
                    self._thread = threading.Thread(
                        target=self._work, args=[self._stop], name="skitter-metrics", daemon=True
                    )
                    self._thread.start()

    # --- in the thread that sends -----------------------------------------------------------------

    def _work(self, stop: threading.Event) -> None:
        line = _Line(self._opening)
        with asyncio.Runner() as runner:
            while not stop.is_set():
                self._some.wait()
                self._many.wait(FLUSH_S)
                self._some.clear()
                self._many.clear()
                runner.run(self._send_and_answer(line))
            runner.run(self._send_and_answer(line))  # what arrived meanwhile
            runner.run(line.close())

    async def _send_and_answer(self, line: _Line) -> None:
        """A reader sees everything counted before it asked: the questions are taken first."""
        asks = [self._asks.popleft() for _ in range(len(self._asks))]
        with self._lock:
            batch, self._batch = self._batch, OwnBatch()
        problem = await self._send(line, batch)
        for read, answer in asks:
            try:
                if problem:
                    raise problem
                answer.set_result(await read(await line.open()))
            except Exception as error:
                answer.set_exception(error)

    async def _send(self, line: _Line, batch: OwnBatch) -> Exception | None:
        try:
            if batch.counts:
                await (await line.open()).add(batch)
        except Exception as error:
            logger.debug("metrics were lost: %s", error)
            await line.close()
            return error
        return None


class _Line:
    """The connection to the server, opened when needed."""

    def __init__(self, opening: Callable[[], Any]) -> None:
        self._opening = opening
        self._stack = AsyncExitStack()
        self._own: OwnMetrics | None = None

    async def open(self) -> OwnMetrics:
        if self._own is None:
            where = self._opening()
            url, password = where.redis_url, None
            if url is None:  # may block: this thread is ours, and no other can be started at exit
                embedded = self._stack.enter_context(hold(where.directory))
                url, password = embedded.url, embedded.password
            server = await self._stack.enter_async_context(connect(url, password=password))
            server.patience_s = PATIENCE_S
            self._own = OwnMetrics.on(server)
        return self._own

    async def close(self) -> None:
        self._own = None
        with suppress(Exception):  # the server may be gone
            await self._stack.aclose()


def _timed(
    function: Callable[..., Any], watch: Callable[[], AbstractContextManager[None]]
) -> Callable[..., Any]:
    """Keep the kind of function: callers of a handler inspect it."""

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        with watch():
            return await function(*args, **kwargs)

    async def async_generator(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        with watch():
            async with aclosing(function(*args, **kwargs)) as found:
                async for one in found:
                    yield one

    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with watch():
            return (yield from function(*args, **kwargs))

    def plain(*args: Any, **kwargs: Any) -> Any:
        with watch():
            return function(*args, **kwargs)

    if inspect.iscoroutinefunction(function):
        return coroutine
    if inspect.isasyncgenfunction(function):
        return async_generator
    return generator if inspect.isgeneratorfunction(function) else plain


class _Stopwatch(AbstractContextManager[None]):
    """`with _Stopwatch(...)`: an exception inside counts as an error. A generator that is not read
    to its end does not."""

    __slots__ = ("_metrics", "_name", "_started")

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._metrics, self._name = metrics, name

    def __enter__(self) -> None:
        self._started = perf_counter()

    def __exit__(self, kind: object, *_: object) -> None:
        ok = kind is None or kind is GeneratorExit
        self._metrics.observe(self._name, perf_counter() - self._started, ok=ok)


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000
