"""Users' own metrics on the server: by day, for the whole cluster, independent of jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from skitter.frontier.client import client_name
from skitter.frontier.keys import OWN, ShardKeys
from skitter.frontier.metrics import open_histogram, pack_histogram
from skitter.frontier.shard import Shard
from skitter.metrics.histogram import Histogram, merged
from skitter.metrics.own import SUCCESS
from skitter.metrics.slots import DAY_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.frontier.connection import Server
    from skitter.metrics.own import OwnBatch, Row

DAYS: Final = 7
#: Names and tags per day. With 450 buckets each, that is at most 5 MB a day.
MAX_ROWS: Final = 1000
_KEEP_S: Final = (DAYS + 1) * DAY_S


@dataclass(slots=True)
class OwnMetrics:
    """Users' own metrics, for one client."""

    shard: Shard

    @classmethod
    def on(cls, server: Server, *, clock: Callable[[], int] | None = None) -> Self:
        return cls(Shard(server, ShardKeys(OWN, 0), client_name(), clock))

    async def add(self, batch: OwnBatch) -> None:
        """Send a batch in one round trip."""
        timed = {(name, SUCCESS): one for name, one in batch.timings.items()}
        rows = [
            (*row, repr(by), pack_histogram(timed.pop(row)) if row in timed else b"")
            for row, by in batch.counts.items()
        ]
        # Timings of names that only have errors.
        rows += [(*row, "0", pack_histogram(one)) for row, one in timed.items()]
        await self.shard.increment(rows, limit=MAX_ROWS, keep_s=_KEEP_S)

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
