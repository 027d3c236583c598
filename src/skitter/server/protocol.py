"""HTTP with timeouts against slow clients: uvicorn would wait forever for headers."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from starlette.types import Scope
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

#: From the connection, or the first byte of a later request, to the end of its headers.
HEADERS_S = 10.0
#: From an answer to the next request.
IDLE_S = 5.0
HEADERS_BYTES = 64 * 2**10
#: To send the rest of a refused body: a client that is cut off does not see why.
BODY_S = 20.0
#: To read at least some of an answer.
UNREAD_S = 60.0
CLOSE = (b"connection", b"close")
#: Key in a call's state: uvicorn's side of it.
CYCLE = "skitter.cycle"

Timer = Literal["headers", "body", "idle", "unread"]


def take_cycle(scope: Scope) -> RequestResponseCycle | None:
    """Uvicorn's side of a call. Not left in its scope: both would wait for the garbage collector,
    as each refers to the other."""
    cycle: RequestResponseCycle | None = scope.get("state", {}).pop(CYCLE, None)
    return cycle


def body_of(cycle: RequestResponseCycle) -> bytes | None:
    """The whole body, if it has arrived: no need to wait for ASGI's messages."""
    return None if cycle.more_body or cycle.disconnected else bytes(cycle.body)


def answer(cycle: RequestResponseCycle, head: bytes, body: bytes) -> None:
    """Send a whole answer at once. By ASGI's two messages, with headers checked one by one, a
    producer's push takes a seventh more CPU time: docs/adr/0070-pushes-are-answered-at-once.md."""
    if cycle.disconnected:
        return
    cycle.waiting_for_100_continue, cycle.response_started = False, True
    lines = _lines(*cycle.default_headers, *(() if cycle.keep_alive else (CLOSE,)))
    whole = b"%b%bcontent-length: %d\r\n\r\n%b" % (head, lines, len(body), body)
    cycle.transport.write(whole)
    cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()


@lru_cache(maxsize=4)  # the date changes once a second
def _lines(*headers: tuple[bytes, bytes]) -> bytes:
    return b"".join(b"%b: %b\r\n" % line for line in headers)


class PatientProtocol(HttpToolsProtocol):
    """Limits the time for headers, refused bodies and unread answers."""

    headers_s = HEADERS_S
    idle_s = IDLE_S

    def __init__(self, *words: Any, **names: Any) -> None:
        super().__init__(*words, **names)
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._answered_at = 0.0
        self._unread = 0  # bytes of incomplete headers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in [*self._timers]:
            self._stop(timer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and self.cycle.scope is self.scope:  # its headers are complete
            self._stop("headers")
            return
        if "headers" not in self._timers:
            self._await_headers()
        self._unread += len(data)
        if self._unread > HEADERS_BYTES and not self.transport.is_closing():
            self.send_400_response("The headers are too large.")

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if self.scope["method"] != "HEAD":  # which has no body
            self.scope["state"][CYCLE] = self.cycle

    def on_message_complete(self) -> None:
        self._stop("body")
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.cycle.response_complete and self.cycle.more_body:
            self._start("body", BODY_S, self.transport.close)
        if self.transport.is_closing():
            self._await_reader()
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        # As uvicorn does, but for its timer, which it sets and cancels for every request.
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._answered_at = self.loop.time()
        if "idle" not in self._timers:
            self._start("idle", self.idle_s, self._end_idle)

    def _end_idle(self) -> None:
        """Hang up if no request has come for a while. One timer serves many requests."""
        is_busy = {"headers", "body"} & self._timers.keys() or not self.cycle.response_complete
        left_s = self._answered_at + self.idle_s - self.loop.time()
        if left_s > 0 or is_busy:
            self._start("idle", left_s if left_s > 0 else self.idle_s, self._end_idle)
        else:
            self.transport.close()
            self._await_reader()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def _await_reader(self, before: float = math.inf) -> None:
        """Cut off a client that has stopped reading: its answer may keep a database open, and
        asyncio keeps even a closed connection until all is sent."""
        left = self.transport.get_write_buffer_size()
        if left >= before:
            self.transport.abort()
        elif left:
            self._start("unread", UNREAD_S, partial(self._await_reader, left))

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop("unread")

    def _await_headers(self) -> None:
        self._unread = 0
        self._start("headers", self.headers_s, self.transport.close)

    def _start(self, timer: Timer, seconds: float, end: Callable[[], None]) -> None:
        self._stop(timer)
        self._timers[timer] = self.loop.call_later(seconds, end)

    def _stop(self, timer: Timer) -> None:
        if handle := self._timers.pop(timer, None):
            handle.cancel()
