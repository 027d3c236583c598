"""What handlers found, in windows that widen with age."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from skitter.errors import UsageError
from skitter.frontier.wire import decode, encode
from skitter.quality import History, Window, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.settings import QualityOptions

#: Limits per job: handlers, and columns (a field and a type) per handler. With observe.lua's
#: WINDOWS and 5 bytes per number, that is at most 850 KB; a handler with 10 fields takes 2 KB.
MAX_HANDLERS = 20
MAX_COLUMNS = 100
LONGEST_NAME = 60


class Observed(NamedTuple):
    """What one worker recently saw of one handler."""

    handler: str
    pages: int
    items: int
    blocked: int
    columns: dict[str, int]  # values by column


class _Stored(msgspec.Struct):
    """What observe.lua writes. A row: ms, pages, items, blocked, then a number per column."""

    columns: list[str]
    rows: list[list[int]]


def column(name: str, kind: str) -> str:
    return f"{kind[:LONGEST_NAME]}:{name[:LONGEST_NAME]}"


async def observe(frontier: Frontier, observed: Iterable[Observed]) -> None:
    rows = [
        (
            one.handler[:LONGEST_NAME],
            encode([one.pages, one.items, one.blocked]),
            encode(list(one.columns)),
            encode(list(one.columns.values())),
        )
        for one in observed
    ]
    await frontier.home.observe(rows, handlers=MAX_HANDLERS, columns=MAX_COLUMNS)


async def read_quality(frontier: Frontier) -> list[History]:
    """One history per handler, sorted by name."""
    raw = await frontier.home.command("HGETALL", "quality")
    histories = []
    for handler, packed in sorted(raw.items()):
        try:
            stored = msgspec.convert(decode(packed), _Stored)
        except ValueError:  # damaged, or of another release
            continue
        windows = [_window(row, stored.columns) for row in stored.rows if len(row) >= 4]
        histories.append(History(handler.decode("utf-8", "replace"), windows))
    return histories


async def keep_thresholds(frontier: Frontier, options: QualityOptions) -> None:
    """Store the thresholds for all who judge the job: the spider may have set some."""
    await frontier.home.command("SET", "thresholds", encode(asdict(options)))


async def thresholds(frontier: Frontier) -> QualityOptions:
    """The thresholds of the last run; before the first, those configured here."""
    from skitter.settings.quality import QualityOptions

    kept = await frontier.home.command("GET", "thresholds")
    try:
        return msgspec.convert(decode(kept), QualityOptions) if kept else _configured(frontier)
    except (ValueError, UsageError):  # damaged, or of another release
        return _configured(frontier)


def _configured(frontier: Frontier) -> QualityOptions:
    from skitter.settings.sources import resolve  # declares every option there is

    return resolve(job=frontier.job).quality


async def find_bad(
    frontier: Frontier, options: QualityOptions | None = None, *, since: float = 0.0
) -> list[str]:
    """Describe what got worse. `since` skips earlier pages, by the server's clock."""
    histories = await read_quality(frontier)
    if not histories:
        return []
    options = options or await thresholds(frontier)
    return [str(one) for one in judge(histories, options, since=since)]


def _window(row: Sequence[int], columns: Sequence[str]) -> Window:
    at, pages, items, blocked, *counts = row
    filled = Counter({_pair(one): n for one, n in zip(columns, counts, strict=False) if n > 0})
    return Window(at / 1000, pages, items, blocked, filled)


def _pair(column: str) -> tuple[str, str]:
    kind, _, name = column.partition(":")
    return name, kind
