"""Figures on the server: added up, kept in slots of time, read as charts and tables."""

from __future__ import annotations

from collections import Counter

import pytest

from conftest import rude
from skitter.frontier.audit.auditor import audit
from skitter.frontier.jobs import purge_job
from skitter.frontier.records.metrics import MEMBERS, read_history, read_table, read_timings, record
from skitter.model import Completion, Request
from skitter.observe.metrics import (
    COUNTERS,
    TIMING_GRAINS,
    Batch,
    Histogram,
    Row,
    doubling_of,
    window,
)
from skitter.settings import Layout


def timing(*durations):
    histogram = Histogram()
    for ms in durations:
        histogram.add(ms)
    return histogram


async def tell(frontier, *, timings=None, tables=None, **counts):
    await record(frontier, Batch(Counter(counts), timings or {}, tables or {}))


async def test_counters_add_up_in_slots_of_ten_seconds(frontier, clock):
    await tell(frontier, pages=3, items=1)
    clock.advance(2)
    await tell(frontier, pages=4)
    clock.advance(10)
    await tell(frontier, pages=5)

    history = await read_history(frontier, ["pages", "items"], since_s=60, points=600)

    assert history.step_s == 10
    assert history.start == clock.now_ms // 10_000 * 10 - 50
    assert history.series == {
        "pages": [None, None, None, None, 7, 5],
        "items": [None, None, None, None, 1, 0],
    }


async def test_a_longer_chart_has_wider_points(frontier, clock):
    for _ in range(18):
        await tell(frontier, pages=1)
        clock.advance(10)

    history = await read_history(frontier, ["pages"], since_s=300, points=10)

    assert history.step_s == 30
    assert len(history.series["pages"]) == 10
    assert sum(n or 0 for n in history.series["pages"]) == 18


async def test_a_week_is_kept_by_minutes_and_a_day_by_ten_seconds(frontier, clock):
    await tell(frontier, pages=7)
    clock.advance(6 * 86_400)

    day, week = [await read_history(frontier, ["pages"], since_s=days * 86_400) for days in (1, 7)]

    assert sum(n or 0 for n in day.series["pages"]) == 0
    assert sum(n or 0 for n in week.series["pages"]) == 7
    assert week.step_s % 60 == 0
    assert len(week.series["pages"]) <= 600


async def test_a_full_slot_stays_full(frontier):
    await tell(frontier, bytes=2**40 - 1)
    await tell(frontier, bytes=10)

    history = await read_history(frontier, ["bytes"], since_s=10)

    assert history.series["bytes"] == [2**40 - 1]


async def test_timings_become_quantiles_of_the_whole_cluster(frontier, make_frontier, clock):
    other = await make_frontier()
    await tell(frontier, timings={"fetch": timing(*[10.0] * 90)})
    await tell(other, timings={"fetch": timing(*[1000.0] * 10)})

    history = await read_history(frontier, ["fetch"], since_s=10)

    found = {name: points[0] for name, points in history.quantiles["fetch"].items()}
    assert found == {
        "p50": pytest.approx(10, rel=0.022),
        "p95": pytest.approx(1000, rel=0.022),
        "p99": pytest.approx(1000, rel=0.022),
    }


async def test_timings_of_a_week_are_kept_by_hours(frontier, clock):
    await tell(frontier, timings={"fetch": timing(10.0)})
    clock.advance(5 * 86_400)

    history = await read_history(frontier, ["fetch"], since_s=7 * 86_400)

    assert any(history.quantiles["fetch"]["p50"])


async def waits(frontier):
    history = await read_history(frontier, ["queue_wait"], since_s=3600, points=1)
    return history.quantiles["queue_wait"]["p50"][0]


