"""Answers to callers who asked for a page: they come as items of a job, and as its dead letters.

An answer goes to the caller who waits for it here. Others are kept for a while: for a caller of
another server, and for one who comes back.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from skitter.engine.pulse import cancel_all
from skitter.errors import SkitterError
from skitter.frontier.dead import drop, unfetched
from skitter.frontier.items import ItemStream
from skitter.frontier.jobs import open_job
from skitter.frontier.records.live import keep_answer, note_waiting, read_answers
from skitter.frontier.workers import FETCHING, live_workers
from skitter.scrape import ID, JOB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server
    from skitter.model import DeadLetter, Result

LOOK_S = 0.1  # for answers that another server has read, and for pages that failed
FOLLOW_S = 0.25
AWAY_S = 1.0
WORKERS_S = 1.0  # how long it is remembered who is there
AT_ONCE = 50
SHAPE = re.compile(r"[0-9a-f]{32}")


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page that was asked for. `failed`: it cannot be had, and `error` says why."""

    id: str
    state: Literal["waiting", "done", "failed"]
    url: str  # where the page is; until then, what was asked for
    error: str = ""
    status: int | None = None  # of HTTP
    title: str | None = None
    markdown: str | None = None
    text: str | None = None
    html: str | None = None
    links: list[str] | None = None
    data: dict[str, Any] | None = None
    language: str | None = None
    published: str | None = None
    screenshot: bytes | None = None  # PNG, in base64


_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(Answer).decode


@dataclass(slots=True)
class Answers:
    """Reads answers from the first call on, until the server stops."""

    server: Server
    _waiting: dict[str, asyncio.Future[Answer]] = field(default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _some: asyncio.Event = field(default_factory=asyncio.Event)  # wait
    _handlers: tuple[float, frozenset[str]] = (0.0, frozenset())

    @contextmanager
    def expecting(self) -> Iterator[tuple[str, asyncio.Future[Answer]]]:
        """The id of a new page, and its answer."""
        self.start()
        id, future = secrets.token_hex(16), asyncio.get_running_loop().create_future()
        self._waiting[id] = future
        self._some.set()
        try:
            yield id, future
        finally:
            self._waiting.pop(id, None)

    def start(self) -> None:
        if not self._tasks:
            self._tasks = [asyncio.create_task(one()) for one in (self._read, self._look)]

    async def handlers(self, frontier: Frontier) -> frozenset[str]:
        """What the workers that are there can do."""
        at, known = self._handlers
        if time.monotonic() - at > WORKERS_S:
            beats = [worker for worker in await live_workers(frontier) if worker.kind in FETCHING]
            known = frozenset(name for beat in beats for name in beat.handlers)
            self._handlers = time.monotonic() if known else 0.0, known
        return known

    async def close(self) -> None:
        await cancel_all(self._tasks)

    async def _read(self) -> None:
        """Hand out answers as they come."""
        while True:
            with suppress(SkitterError):  # the server is away, or there is no such job yet
                frontier = await open_job(self.server, JOB)
                stream = ItemStream(frontier, f"answers-{frontier.client}")
                while results := await stream.read(AT_ONCE, wait_s=AWAY_S):
                    await self._hand_out(frontier, map(answer_of, results))
                    await stream.acknowledge([], results)
                continue
            await asyncio.sleep(AWAY_S)

    async def _look(self) -> None:
        """While somebody waits, see what another server has read, and what failed."""
        while True:
            await self._some.wait()
            await asyncio.sleep(LOOK_S)
            if not self._waiting:
                self._some.clear()
                continue
            try:
                frontier = await open_job(self.server, JOB)
                await self.look_for_failed(frontier)
                ids = list(self._waiting)
                for raw in await read_answers(frontier, ids) if ids else ():
                    if raw and (answer := _decode(raw)).state != "waiting":
                        self._give(answer)
            except (SkitterError, msgspec.MsgspecError):
                await asyncio.sleep(AWAY_S)

    async def look_for_failed(self, frontier: Frontier) -> None:
        """Dead letters are answers, too, and nothing else needs them."""
        stats = await frontier.stats()
        if stats.dead or stats.excluded:
            async for letter in unfetched(frontier):
                await self._hand_out(frontier, [failure_of(letter)])
                await drop(frontier, [letter])

    async def _hand_out(self, frontier: Frontier, answers: Iterable[Answer | None]) -> None:
        for answer in answers:
            if answer and not self._give(answer):
                await keep_answer(frontier, answer.id, _encode(answer))

    def _give(self, answer: Answer) -> bool:
        """Whether somebody here took it."""
        future = self._waiting.pop(answer.id, None)
        if future is None or future.done():
            return False
        future.set_result(answer)
        return True

    async def later(self, frontier: Frontier, id: str, url: str) -> Answer:
        """For a caller who has waited long enough, and is not expecting it any more: what comes
        from now on is kept."""
        waiting = Answer(id=id, state="waiting", url=url)
        await note_waiting(frontier, id, _encode(waiting))
        return waiting

    async def follow(self, frontier: Frontier, id: str, wait_s: float) -> Answer | None:
        """The answer, if it comes in that time. None: there is no such page, or its answer is not
        kept any more."""
        self.start()
        until = time.monotonic() + wait_s
        while True:
            [raw] = await read_answers(frontier, [id])
            answer = _decode(raw) if raw else None
            left_s = until - time.monotonic()
            if answer is None or answer.state != "waiting" or left_s <= 0:
                return answer
            await self.look_for_failed(frontier)
            await asyncio.sleep(min(left_s, FOLLOW_S))


def answer_of(result: Result) -> Answer | None:
    """None: nobody asked for it. Anybody may have written it."""
    item = result.item
    id = item.get("id") if isinstance(item, dict) else None
    if not (isinstance(id, str) and SHAPE.fullmatch(id)):
        return None
    if error := item.get("error"):
        return Answer(id=id, state="failed", url=result.url, error=str(error))
    try:
        return msgspec.convert({**item["page"], "id": id, "state": "done"}, Answer)
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        return Answer(id=id, state="failed", url=result.url, error=f"it is no answer: {error}")


def failure_of(letter: DeadLetter) -> Answer | None:
    id = letter.request.meta.get(ID)
    if not (isinstance(id, str) and SHAPE.fullmatch(id)):
        return None
    return Answer(id=id, state="failed", url=letter.url, error=letter.reason)
