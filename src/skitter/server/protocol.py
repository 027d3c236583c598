"""HTTP against clients that are slow on purpose: uvicorn would wait for headers for ever."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

#: From the connection, or the first byte of a further request, to the end of its headers.
HEADERS_S = 10.0
HEADERS_BYTES = 64 * 2**10
#: For the rest of a body that was refused: a client that is cut off does not see why. And for a
#: client to read the rest of its answer, when the connection is to end.
LINGER_S = 20.0
CONTINUE = b"HTTP/1.1 100 "
#: In the state of a call: its body has come, and nobody has to wait for it.
WHOLE = "skitter.whole"
#: There, too: `answer` of the call, for those that have all of it at once.
ANSWER = "skitter.answer"


class HeadWithBody:
    """A transport that keeps the head of an answer until its body comes: uvicorn writes them
    apart, which would be two packets. (ASGI wants no less: it has servers wait for the body.)"""

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


def answer(cycle: RequestResponseCycle, head: bytes, body: bytes) -> None:
    """A whole answer at once. ASGI's way, with two messages whose headers are checked one by one,
    costs a producer's push a tenth of its time."""
    if cycle.disconnected:
        return
    cycle.waiting_for_100_continue, cycle.response_started = False, True
    more = [*cycle.default_headers, (b"content-length", b"%d" % len(body))]
    if not cycle.keep_alive:
        more.append((b"connection", b"close"))
    lines = b"".join(b"%b: %b\r\n" % line for line in more)
    cycle.transport.write_whole(head + lines + b"\r\n" + body)  # type: ignore[attr-defined]
    cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()


class PatientProtocol(HttpToolsProtocol):
    """Patient, but not for ever."""

    headers_s = HEADERS_S

    def __init__(self, *words: Any, **names: Any) -> None:
        super().__init__(*words, **names)
        self._deadline: asyncio.TimerHandle | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._unread = 0  # bytes of headers that are not complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_lingering()
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
            self.scope["state"][ANSWER] = partial(answer, self.cycle)

    def on_message_complete(self) -> None:
        self.scope["state"][WHOLE] = True
        self._stop_lingering()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.cycle.response_complete and self.cycle.more_body:
            self._linger = self.loop.call_later(LINGER_S, self.transport.close)
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        """asyncio keeps a connection that is closed for as long as its client does not read."""
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
