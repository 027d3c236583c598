"""HTTP with timeouts against slow clients: uvicorn would wait forever for headers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

    from starlette.types import Scope
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

#: From the connection, or the first byte of a later request, to the end of its headers.
HEADERS_S = 10.0
#: From an answer to the next request.
IDLE_S = 5.0
HEADERS_BYTES = 64 * 2**10
#: Time to send the rest of a refused body (a client that is cut off does not see why), and to read
#: the rest of an answer before the connection closes.
LINGER_S = 20.0
CONTINUE = b"HTTP/1.1 100 "
CLOSE = (b"connection", b"close")
#: Key in a call's state: uvicorn's side of it.
CYCLE = "skitter.cycle"


class HeadWithBody:
    """A transport that holds back the head of an answer until its body comes: uvicorn would send
    them as two packets. (ASGI, too, asks servers to wait for the body.)"""

    __slots__ = ("_head", "_is_first", "_protocol", "_transport")

    def __init__(self, protocol: PatientProtocol) -> None:
        self._protocol, self._transport = protocol, protocol.transport
        self._head = b""
        self._is_first = True

    def write(self, data: bytes) -> None:
        if self._is_first and not data.startswith(CONTINUE):
            self._head, self._is_first = data, False
        else:
            self._transport.write(self._head + data)
            self._head = b""

    def write_whole(self, data: bytes) -> None:
        self._is_first = False
        self._transport.write(data)

    def close(self) -> None:
        self._transport.write(self._head)
        self._protocol.hang_up()

    def is_closing(self) -> bool:
        return self._transport.is_closing()


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
    cycle.transport.write_whole(whole)  # type: ignore[attr-defined]
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
        self._deadline: asyncio.TimerHandle | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._answered_at = 0.0
        self._unread = 0  # bytes of incomplete headers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_lingering()
        if self._idle is not None:
            self._idle.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and self.cycle.scope is self.scope:  # its headers are complete
            self._stop_waiting()
            return
        if self._deadline is None:
            self._await_headers()
        self._unread += len(data)
        if self._unread > HEADERS_BYTES and not self.transport.is_closing():
            self.send_400_response("The headers are too large.")

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if self.scope["method"] != "HEAD":  # which has no body
            self.cycle.transport = HeadWithBody(self)  # type: ignore[assignment]
            self.scope["state"][CYCLE] = self.cycle

    def on_message_complete(self) -> None:
        self._stop_lingering()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.cycle.response_complete and self.cycle.more_body:
            self._linger = self.loop.call_later(LINGER_S, self.transport.close)
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        # As uvicorn does, but for its timer, which it sets and cancels for every request.
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._answered_at = self.loop.time()
        if self._idle is None:
            self._idle = self.loop.call_later(self.idle_s, self._end_idle)

    def _end_idle(self) -> None:
        """Hang up if no request has come for a while. One timer serves many requests."""
        is_busy = self._deadline or self._linger or not self.cycle.response_complete
        left_s = self._answered_at + self.idle_s - self.loop.time()
        if left_s > 0 or is_busy:
            self._idle = self.loop.call_later(left_s if left_s > 0 else self.idle_s, self._end_idle)
        else:
            self._idle = None
            self.hang_up()

    def hang_up(self) -> None:
        """Abort after a while: asyncio keeps a closed connection open until the client reads."""
        if not self.transport.is_closing():
            self.transport.close()
            if self.transport.get_write_buffer_size():
                self.loop.call_later(LINGER_S, self.transport.abort)

    def _await_headers(self) -> None:
        self._unread = 0
        self._deadline = self.loop.call_later(self.headers_s, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_lingering(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
