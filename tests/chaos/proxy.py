"""A proxy in front of a server that delivers a request and loses the reply."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skitter.frontier.transport.scripts import script, verbs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CHUNK = 1 << 16
NOT_RUN = b"-NOSCRIPT"  # this reply is no loss: nothing happened on the server

#: sha -> verb, also of the variants without allow-oom
SHAS = {script(verb, strict=strict).sha: verb for verb in verbs() for strict in (False, True)}


class LossyProxy:
    """Loses the first `times` replies to each call of the verbs in `drops`, and hangs up."""

    def __init__(self, listen: Path, server: Path) -> None:
        self._listen, self._server = listen, server
        self.drops: set[str] = set()
        self.times = 1
        self.lost: Counter[str] = Counter()
        self._lost_in_a_row: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"unix://{self._listen}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[LossyProxy]:
        listener = await asyncio.start_unix_server(self._accept, self._listen)
        try:
            yield self
        finally:
            listener.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of our own: the one that asyncio makes logs its cancellation as an error.
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests and replies take turns: the client has one call at a time per connection."""
        upstream, downstream = await asyncio.open_unix_connection(self._server)
        verb = ""

        async def requests() -> None:
            nonlocal verb
            while data := await reader.read(CHUNK):
                verb = _verb_of(data) or verb
                downstream.write(data)
                await downstream.drain()

        async def replies() -> None:
            nonlocal verb
            while data := await upstream.read(CHUNK):
                if self._loses(verb, data):
                    return
                writer.write(data)
                await writer.drain()

        pumps = [asyncio.create_task(requests()), asyncio.create_task(replies())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Closed before anything is awaited: the end of the test may cancel us here.
            for pump in pumps:
                pump.cancel()
            for end in (writer, downstream):
                end.close()
            await asyncio.gather(*pumps, return_exceptions=True)

    def _loses(self, verb: str, data: bytes) -> bool:
        if verb not in self.drops or data.startswith(NOT_RUN):
            return False
        if self._lost_in_a_row[verb] >= self.times:
            self._lost_in_a_row[verb] = 0  # this call is answered; the next one is another
            return False
        self._lost_in_a_row[verb] += 1
        self.lost[verb] += 1
        return True


def _verb_of(request: bytes) -> str:
    """The verb whose sha stands at the start of a request; '' in the middle of a long one."""
    parts = request[:200].split(b"\r\n")
    if len(parts) > 4 and parts[2].upper() == b"EVALSHA":
        return SHAS.get(parts[4].decode(), "")
    return "" if not request.startswith(b"*") else "other"
