"""URLQueue: the frontier for programs with their own loop.

    from skitter import URLQueue

    with URLQueue("products") as queue:
        queue.push("https://example.com/a", priority=5)
        while task := queue.pop():
            queue.complete(task, {"title": fetch_title(task.url)})

Every call is one step on the server, shared with all other processes. What is popped is leased: it
returns to the queue if this process dies before `complete` or `fail`. With `ahead=50` one step
serves many calls: `pop` leases more than it returns, and completions are sent together.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, TypeVar

from skitter.app import open_frontier
from skitter.engine.leases import InHand
from skitter.errors import (
    BadOption,
    LeaseLost,
    QueueFull,
    ServerFull,
    UsageError,
    did_you_mean,
    no_such_name,
)
from skitter.frontier.delays import Departure
from skitter.frontier.feed import FULL_PAUSE_S, feed, take_feed
from skitter.frontier.frontier import ADD_BATCH, DEFAULT_LEASE_S, Frontier
from skitter.frontier.items import find_item, read_items, remove_items
from skitter.frontier.requests import identify_request
from skitter.frontier.transport.connection import check_process
from skitter.frontier.transport.endpoints import process_id
from skitter.frontier.transport.sync import has_loop, run_sync
from skitter.model import Added, Completion, Ended, Failure, Lease, Request, Result, Stats
from skitter.settings import JobOptions, Layout, check_job_name, check_number

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from skitter.frontier.completions import Sealed

T = TypeVar("T")
#: What `push` takes, with the URL.
FIELDS = frozenset({*Request.__struct_fields__, "dont_filter"})
#: The longest that `turn` reserves ahead; a longer wait is asked for again.
TURN_S = 5.0

_ABOUT = "use stats(), which has .seen, .leased and .dead; `skitter why JOB URL` knows of one URL."
#: What methods are called in queues that people wrote themselves.
ELSEWHERE = {
    **dict.fromkeys(("push_bulk", "add_urls", "add_many"), "use push_many(urls)."),
    **dict.fromkeys(("add_url", "add", "put", "enqueue"), "use push(url, priority=...)."),
    **dict.fromkeys(("get", "get_task", "get_next", "dequeue"), "use pop()."),
    **dict.fromkeys(
        ("mark_completed", "mark_complete", "mark_done", "ack", "task_done"),
        "use complete(task, result).",
    ),
    **dict.fromkeys(("mark_failed", "nack", "requeue"), "use fail(task, error)."),
    **dict.fromkeys(("get_stats", "size", "qsize"), "use stats(), which has .pending and others."),
    **dict.fromkeys(("seen", "is_seen", "processing", "failed"), _ABOUT),
    "monitor": "use `skitter status -w` in a terminal, or stats().",
    "clear": "use `skitter purge JOB` in a terminal.",
}


class URLQueue:
    """A synchronous queue on the shared frontier; thread-safe."""

    def __init__(
        self,
        job: str,
        *,
        redis: str | None = None,
        options: JobOptions | None = None,
        layout: Layout | None = None,
        lease_s: float = DEFAULT_LEASE_S,
        ahead: int = 0,
    ) -> None:
        """`redis`: a server's URL; None: SKITTER_REDIS_URL, or the embedded server.

        `ahead`: how many URLs to lease in advance, and completions to send together. A completion
        that comes too late then does not raise LeaseLost: see `flush`.
        """
        self.job = check_job_name(job)
        self._opening = partial(open_frontier, job, redis=redis, options=options, layout=layout)
        check_number("lease_s", lease_s, low=0.001, high=30 * 86_400)
        self._lease_s = lease_s
        check_number("ahead", ahead, low=0, high=10_000, whole=True)
        self._ahead = ahead
        self._ready: deque[Lease] = deque()  # leased, not yet popped
        self._in_hand = InHand(self._ready, lease_s)
        self._leased_at = 0.0
        self._done: deque[Sealed] = deque()  # completed, not yet sent
        self._lost: list[Lease] = []
        self._lock = threading.Lock()
        self._stack = AsyncExitStack()
        self._frontier: Frontier | None = None
        self._pid = 0  # of the process that opened it

    def __enter__(self) -> Self:
        if self._pid:
            check_process(self._pid)
            raise UsageError(f"the queue {self.job!r} is already open: create another URLQueue.")
        self._pid = os.getpid()
        try:
            self._frontier = self._run(self._stack.enter_async_context(self._opening()))
        except BaseException:
            self._pid = 0
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    if not TYPE_CHECKING:  # a type checker reports unknown names itself

        def __getattr__(self, name: str) -> Any:
            raise no_such_name(self, name, ELSEWHERE)

    def close(self) -> None:
        """Disconnect. Open leases return to the queue when they expire. May be called twice."""
        frontier, self._frontier = self._frontier, None
        if frontier is None or self._pid != os.getpid():  # a fork leaves all to its parent
            return
        try:
            if self._done or self._ready:
                self._run(self._let_go(frontier))
        finally:
            self._run(self._stack.aclose())
            self._pid = 0

    async def _let_go(self, frontier: Frontier) -> None:
        await self._send_done(frontier)
        await frontier.release(list(self._ready))

    def push(self, url: str, *, priority: int = 0, wait: bool = False, **request: Any) -> bool:
        """Offer a URL. True if it was new, False if it has been seen.

        `wait`: when the queue is full, wait for room instead of raising QueueFull. The rest are
        fields of `Request`: method, headers, body, meta, depth, ... and `dont_filter=True`, which
        adds the URL even if it is known.
        """
        if request and (strange := request.keys() - FIELDS):
            name = min(strange)
            hint = did_you_mean(name, FIELDS) or "see skitter.Request."
            raise UsageError(f"a request has no {name!r}: {hint}")
        return self._push([_request(url, priority=priority, **request)], wait=wait) == 1

    def push_many(
        self, urls: Iterable[str | Request], *, priority: int = 0, wait: bool = False
    ) -> int:
        """Offer many, in batches. Returns how many were new. A bad URL stops its own batch."""
        new = 0
        requests = (_as_request(url, priority=priority) for url in _several(urls))
        try:
            while batch := list(islice(requests, 4 * ADD_BATCH)):
                new += self._push(batch, wait=wait)
        except (QueueFull, ServerFull) as full:
            full.added += new  # from earlier batches
            raise
        return new

    def pop(self) -> Lease | None:
        """The best URL that may be fetched now, leased to us.

        None if there is none now; `stats().crawled` says whether there will be one.
        """
        leases = self.pop_many(1)
        return leases[0] if leases else None

    def pop_many(self, limit: int) -> list[Lease]:
        """Up to `limit` URLs, in at most one step; if there are none, what was put into the job's
        feed list meanwhile is taken first."""
        check_number("limit", limit, low=1, high=1_000_000, whole=True)
        if not self._ready:
            self._take(limit)
        elif time.monotonic() - self._leased_at > self._lease_s / 3:
            self._keep_ready()
        return self._hand_out(limit)

    def flush(self) -> list[Lease]:
        """Send the completions that are waiting (`ahead`). Returns the tasks that were no longer
        ours: they were completed too late, and nothing was changed."""
        self._run(self._send_done(self._opened))
        lost, self._lost = self._lost, []
        return lost

    def extend(self, task: Lease) -> None:
        """Renew the lease. Raises LeaseLost if it is no longer ours."""
        _check_task(task)
        self._expect(task, self._run(self._opened.extend([task], ttl_s=self._lease_s)))
        self._in_hand.add([task])

    def complete(self, task: Lease, result: Any = None, *, links: Iterable[str] = ()) -> None:
        """Finish it, with its result and the links it led to. LeaseLost: nothing was changed."""
        self._ends(task)
        about = {"depth": task.request.depth + 1, "parent": task.url}
        found = [_as_request(url, **about) for url in _several(links)]
        completion = Completion(lease=task, items=() if result is None else (result,), links=found)
        if not self._ahead:
            self._expect(task, self._run(self._opened.complete([completion])))
            return
        self._done.append(self._opened.seal(completion))
        if len(self._done) > self._ahead:
            self._run(self._send_done(self._opened))

    def fail(self, task: Lease, error: str | BaseException, *, retry: bool = True) -> bool:
        """Report a failure. True if it will be retried, False if it is dead now.

        It is retried with backoff, at a lower priority, until max_retries; `retry=False` gives up
        at once. Raises LeaseLost.
        """
        self._ends(task)
        if not isinstance(error, str | BaseException):
            raise BadOption("error", error, "text or an exception: it is what `dead` shows")
        text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        verb = self._opened.retry if retry else self._opened.bury
        [ended] = self._expect(task, self._run(verb([Failure(lease=task, error=text)])))
        return ended is Ended.RETRIED

    def release(self, task: Lease, *, after_s: float = 0.0) -> None:
        """Return it to the queue for others. Raises LeaseLost."""
        self._ends(task)
        self._expect(task, self._run(self._opened.release([task], after_s=after_s)))

    def stats(self) -> Stats:
        """The current counts: pending, delayed, leased, done, dead, seen, ..."""
        self._run(self._send_done(self._opened))
        return self._run(self._opened.stats())

    def results(self, *, remove: bool = False) -> Iterator[Result]:
        """What `complete` stored. `remove`: delete each page of results once it was consumed."""
        self._run(self._send_done(self._opened))
        pages = read_items(self._opened)
        while page := self._run(anext(pages, None)):
            yield from page
            if remove:
                self._run(remove_items(self._opened, page))

    def result(self, url: str) -> Any:
        """What `complete` stored for this URL, most recently.

        None: it is not completed, it has no result, or its result has left the queue for a
        database (`skitter why JOB URL` tells). Reads back from the newest result: for all of them,
        use `results`.
        """
        self._run(self._send_done(self._opened))
        _, fingerprint, host = identify_request(_request(url), self._opened.layout)
        found = self._run(find_item(self._opened, host=host, fingerprint=fingerprint))
        return found.item if found else None

    def turn(self, url: str) -> float:
        """Wait until this URL's host may be asked once more, and take that turn, for a request of
        your own beside the queue. Returns the seconds waited.

        What `pop` returns has had its turn. Turns are shared with all processes of the job.
        """
        _, _, host = identify_request(_request(url), self._opened.layout)
        waited = 0.0
        while True:
            asked = Departure(host=host, max_wait_s=TURN_S)
            [granted] = self._run(self._opened.depart([asked]))
            time.sleep(wait := granted.wait_s if not granted.is_too_late else TURN_S)
            waited += wait
            if not granted.is_too_late:
                return waited

    @property
    def _opened(self) -> Frontier:
        if self._frontier is None:
            raise _not_open()
        return self._frontier

    def _take(self, limit: int) -> None:
        """Lease some, after sending what is done, which may free its hosts."""

        async def turn(frontier: Frontier) -> list[Lease]:
            await self._send_done(frontier)
            if not (leases := await lease(frontier)) and await take_feed(frontier):
                leases = await lease(frontier)
            return leases

        async def lease(frontier: Frontier) -> list[Lease]:
            many = limit + self._ahead
            return (await frontier.lease(many, ttl_s=self._lease_s, in_company=True)).leases

        self._leased_at = time.monotonic()
        self._ready.extend(self._run(turn(self._opened)))

    def _hand_out(self, limit: int) -> list[Lease]:
        """What may kill this process goes out alone: else it would not be known what did."""
        taken, suspect = self._in_hand.take(limit, self._opened)
        if suspect is None:
            return taken
        self._run(self._send_done(self._opened))
        return self._run(self._in_hand.isolate(suspect, self._opened))

    def _ends(self, task: Lease) -> None:
        _check_task(task)
        self._in_hand.end(task)

    def _keep_ready(self) -> None:
        """They have waited for long: renew those that are still ours."""
        kept, self._leased_at = list(_popped(self._ready)), time.monotonic()
        ended = self._run(self._opened.extend(kept, ttl_s=self._lease_s))
        self._ready.extend(
            lease for lease, said in zip(kept, ended, strict=True) if said != Ended.LOST
        )

    async def _send_done(self, frontier: Frontier) -> None:
        if not self._done:
            return
        done = list(_popped(self._done))
        try:
            ended = await frontier.complete_sealed(done)
        except BaseException:
            self._done.extendleft(reversed(done))  # for the next attempt
            raise
        self._lost += [
            sealed.lease for sealed, said in zip(done, ended, strict=True) if said is Ended.LOST
        ]

    def _push(self, requests: list[Request], *, wait: bool) -> int:
        """Nothing is sent before all are checked. Waiting for room does not block other threads."""
        offers = [self._opened.offer(request) for request in requests]
        new = 0
        while True:
            try:
                return new + self._run(feed(self._opened, offers, wait=False))[Added.NEW]
            except QueueFull as full:
                if not wait:
                    raise
                new += full.added
            time.sleep(FULL_PAUSE_S)

    def _expect(self, task: Lease, ended: list[Ended]) -> list[Ended]:
        if ended == [Ended.LOST]:
            raise LeaseLost(task.url)
        return ended

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            check_process(self._pid or process_id())  # first: after a fork the lock may be stuck
            if has_loop():
                raise UsageError(
                    "URLQueue is synchronous and cannot run inside an event loop: "
                    "use `async with skitter.open_frontier(...)` there."
                )
            with self._lock:
                if not self._pid:  # another thread closed it meanwhile
                    raise _not_open()
                return run_sync(work)
        finally:
            work.close()  # no effect on work that has run


def _popped(waiting: deque[T]) -> Iterator[T]:
    """Drain the deque, even if another thread takes the last one."""
    with suppress(IndexError):
        while True:
            yield waiting.popleft()


def _not_open() -> UsageError:
    return UsageError("the queue is not open: use it as `with URLQueue(...) as queue:`.")


def _check_task(task: Lease) -> None:
    if not isinstance(task, Lease):
        raise BadOption("task", task, "what `pop` returned, unless that was None")


def _several(urls: Iterable[str | Request]) -> Iterable[str | Request]:
    """A string is iterable too, but not as URLs."""
    if isinstance(urls, str | bytes) or not isinstance(urls, Iterable):
        raise BadOption("urls", urls, "a list of URLs, or another iterable of them")
    return urls


def _as_request(url: str | Request, **fields: Any) -> Request:
    if isinstance(url, Request):
        return url
    if not isinstance(url, str):
        raise BadOption("url", url, "text, or a skitter.Request")
    return _request(url, **fields)


def _request(url: str, *, dont_filter: bool = False, **fields: Any) -> Request:
    if not dont_filter:
        return Request(url=url, **fields)
    if fields.get("unique"):
        raise UsageError("dont_filter gives a request its own `unique`: leave one of them out.")
    return Request(url=url, **{**fields, "unique": uuid.uuid4().hex})