@pytest.mark.parametrize("order", ["fifo", "lifo"])
@pytest.mark.parametrize("waited_s", [1, 60, 1800])
async def test_the_wait_of_a_request_is_from_its_arrival_to_its_lease(
    make_frontier, clock, order, waited_s
):
    frontier = await make_frontier(rude(), Layout(order=order))
    await frontier.add([Request(url="https://a.test/long", priority=-1)])
    await frontier.lease(1)  # the only one: its wait is 0
    clock.advance(5000)
    await frontier.add([Request(url="https://a.test/1", priority=3)])
    clock.advance(waited_s)
    await frontier.add([Request(url="https://b.test/2")])
    [lease] = (await frontier.lease(1)).leases

    assert lease.url == "https://a.test/1"
    assert await waits(frontier) == pytest.approx(1000 * waited_s, rel=0.03)


async def test_waits_of_all_shards_are_told_together(make_frontier, clock):
    frontier = await make_frontier(rude(), Layout(shards=4))
    await frontier.add([Request(url=f"https://h{n}.test/") for n in range(40)])
    clock.advance(30)
    leases = (await frontier.lease(400)).leases

    found = await read_timings(frontier, "queue_wait", TIMING_GRAINS[0], [clock.now_ms // 60_000])

    [histogram] = found.values()
    assert histogram.count == len(leases) == 40
    assert histogram.mean_ms == 30_000


async def test_of_requests_leased_one_by_one_a_tenth_stands_for_all_once_many_are_done(
    frontier, clock
):
    await frontier.add([Request(url=f"https://a.test/{n}") for n in range(1060)])
    clock.advance(30)
    for _ in range(2):
        together = (await frontier.lease(500)).leases
        await frontier.complete([Completion(lease=lease) for lease in together])
    alone = [(await frontier.lease(1)).leases[0] for _ in range(60)]

    found = await read_timings(frontier, "queue_wait", TIMING_GRAINS[0], [clock.now_ms // 60_000])

    [histogram] = found.values()
    samples = sum(lease.fingerprint.endswith("0") for lease in alone)
    assert 0 < samples < 20
    assert histogram.count == 1000 + 10 * samples
    assert histogram.mean_ms == 30_000


async def test_marks_of_arrivals_are_bounded(frontier, clock):
    for n in range(1200):
        await frontier.add([Request(url=f"https://a.test/{n}")])
        clock.advance(1)

    assert await frontier.home.command("ZCARD", "marks") <= 501
    await frontier.lease(1)
    assert await waits(frontier) == pytest.approx(1_200_000, rel=0.03)


async def test_leases_that_ran_out_are_counted(make_frontier, clock):
    frontier = await make_frontier(rude(), Layout(shards=3))
    await frontier.add([Request(url=f"https://h{n}.test/") for n in range(9)])
    await frontier.lease(90, ttl_s=5)
    clock.advance(10)
    await frontier.reap()

    history = await read_history(frontier, ["lost"], since_s=10)

    assert history.series["lost"] == [9]


async def test_a_table_has_those_with_the_most_requests_first(frontier):
    await tell(frontier, tables={"host": {"a.test": Row(1, 1, 10, 5), "b.test": Row(9, 0, 90, 9)}})
    await tell(frontier, tables={"host": {"a.test": Row(0, 2, 5, 5)}})

    rows = await read_table(frontier, "host")

    assert [(row.name, row.ok, row.failed, row.bytes, row.ms) for row in rows] == [
        ("b.test", 9, 0, 90, 9),
        ("a.test", 1, 3, 15, 10),
    ]


async def test_a_row_knows_how_long_the_slowest_twentieth_took(frontier):
    fast, slow = Row(ok=90, spread=(0, 0, 0, 90)), Row(ok=10, spread=(0, 0, 0, 0, 0, 0, 0, 10))
    for row in (fast, slow):
        await tell(frontier, tables={"route": {"dc-1": row}})
    await tell(frontier, tables={"route": {"never-answered": Row(failed=3)}})

    rows = await read_table(frontier, "route")

    assert [(row.name, row.ok) for row in rows] == [("dc-1", 100), ("never-answered", 0)]
    assert rows[0].p95_ms is not None
    assert 256 <= rows[0].p95_ms <= 512  # the doubling of the ten
    assert rows[1].p95_ms is None


async def test_no_request_is_said_to_take_longer_than_the_longest_did(frontier):
    """A time-out of 30 s is in the doubling that ends at 32.8 s."""
    row = Row(failed=9, spread=(*[0] * doubling_of(30_000), 9))
    fetches = timing(*[30_000] * 9)
    await tell(frontier, tables={"host": {"away.test": row}}, timings={"fetch": fetches})

    [shown] = await read_table(frontier, "host")

    assert shown.p95_ms is not None
    assert 29_000 < shown.p95_ms <= 30_000


async def test_a_table_keeps_the_busy_and_puts_the_others_together(frontier):
    await tell(frontier, tables={"host": {f"h{n}.test": Row(n) for n in range(1, 500)}})

    rows = await read_table(frontier, "host")

    assert len(rows) == MEMBERS + 1
    assert {row.name for row in rows} == {f"h{n}.test" for n in range(400, 500)} | {"other"}
    assert sum(row.ok for row in rows) == sum(range(1, 500))


async def test_names_that_are_not_in_the_catalogue_are_a_mistake(frontier):
    with pytest.raises(KeyError, match="surprise"):
        await tell(frontier, surprise=1)


async def test_what_others_wrote_into_the_keys_is_left_out(frontier, clock):
    keys, command = frontier.home.keys, frontier.server.command
    await tell(frontier, pages=1, timings={"fetch": timing(10.0)}, tables={"host": {"a": Row(1)}})
    minute, hour = clock.now_ms // 60_000, clock.now_ms // 3_600_000
    await command("HSET", keys.key("timings", f"60/{minute}/fetch"), "x", 1, "99999", 1, "8", "y")
    await command("HSET", keys.key("tables", f"3600/{hour}/host"), "b", "junk", "c", b"\xff 1")

    history = await read_history(frontier, ["fetch", "nonsense"], since_s=10)

    assert history.quantiles["fetch"]["p99"] == [pytest.approx(10, rel=0.022)]
    assert {row.name: row.ok for row in await read_table(frontier, "host")} == {
        "a": 1,
        "b": 0,
        "c": 0,
    }


async def test_all_of_it_expires_the_audit_knows_it_and_a_purge_removes_it(frontier):
    await tell(frontier, pages=1, timings={"fetch": timing(1.0)}, tables={"host": {"a": Row(1)}})
    prefix = frontier.home.keys.prefix
    found = [
        key.decode()
        async for key in frontier.server.client.scan_iter(match=f"{prefix}*")
        if key.decode()
        .removeprefix(prefix)
        .startswith(("totals", "counts:", "timings:", "tables:"))
    ]
    assert len(found) == 1 + 2 * 2 + 3 + 2  # totals; pages and reports; fetch; host
    for key in found:
        assert 0 < await frontier.server.command("TTL", key) <= 8 * 86_400
    assert (await audit(frontier)).clean

    await frontier.server.command("PERSIST", found[0])
    assert not (await audit(frontier)).clean

    await purge_job(frontier)
    assert not [key async for key in frontier.server.client.scan_iter(match=f"{prefix}*")]


@pytest.mark.parametrize("since_s", [1, 10, 59, 3600, 86_400, 86_401, 7 * 86_400, 10**9])
@pytest.mark.parametrize("points", [-1, 1, 7, 600, 10**9])
def test_every_window_ends_now_and_is_bounded(since_s, points):
    now = 1_700_000_123.4
    shown = window(now, since_s=since_s, points=points)
    assert shown.starts[-1] <= now < shown.starts[-1] + shown.step_s
    assert len(shown.starts) == shown.count <= 2000
    assert shown.step_s % shown.grain.step_s == 0
    assert shown.count * shown.step_s >= min(since_s, 7 * 86_400)


def test_the_catalogue_has_the_names_that_others_rely_on():
    assert {"pages", "items", "fetch.ok", "status.2xx", "proxy_money_micro"} <= COUNTERS.keys()
