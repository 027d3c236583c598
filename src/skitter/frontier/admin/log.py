"""A job's log, written by all its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from skitter.frontier.wire import cut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skitter.frontier.frontier import Frontier

EVENTS_KEPT = 10_000
LOG_PAGE = 1000  # events read at once
END_OF_TIME_S = 253_402_300_799.0  # the last second of the year 9999: an id can hold any number

T = TypeVar("T", bound=msgspec.Struct)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    id: str
    at: float
    level: str
    worker: str
    text: str
    url: str = ""  # the page concerned


async def log(frontier: Frontier, level: str, worker: str, text: str) -> None:
    """Write a line for `skitter logs`."""
    await log_lines(frontier, worker, [(level, text, "")])


async def log_lines(
    frontier: Frontier,
    worker: str,
    lines: Iterable[tuple[str, str, str] | tuple[str, str, str, float]],
) -> None:
    """Write several lines, each of level, text, URL and, if it is not now, the server's time."""
    each = [
        (level, worker, cut(text), cut(url), f"{1000 * at[0]:.0f}" if at else "")
        for level, text, url, *at in lines
    ]
    await frontier.home.log(each, keep=EVENTS_KEPT)


async def read_log(frontier: Frontier, after: str = "-", count: int = 1000) -> list[Event]:
    """The log, oldest first; `after` is the id of the last event you have."""
    start = after if after == "-" else f"({after}"
    entries = await frontier.home.command("XRANGE", "events", start, "+", "COUNT", count)
    return [open_entry(Event, entry, fields) for entry, fields in entries]


async def last_log(frontier: Frontier, count: int) -> list[Event]:
    """The end of the log, oldest first."""
    entries = await frontier.home.command("XREVRANGE", "events", "+", "-", "COUNT", count)
    return [open_entry(Event, entry, fields) for entry, fields in reversed(entries)]


def open_entry(kind: type[T], entry: bytes, fields: dict[bytes, bytes]) -> T:
    """Decode an entry of a stream: its id, its time, and the fields of `kind`."""
    at_s = min(int(entry.partition(b"-")[0]) / 1000, END_OF_TIME_S)
    happened = fields.get(b"at", b"")
    if happened.isdigit() and len(happened) < 16:
        at_s = min(int(happened) / 1000, at_s)  # it arrived later, when the server was back
    names = [name for name in kind.__struct_fields__ if name not in ("id", "at")]
    # Other clients of the server can write anything.
    texts = {name: fields.get(name.encode(), b"").decode("utf-8", "replace") for name in names}
    return kind(id=entry.decode(), at=at_s, **texts)
