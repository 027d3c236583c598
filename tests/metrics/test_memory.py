"""The figures of a job have a size that is known, however long and fast it crawls."""

from __future__ import annotations

from collections import Counter, defaultdict

from skitter.frontier.records.metrics import MEMBERS, record
from skitter.observe.metrics import (
    COUNT_GRAINS,
    COUNTERS,
    DOUBLINGS,
    HIGHEST,
    LOWEST,
    SLOTS,
    TABLE_GRAINS,
    TABLES,
    TIMING_GRAINS,
    TIMINGS,
    Batch,
    Histogram,
    Row,
)

#: As docs/howto/metrics.md says.
MAX_MB, USUAL_MB = 75, 17
LAST_SLOT_MS = 1_700_000_000_000 // 21_600_000 * 21_600_000 + 21_599_000


def kept() -> dict[tuple[str, str], int]:
    """How many keys of a name there are at once, by family and step."""
    found = {("totals", ""): 1, ("timings", "0"): 1, ("tables", "0"): 1}
    found |= {
        ("counts", f"{one.step_s}"): one.keep_s // (one.step_s * SLOTS) + 2 for one in COUNT_GRAINS
    }
    for family, grains in (("timings", TIMING_GRAINS), ("tables", TABLE_GRAINS)):
        found |= {(family, f"{one.step_s}"): one.keep_s // one.step_s + 2 for one in grains}
    return found


async def size_mb(frontier) -> float:
    """After a week in which each slot was like the last one."""
    command, prefix = frontier.server.command, frontier.home.keys.prefix
    sizes: defaultdict[tuple[str, str], int] = defaultdict(int)
    async for key in frontier.server.client.scan_iter(match=f"{prefix}*"):
        family, _, member = key.decode().removeprefix(prefix).partition(":")
        if family in ("totals", "counts", "timings", "tables"):
            size = await command("MEMORY", "USAGE", key, "SAMPLES", 0)
            sizes[family, member.partition("/")[0]] += size
    assert sizes.keys() == kept().keys()
    return sum(size * kept()[which] for which, size in sizes.items()) / 1e6


def batch(buckets: range, members: int, name: str, *, spread: int) -> Batch:
    return Batch(
        Counter(dict.fromkeys(COUNTERS, 10**9)),
        {one: Histogram(dict.fromkeys(buckets, 2**20), 1e9) for one in TIMINGS},
        {
            one: {
                f"{name}{n}": Row(10**6, 10**6, 10**10, 10**9, (10**6,) * spread)
                for n in range(members)
            }
            for one in TABLES
        },
    )


async def test_the_worst_week_has_the_size_that_the_docs_say(frontier, clock):
    clock.now_ms = LAST_SLOT_MS  # of its chunk, so that the strings are whole
    await record(
        frontier, batch(range(LOWEST, HIGHEST + 1), 2 * MEMBERS, "x" * 56, spread=DOUBLINGS)
    )

    assert MAX_MB / 2 < await size_mb(frontier) <= MAX_MB


async def test_a_busy_week_has_the_size_that_the_docs_say(frontier, clock):
    clock.now_ms = LAST_SLOT_MS
    await record(frontier, batch(range(60, 150), 50, "shop.example/", spread=10))

    assert USUAL_MB / 2 < await size_mb(frontier) <= USUAL_MB
