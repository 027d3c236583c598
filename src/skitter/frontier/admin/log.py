"""The log of a job: what all its processes say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from skitter.frontier.wire import cut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skitter.frontier.frontier import Frontier

EVENTS_KEPT = 10_000
LOG_PAGE = 1000  # events that are read at once
END_OF_TIME_S = 253_402_300_799.0  # the last second of the year 9999: an id may say any number


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the cluster's log."""

    id: str
    at: float
    level: str
    worker: str
    text: str
    url: str = ""  # the page that it is about


async def log(frontier: Frontier, level: str, worker: str, text: str) -> None:
    """Say something to everybody who runs `skitter logs`."""
    await log_lines(frontier, worker, [(level, text, "")])


async def log_lines(frontier: Frontier, worker: str, lines: Iterable[tuple[str, str, str]]) -> None:
    """The same, for several lines: level, text and URL of each."""
    each = [(level, worker, cut(text), cut(url)) for level, text, url in lines]
    await frontier.home.log(each, keep=EVENTS_KEPT)


async def read_log(frontier: Frontier, after: str = "-", count: int = 1000) -> list[Event]:
    """The log, oldest first; `after` is the id of the last event one has."""
    start = after if after == "-" else f"({after}"
    entries = await frontier.home.command("XRANGE", "events", start, "+", "COUNT", count)
    return [_event(entry, fields) for entry, fields in entries]


async def last_log(frontier: Frontier, count: int) -> list[Event]:
    """Its end, oldest first."""
    entries = await frontier.home.command("XREVRANGE", "events", "+", "-", "COUNT", count)
    return [_event(entry, fields) for entry, fields in reversed(entries)]


def _event(entry: bytes, fields: dict[bytes, bytes]) -> Event:
    return Event(
        id=entry.decode(),
        at=moment_of(entry),
        level=text_of(fields, b"level"),
        worker=text_of(fields, b"worker"),
        text=text_of(fields, b"text"),
        url=text_of(fields, b"url"),
    )


def moment_of(entry: bytes) -> float:
    """When it was written, in seconds since the epoch."""
    return min(int(entry.partition(b"-")[0]) / 1000, END_OF_TIME_S)


def text_of(fields: dict[bytes, bytes], name: bytes) -> str:
    """Whoever can write to the server can write anything."""
    return fields.get(name, b"").decode("utf-8", "replace")
