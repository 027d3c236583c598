"""/metrics: what Prometheus reads is well-formed, and the same as the job's own figures."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections import Counter

import pytest

from needs import need
from skitter.frontier.jobs import create_job
from skitter.frontier.records.exposition import TOP_HOSTS, Family, exposition, render
from skitter.frontier.records.metrics import read_totals, record
from skitter.frontier.workers import Heartbeat, beat
from skitter.model import Completion, Request
from skitter.observe.metrics import Batch, Histogram, Row
from skitter.settings import Layout

LINE = re.compile(
    r'skitter_[a-z_]+(?:\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})?'
    r" -?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?"
)


def filled(*durations):
    histogram = Histogram()
    for ms in durations:
        histogram.add(ms)
    return histogram


BATCH = Batch(
    Counter({"pages": 7, "items": 3, "fetch.ok": 6, "fetch.timeout": 1, "browser_ms": 1500}),
    {"fetch": filled(4.0, 40.0, 400.0, 200_000.0)},
    {"host": {f"h{n}.test": Row(n, 1, 0, 0) for n in range(1, 40)}},
)


def read(text, job):
    """Samples of one job, by name and the other labels."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#") and f'crawl="{job}"' in line:
            name, value = line.rsplit(" ", 1)
            others = name.replace(f'crawl="{job}"', "").replace("{,", "{").replace("{}", "")
            found[others] = float(value)
    return found


async def test_it_has_the_figures_of_every_job(server, frontier, clock, job):
    other = await create_job(server, f"{job}-other", clock=clock)
    await record(frontier, BATCH)
    await record(frontier, Batch(Counter(pages=1)))
    await frontier.add([Request(url="https://a.test/1"), Request(url="https://a.test/2")])
    [lease, _] = (await frontier.lease(2)).leases
    await frontier.complete([Completion(lease=lease)])
    await beat(frontier, Heartbeat(name="w", host="h", pid=1, started_at=1, at=1234.5))

    text = await exposition(server)

    ours, theirs = read(text, job), read(text, other.job)
    assert ours["skitter_pages_total"] == 8
    assert theirs["skitter_pages_total"] == 0
    assert ours['skitter_requests_total{outcome="ok"}'] == 6
    assert theirs['skitter_requests_total{outcome="robots"}'] == 0
    assert ours["skitter_browser_seconds_total"] == 1.5
    assert ours['skitter_queue_depth{state="leased"}'] == 1
    assert ours['skitter_job_state{state="running"}'] == 1
    assert ours["skitter_last_page_timestamp_seconds"] == clock.now_ms // 1000
    assert ours['skitter_worker_heartbeat_timestamp_seconds{worker="w",kind="worker"}'] == 1234.5
    assert ours["skitter_queue_wait_seconds_count"] == 2


async def test_it_tells_since_when_the_oldest_request_waits(server, frontier, clock, job):
    began = clock.now_ms / 1000
    await frontier.add([Request(url="https://a.test/1")])
    clock.advance(60)
    await frontier.add([Request(url="https://b.test/1")])

    name = "skitter_queue_oldest_timestamp_seconds"
    assert read(await exposition(server), job)[name] == pytest.approx(began, abs=2)
    await frontier.lease(2)
    assert name not in read(await exposition(server), job)


async def test_buckets_are_cumulative(server, frontier, job):
    await record(frontier, BATCH)

    found = read(await exposition(server), job)

    name = "skitter_request_duration_seconds"
    assert [found[f'{name}_bucket{{le="{le}"}}'] for le in ("0.005", "0.05", "0.5", "120")] == [
        1,
        2,
        3,
        3,
    ]
    assert found[f'{name}_bucket{{le="+Inf"}}'] == found[f"{name}_count"] == 4
    assert found[f"{name}_sum"] == pytest.approx(200.444)


async def test_only_so_many_hosts_have_series_of_their_own(server, frontier, job):
    await record(frontier, BATCH)

    found = read(await exposition(server), job)

    hosts = {name: n for name, n in found.items() if name.startswith("skitter_host_requests")}
    assert len(hosts) == 2 * (TOP_HOSTS + 1)
    assert sum(hosts.values()) == sum(range(1, 40)) + 39
    assert hosts['skitter_host_requests_total{host="other",outcome="failed"}'] == 39 - TOP_HOSTS


async def test_totals_of_all_shards_are_added_up(make_frontier, clock):
    frontier = await make_frontier(None, Layout(shards=3))
    await frontier.add([Request(url=f"https://h{n}.test/") for n in range(9)])
    leases = (await frontier.lease(90, ttl_s=5)).leases
    clock.advance(10)
    await frontier.reap()

    totals = await read_totals(frontier)

    assert totals.counts["lost"] == totals.timings["queue_wait"].count == len(leases) == 9


async def test_every_line_is_well_formed_whatever_is_in_a_label(server, frontier):
    rows = {'a"b\\c\nd': Row(1), "größe.test": Row(2), "\ud800": Row(3)}
    await record(frontier, Batch(tables={"host": rows}))

    text = await exposition(server)

    lines = text.splitlines()
    assert text.endswith("\n")
    assert [line for line in lines if not line.startswith("#") and not LINE.fullmatch(line)] == []
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    samples = [line.rsplit(" ", 1)[0] for line in lines if not line.startswith("#")]
    assert len(samples) == len(set(samples))


async def test_promtool_finds_nothing_wrong(server, frontier):
    promtool = need("promtool")
    await record(frontier, BATCH)

    text = await exposition(server)

    checked = await asyncio.to_thread(
        subprocess.run,
        [promtool, "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_a_family_without_samples_is_still_described():
    assert render([Family("x_total", "counter", "Says\nwhat.")]) == (
        "# HELP skitter_x_total Says\\nwhat.\n# TYPE skitter_x_total counter\n"
    )
