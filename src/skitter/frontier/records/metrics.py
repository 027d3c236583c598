"""The metrics of a job on the server: sent in one round trip, read as a chart or a table."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skitter.frontier.transport.messages import clip, encode
from skitter.observe.metrics import (
    BY_SHARD,
    COUNTERS,
    DOUBLINGS,
    EVER,
    HIGHEST,
    LOWEST,
    SLOTS,
    TABLE_GRAINS,
    TABLES,
    TIMINGS,
    Batch,
    Histogram,
    Row,
    Window,
    merged,
    quantile,
    window,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.shard import Shard
    from skitter.observe.metrics import Grain

#: Rows of a table per hour; sometimes twice as many.
MEMBERS: Final = 100
LONGEST_NAME: Final = 60
OTHERS: Final = "other"
SUMS: Final = Row._fields[:4]
QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_SLOT_BYTES: Final = 5
#: Hashes per call: keeps the server busy for a millisecond.
READ_BATCH: Final = 60


class History(msgspec.Struct, frozen=True, kw_only=True, rename={"start": "from"}):
    """A chart: a point every `step_s`, the first at `start`."""

    start: int  # seconds since the epoch
    step_s: int
    partial: bool = True  # the newest point is not complete yet
    #: By counter; None: no process reported anything for that time.
    series: dict[str, list[int | None]] = {}
    #: By timing: p50, p95 and p99, in ms.
    quantiles: dict[str, dict[str, list[float | None]]] = {}


class TableRow(msgspec.Struct, frozen=True, kw_only=True):
    """The results of requests to one host, by one worker, ..."""

    name: str
    ok: int
    failed: int
    bytes: int
    ms: int  # in total
    p95_ms: float | None = None  # estimated from doublings


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Everything since the job began, or since it was last silent for a week."""

    counts: dict[str, int] = {}
    timings: dict[str, Histogram] = {}
    tables: dict[str, list[TableRow]] = {}  # by table; busiest first
    last_page_at: int = 0  # seconds since the epoch; 0: never


async def record(frontier: Frontier, batch: Batch) -> None:
    """Add to the metrics of the job. Names are those of the catalogue."""
    rows = [("counts", name, encode(by)) for name, by in {**batch.counts, "reports": 1}.items()]
    rows += [
        ("timings", name, pack_histogram(histogram)) for name, histogram in batch.timings.items()
    ]
    rows += [("tables", name, _pack_table(row)) for name, row in batch.tables.items()]
    if strange := {name for _, name, _ in rows} - {*COUNTERS, *TIMINGS, *TABLES}:
        raise KeyError(f"not in the catalogue: {sorted(strange)}")
    await frontier.home.measure(rows, members=MEMBERS)


def pack_histogram(histogram: Histogram) -> bytes:
    return encode([round(1000 * histogram.sum_ms), *chain.from_iterable(histogram.buckets.items())])


def _pack_table(rows: dict[str, Row]) -> bytes:
    return encode(
        [part for name, row in rows.items() for part in (clip(name[:LONGEST_NAME]), _figures(row))]
    )


def _figures(row: Row) -> list[int]:
    """The row without its trailing empty doublings."""
    *sums, spread = row
    last = max((at for at, count in enumerate(spread, 1) if count), default=0)
    return [*sums, *spread[:last]]


async def read_history(
    frontier: Frontier, names: Sequence[str], *, since_s: float = 3600, points: int = 600
) -> History:
    """Counters and timings of the last `since_s`, up to 7 days, as a chart."""
    shown = window(await frontier.server_time(), since_s=since_s, points=points)
    counters = [name for name in names if name in COUNTERS]
    reports, *found = await _read_counters(frontier.home, ["reports", *counters], shown)
    series: dict[str, list[int]] = dict(zip(counters, found, strict=True))
    for shard, own in _other_shards(frontier, counters):
        for name, more in zip(own, await _read_counters(shard, own, shown), strict=True):
            series[name] = [sum(both) for both in zip(series[name], more, strict=True)]
    return History(
        start=shown.start,
        step_s=shown.step_s,
        series={
            name: [n if seen or n else None for n, seen in zip(counts, reports, strict=True)]
            for name, counts in series.items()
        },
        quantiles={
            name: await _read_quantiles(frontier, name, shown) for name in names if name in TIMINGS
        },
    )


def _other_shards(frontier: Frontier, names: Iterable[str]) -> Iterator[tuple[Shard, list[str]]]:
    """Some metrics are counted by every shard; the rest are all in the first."""
    own = [name for name in names if name in BY_SHARD]
    return ((shard, own) for shard in frontier.shards[1:] if own)


