"""Users' own metrics: until they are sent, and on the server."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Final, Self

from skitter.errors import BadOption
from skitter.frontier.records.metrics import open_histogram, pack_histogram
from skitter.frontier.transport.endpoints import client_name
from skitter.frontier.transport.keys import OWN, ShardKeys
from skitter.frontier.transport.shard import Shard
from skitter.observe.metrics import DAY_S, Histogram, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skitter.frontier.transport.connection import Server


LONGEST: Final = 100
MAX_TAGS: Final = 5
#: How many names and tags can wait for the server; more are not counted.
MAX_ROWS: Final = 2000
SUCCESS, ERROR = "success", "error"

#: A name, and its tags as text.
Row = tuple[str, str]


@dataclass(slots=True)
class OwnBatch:
    """What a process counted and timed, until it is sent."""

    counts: dict[Row, float] = field(default_factory=dict)
    timings: dict[str, Histogram] = field(default_factory=dict)
    records: int = 0

    def count(self, row: Row, by: float) -> None:
        self.records += 1
        if row in self.counts or len(self.counts) < MAX_ROWS:
            self.counts[row] = self.counts.get(row, 0) + by

    def time(self, name: str, seconds: float, *, ok: bool) -> None:
        self.count((name, SUCCESS if ok else ERROR), 1)
        if name in self.timings or len(self.timings) < MAX_ROWS:
            self.timings.setdefault(name, Histogram()).add(1000 * seconds)


def checked_name(name: str) -> str:
    is_text = isinstance(name, str) and name.strip() and name.isprintable()
    if not is_text or len(name) > LONGEST:
        raise BadOption("name", name, f"text of up to {LONGEST} printable characters")
    return name


def checked_value(value: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not isfinite(value):
        raise BadOption("value", value, "a number")
    return value


def spell_tags(tags: Mapping[str, object] | None) -> str:
    """`kind=book,shop=one`, sorted by name."""
    if not tags:
        return ""
    if len(tags) > MAX_TAGS:
        raise BadOption("tags", dict(tags), f"at most {MAX_TAGS} of them")
    pairs = [f"{_plain(name)}={_plain(tags[name])}" for name in sorted(tags)]
    return ",".join(pairs)


def _plain(part: object) -> str:
    """Text without the separators of tags."""
    text = "".join("_" if one in "=,\n" else one for one in str(part)[:LONGEST])
    return text.encode("utf-8", "replace").decode()


DAYS: Final = 7
#: Names and tags per day. With 450 buckets each, that is at most 5 MB a day.
OWN_METRICS_MAX_ROWS: Final = 1000
_KEEP_S: Final = (DAYS + 1) * DAY_S


@dataclass(slots=True)
class OwnMetrics:
    """Users' own metrics on the server, for one client: by day, for the whole cluster, independent
    of jobs."""

    shard: Shard

    @classmethod
    def on(cls, server: Server, *, clock: Callable[[], int] | None = None) -> Self:
        return cls(Shard(server, ShardKeys(OWN, 0), client_name(), clock))

    async def add(self, batch: OwnBatch) -> None:
        """Send a batch in one round trip."""
        timed = {(name, SUCCESS): histogram for name, histogram in batch.timings.items()}
        rows = [
            (*row, repr(by), pack_histogram(timed.pop(row)) if row in timed else b"")
            for row, by in batch.counts.items()
        ]
        # Timings of names that only have errors.
        rows += [(*row, "0", pack_histogram(histogram)) for row, histogram in timed.items()]
        await self.shard.increment(rows, limit=OWN_METRICS_MAX_ROWS, keep_s=_KEEP_S)

    async def read_totals(self, *, days: int) -> dict[Row, float]:
        """Totals by name and tags; today counts as a day."""
        found: dict[Row, float] = {}
        for day in await self._days(days):
            raw = await self.shard.server.command("HGETALL", self.shard.keys.key("daily", str(day)))
            for row, value in raw.items():
                name, _, tags = row.decode("utf-8", "replace").partition("\n")
                found[name, tags] = found.get((name, tags), 0) + _number(value)
        return found

    async def read_timing(self, name: str, *, days: int) -> Histogram:
        keys = [self.shard.keys.key("durations", f"{day}/{name}") for day in await self._days(days)]
        found = [await self.shard.server.command("HGETALL", key) for key in keys]
        return merged(map(open_histogram, found))

    async def _days(self, days: int) -> range:
        clock = self.shard.clock
        now = clock() / 1000 if clock else (await self.shard.server.command("TIME"))[0]
        today = int(now) // DAY_S
        return range(today - days + 1, today + 1)


def _number(value: bytes) -> float:
    try:
        return float(value)
    except ValueError:  # others can write to the server
        return 0.0
