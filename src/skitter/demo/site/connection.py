"""One client's connection: requests in, one at a time, answers out.

A protocol, not streams: one callback per request costs a third of two awaits.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from time import monotonic, time
from typing import TYPE_CHECKING, Final, cast

from skitter.demo.site.addresses import AccessLog, Entry
from skitter.demo.site.http1 import (
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    Answer,
    Head,
    Refusal,
    parse_head,
    write_answer,
)

if TYPE_CHECKING:
    from skitter.demo.site.answers import Answers

REQUEST_TIMEOUT_S: Final = 5.0  # from the first byte of a request to its last

LINGER_S: Final = 1.0

_END: Final = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """Reads a request, answers it, reads the next. Whatever arrives meanwhile waits."""

    def __init__(self, answers: Answers, log: AccessLog, everyone: set[Connection]) -> None:
        self._answers = answers
        self._log = log
        self._everyone = everyone
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._answering: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._closing = False
        self._is_last = False  # the client will send no more
        self._port = 0
        self._transport: asyncio.Transport | None = None
        self.gone: asyncio.Future[None] = self._loop.create_future()
        everyone.add(self)

    # --- what asyncio calls -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._port = (transport.get_extra_info("peername") or ("", 0))[1]  # it may be gone
        if self._closing:  # the shop closed while the client was connecting
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._closing:  # the rest of a refused request
            return
        self._received += data
        if self._answering is None:
            self._serve()
        if self._answering is not None and len(self._received) > MAX_HEAD_BYTES + MAX_BODY_BYTES:
            self.hang_up()  # it sends without reading

    def eof_received(self) -> bool:
        """Let a client that has closed its side still receive the answer."""
        self._is_last = True
        return self._answering is not None

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._everyone.discard(self)
        self.gone.set_result(None)
        for timer in (self._answering, self._deadline):
            if timer is not None:
                timer.cancel()

    def hang_up(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    # --- requests ---------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Answer complete requests until an answer has to wait."""
        while self._answering is None and not self._closing:
            try:
                head = self._next_head()
            except Refusal as refusal:
                self._refuse(refusal.status)
                return
            if head is None:
                break
            self._answer(head)
        self._watch_the_clock()

    def _next_head(self) -> Head | None:
        """The next complete request."""
        end = self._received.find(_END)
        if end > MAX_HEAD_BYTES or (end < 0 and len(self._received) > MAX_HEAD_BYTES):
            raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if end < 0:
            return None
        head = parse_head(bytes(self._received[:end]))
        start = end + len(_END)
        end = start + head.fields.body_bytes
        if len(self._received) < end:
            return None
        body = bytes(self._received[start:end])
        del self._received[:end]
        return head._replace(body=body) if body else head

    def _answer(self, head: Head) -> None:
        answer = self._answers.answer(head)
        self._record(head, answer)
        if answer.delay_s:
            self._answering = self._loop.call_later(answer.delay_s, self._answer_late, head, answer)
        else:
            self._send(head, answer)

    def _answer_late(self, head: Head, answer: Answer) -> None:
        self._answering = None
        self._send(head, answer)
        self._serve()

    def _send(self, head: Head, answer: Answer) -> None:
        data = write_answer(
            answer, at=time(), keep_alive=head.keep_alive, with_body=head.method != "HEAD"
        )
        assert self._transport is not None
        self._transport.write(data)
        if answer.cut or self._is_last or not head.keep_alive:
            self._closing = True
            self._transport.close()  # after the written data is sent

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer, and keep reading for a moment: closing on a client that is still sending resets
        the connection, and the answer is lost (RFC 9112 9.6)."""
        assert self._transport is not None
        text = f"{status.value} {status.phrase}\n".encode()
        answer = Answer(status=status, fields=(("Content-Type", "text/plain"),), body=text)
        self._transport.write(write_answer(answer, at=time(), keep_alive=False, with_body=True))
        self._transport.write_eof()
        self._closing = True
        self._deadline = self._loop.call_later(LINGER_S, self.hang_up)

    def _watch_the_clock(self) -> None:
        """Half a request must not hold a connection forever."""
        is_waiting = bool(self._received) and self._answering is None
        if is_waiting and self._deadline is None and not self._closing:
            late = HTTPStatus.REQUEST_TIMEOUT
            self._deadline = self._loop.call_later(REQUEST_TIMEOUT_S, self._refuse, late)
        elif not is_waiting and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _record(self, head: Head, answer: Answer) -> None:
        entry = Entry(
            at=time(),
            monotonic=monotonic(),
            method=head.method,
            target=head.target,
            host=head.fields.host,
            status=answer.status,
            complete=not answer.cut,
            user_agent=head.fields.user_agent,
            client_port=self._port,
        )
        self._log.record(entry)