async def _read_counters(shard: Shard, names: Sequence[str], shown: Window) -> list[list[int]]:
    """A number per point, for each counter."""
    step, end = shown.grain.step_s, shown.start + shown.count * shown.step_s
    first, last = shown.start // step, end // step
    chunks = range(first // SLOTS, (last - 1) // SLOTS + 1)
    place = partial(shard.keys.key, "counts")
    keys = [place(f"{step}/{chunk}/{name}") for name in names for chunk in chunks]
    packed = [one or b"" for one in await shard.server.command("MGET", *keys)]
    return [
        _points(packed[at : at + len(chunks)], first % SLOTS, shown)
        for at in range(0, len(packed), len(chunks))
    ]


def _points(chunks: list[bytes], skipped: int, shown: Window) -> list[int]:
    joined = b"".join(chunk.ljust(SLOTS * _SLOT_BYTES, b"\0") for chunk in chunks)
    width = shown.step_s // shown.grain.step_s
    starts = range(skipped, skipped + shown.count * width, width)
    return [sum(_slot(joined, at) for at in range(start, start + width)) for start in starts]


def _slot(packed: bytes, at: int) -> int:
    return int.from_bytes(packed[at * _SLOT_BYTES : (at + 1) * _SLOT_BYTES], "big")


async def _read_quantiles(
    frontier: Frontier, name: str, shown: Window
) -> dict[str, list[float | None]]:
    """A histogram counts for every point it overlaps, as its slot may be longer than a point."""
    step = shown.timing_grain.step_s
    first, last = shown.start // step, (shown.starts[-1] + shown.step_s - 1) // step
    found = await read_timings(frontier, name, shown.timing_grain, range(first, last + 1))
    points = [
        merged(found[at] for at in range(start // step, (start + shown.step_s - 1) // step + 1))
        for start in shown.starts
    ]
    return {
        label: [point.quantile(share) for point in points] for label, share in QUANTILES.items()
    }


async def read_timings(
    frontier: Frontier, name: str, grain: Grain, slots: Iterable[int]
) -> dict[int, Histogram]:
    """Histograms by slot."""
    wanted = list(slots)
    members = [f"{grain.step_s}/{at}/{name}" for at in wanted]
    found = [open_histogram(one) for one in await _read(frontier.home, "timings", members)]
    for shard, _ in _other_shards(frontier, [name]):
        for total, more in zip(found, await _read(shard, "timings", members), strict=True):
            total.merge(open_histogram(more))
    return dict(zip(wanted, found, strict=True))


async def _read(shard: Shard, kind: str, members: list[str]) -> list[dict[bytes, bytes]]:
    found: list[list[bytes]] = []
    for start in range(0, len(members), READ_BATCH):
        found += await shard.figures(members[start : start + READ_BATCH], kind=kind)
    return [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in found]


def open_histogram(raw: dict[bytes, bytes]) -> Histogram:
    """Skips invalid entries, as others can write to the server."""
    found = Histogram()
    for name, value in raw.items():
        try:
            count = int(value)
            if name == b"us":
                found.sum_ms = count / 1000
            elif LOWEST <= int(name) <= HIGHEST and count > 0:
                found.buckets[int(name)] = count
        except ValueError:
            continue
    return found


async def read_table(frontier: Frontier, table: str, *, since_s: float = 3600) -> list[TableRow]:
    """Rows by number of requests, most first. Whole hours: the first began before `since_s`."""
    [grain] = TABLE_GRAINS
    now = await frontier.server_time()
    first = int(now - min(since_s, grain.keep_s)) // grain.step_s
    slots = range(first, int(now) // grain.step_s + 1)
    fetches = merged((await read_timings(frontier, "fetch", grain, slots)).values())
    return await _read_rows(
        frontier, [f"{grain.step_s}/{slot}/{table}" for slot in slots], fetches.longest_ms
    )


async def _read_rows(frontier: Frontier, members: list[str], longest_ms: float) -> list[TableRow]:
    """No p95 is above what the longest request took: a time-out is somewhere in its doubling."""
    found: dict[str, Row] = {}
    for part in await _read(frontier.home, "tables", members):
        for member, packed in part.items():
            name = member.decode("utf-8", "replace") or OTHERS
            found[name] = found.get(name, Row()).plus(_open_row(packed))
    rows = [
        TableRow(
            name=name,
            p95_ms=p95 and min(p95, longest_ms),
            **dict(zip(SUMS, sums, strict=True)),
        )
        for name, (*sums, spread) in found.items()
        for p95 in [quantile(spread, 0.95)]
    ]
    return sorted(rows, key=lambda row: (-row.ok - row.failed, row.name))


async def read_counts(frontier: Frontier) -> dict[str, int]:
    """Every counter since the job began."""
    raw = await frontier.home.read_hash("totals")
    counts = {name: int(value) for name, value in raw.items() if value.isdecimal()}
    for shard, own in _other_shards(frontier, COUNTERS):
        more = await shard.read_hash("totals")
        for name in own:
            value = more.get(name, "")
            counts[name] = counts.get(name, 0) + (int(value) if value.isdecimal() else 0)
    return counts


async def read_totals(frontier: Frontier) -> Totals:
    """Totals for Prometheus, whose counters may only rise."""
    counts = await read_counts(frontier)
    timings = {name: (await read_timings(frontier, name, EVER, [0]))[0] for name in TIMINGS}
    longest_ms = timings["fetch"].longest_ms
    return Totals(
        last_page_at=counts.pop("page_s", 0),
        counts=counts,
        timings=timings,
        tables={name: await _read_rows(frontier, [f"0/0/{name}"], longest_ms) for name in TABLES},
    )


def _open_row(packed: Any) -> Row:
    try:
        ok, failed, size, ms, *spread = map(int, packed.split())
        return Row(ok, failed, size, ms, tuple(spread[:DOUBLINGS]))
    except (TypeError, ValueError):
        return Row()
