"""The metrics of all jobs in the Prometheus format."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, NamedTuple

from skitter.frontier.admin.eta import survey_hosts
from skitter.frontier.admin.jobs import for_each_job, open_job
from skitter.frontier.admin.workers import Heartbeat, heartbeats
from skitter.frontier.metrics import OTHERS, TableRow, Totals, read_totals
from skitter.metrics.catalogue import CLASSES, OUTCOMES
from skitter.metrics.histogram import Histogram
from skitter.metrics.prometheus import (
    FETCH_BOUNDS,
    WAIT_BOUNDS,
    WORK_BOUNDS,
    Family,
    render,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.frontier.connection import Server
    from skitter.model import Stats

#: Per job; the rest share one row. A series for every host would overload Prometheus.
TOP_HOSTS: Final = 20
MAX_WORKERS: Final = 200

#: Counters: name, its name in the catalogue, help text, divisor.
_COUNTERS: Final = (
    ("pages_total", "pages", "Pages that are done.", 1),
    ("items_total", "items", "Items that handlers found.", 1),
    ("items_stored_total", "stored", "Items that were stored.", 1),
    ("retries_total", "retries", "Attempts that will be retried.", 1),
    ("dead_letters_total", "dead", "Requests that were given up.", 1),
    ("blocked_total", "blocked", "Responses that were block pages.", 1),
    ("leases_lost_total", "lost", "Leases that expired because their worker vanished.", 1),
    ("body_bytes_total", "bytes", "Bytes of bodies, and all browser traffic.", 1),
    ("browser_seconds_total", "browser_ms", "Seconds of browser work.", 1000),
    ("proxy_cost_total", "proxy_money_micro", "Cost of proxies, in your currency.", 1_000_000),
)
#: Histograms: name, timing, help text, bounds.
_HISTOGRAMS: Final = (
    ("request_duration_seconds", "fetch", "A whole exchange.", FETCH_BOUNDS),
    ("first_byte_seconds", "first_byte", "Until the head of the response arrived.", FETCH_BOUNDS),
    ("connect_seconds", "connect", "Connecting to a host, including TLS.", FETCH_BOUNDS),
    ("dns_seconds", "dns", "Looking up an address.", FETCH_BOUNDS),
    (
        "queue_wait_seconds",
        "queue_wait",
        "Until a request was leased.",
        WAIT_BOUNDS,
    ),
    ("handler_duration_seconds", "handler", "Running a handler.", WORK_BOUNDS),
    ("load_duration_seconds", "load", "Storing a batch of items.", WORK_BOUNDS),
    ("browser_duration_seconds", "browser", "Rendering a page in a browser.", FETCH_BOUNDS),
)
_DEPTHS: Final = ("pending", "delayed", "leased", "dead", "excluded", "shelved", "trapped")


class _Job(NamedTuple):
    name: str
    stats: Stats
    totals: Totals
    beats: list[Heartbeat]
    oldest_at: float | None  # arrival of the request that has waited longest


async def exposition(server: Server) -> str:
    """The text of `/metrics`."""
    found = await for_each_job(server, partial(_read, server))
    return render(families(list(found.values())))


def families(jobs: list[_Job]) -> list[Family]:
    """Every metric, in order. The label is `crawl`: Prometheus sets a `job` label itself."""
    return [_build(), *_counters(jobs), *_histograms(jobs), *_tables(jobs), *_gauges(jobs)]


async def _read(server: Server, job: str) -> _Job:
    frontier = await open_job(server, job)
    stats, totals = await frontier.stats(), await read_totals(frontier)
    oldest_at = (await survey_hosts(frontier)).oldest_at if stats.pending else None
    return _Job(job, stats, totals, await heartbeats(frontier), oldest_at)


def _build() -> Family:
    family = Family("build_info", "gauge", "The release of this server.")
    family.add(1, version=version("skitter"))
    return family


def _counters(jobs: list[_Job]) -> Iterator[Family]:
    for name, counter, text, unit in _COUNTERS:
        family = Family(name, "counter", text)
        for job in jobs:
            family.add(job.totals.counts.get(counter, 0) / unit, crawl=job.name)
        yield family
    rejected = Family("items_rejected_total", "counter", "Items that could not be stored.")
    requests = Family("requests_total", "counter", "Finished requests by outcome.")
    responses = Family("responses_total", "counter", "Responses by status class.")
    for job in jobs:
        counts = job.totals.counts
        rejected.add(job.stats.rejected, crawl=job.name)
        for one in OUTCOMES:
            requests.add(counts.get(f"fetch.{one}", 0), crawl=job.name, outcome=one)
        for one in CLASSES:
            responses.add(counts.get(f"status.{one}", 0), crawl=job.name, code_class=one)
    yield from (rejected, requests, responses)


def _histograms(jobs: list[_Job]) -> Iterator[Family]:
    for name, timing, text, bounds in _HISTOGRAMS:
        family = Family(name, "histogram", text)
        for job in jobs:
            histogram = job.totals.timings.get(timing, Histogram())
            family.add_histogram(histogram, bounds, crawl=job.name)
        yield family


def _tables(jobs: list[_Job]) -> Iterator[Family]:
    hosts = Family("host_requests_total", "counter", "Requests to the busiest hosts.")
    routes = Family("route_requests_total", "counter", "Requests by proxy.")
    for job in jobs:
        for family, label in ((hosts, "host"), (routes, "route")):
            for row in _top(job.totals.tables.get(label, [])):
                for outcome, value in (("ok", row.ok), ("failed", row.failed)):
                    family.add(value, **{"crawl": job.name, label: row.name, "outcome": outcome})
    yield from (hosts, routes)


def _top(rows: list[TableRow]) -> list[TableRow]:
    """The first TOP_HOSTS rows, which come sorted by requests; the rest summed into one."""
    named = [row for row in rows if row.name != OTHERS]
    top, rest = named[:TOP_HOSTS], named[TOP_HOSTS:]
    rest += [row for row in rows if row.name == OTHERS]
    if not rest:
        return top
    ok, failed = sum(row.ok for row in rest), sum(row.failed for row in rest)
    return [*top, TableRow(name=OTHERS, ok=ok, failed=failed, bytes=0, ms=0)]


def _gauges(jobs: list[_Job]) -> Iterator[Family]:
    depth = Family("queue_depth", "gauge", "Requests by state.")
    text = "Arrival time of the request that has waited longest."
    oldest = Family("queue_oldest_timestamp_seconds", "gauge", text)
    items = Family("items_waiting", "gauge", "Items waiting for a loader.")
    hosts = Family("hosts", "gauge", "Known hosts of the job.")
    state = Family("job_state", "gauge", "1 for the current state of the job.")
    last = Family("last_page_timestamp_seconds", "gauge", "When the last page was completed.")
    heard = Family("worker_heartbeat_timestamp_seconds", "gauge", "When a process last reported.")
    for job in jobs:
        for one in _DEPTHS:
            depth.add(getattr(job.stats, one), crawl=job.name, state=one)
        if job.oldest_at is not None:
            oldest.add(job.oldest_at, crawl=job.name)
        items.add(job.stats.items, crawl=job.name)
        hosts.add(job.stats.hosts, crawl=job.name)
        state.add(1, crawl=job.name, state=job.stats.status)
        if job.totals.last_page_at:
            last.add(job.totals.last_page_at, crawl=job.name)
        for beat in job.beats[:MAX_WORKERS]:
            heard.add(beat.at, crawl=job.name, worker=beat.name, kind=beat.kind)
    yield from (depth, oldest, items, hosts, state, last, heard)
