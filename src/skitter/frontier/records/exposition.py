"""The metrics of all jobs, in Prometheus's text format."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from skitter.extras import RELEASE
from skitter.frontier.items import oldest_item_at
from skitter.frontier.jobs import for_each_job, open_job
from skitter.frontier.records.metrics import OTHERS, TableRow, Totals, read_totals
from skitter.frontier.sites.hosts import survey_hosts
from skitter.frontier.transport.connection import inspect
from skitter.frontier.workers import FETCHING, Heartbeat, heartbeats, living, supervisors
from skitter.observe.metrics import CLASSES, OUTCOMES, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from skitter.frontier.transport.connection import Server, ServerFacts
    from skitter.model import Stats


PREFIX: Final = "skitter_"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: In seconds. Fetches: up to two minutes, as long as gateways retry; waits: up to a day.
FETCH_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
WAIT_BOUNDS: Final = (0.05, 0.25, 1, 5, 15, 60, 300, 900, 1800, 7200, 86_400)
WORK_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 10, 60)

Kind = Literal["counter", "gauge", "histogram"]
Labels = dict[str, str]


@dataclass(slots=True)
class Family:
    """One metric, with a sample for each set of labels."""

    name: str
    kind: Kind
    help: str
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)  # suffix, labels, value

    def add(self, value: float, **labels: str) -> None:
        self.samples.append(("", labels, value))

    def add_histogram(self, histogram: Histogram, bounds: Sequence[float], **labels: str) -> None:
        for bound in bounds:
            up_to = histogram.count_up_to(1000 * bound)
            self.samples.append(("_bucket", {**labels, "le": f"{bound:g}"}, up_to))
        self.samples.append(("_bucket", {**labels, "le": "+Inf"}, histogram.count))
        self.samples.append(("_sum", labels, histogram.sum_ms / 1000))
        self.samples.append(("_count", labels, histogram.count))

    def lines(self) -> Iterable[str]:
        name = PREFIX + self.name
        yield f"# HELP {name} {_escape(self.help)}"
        yield f"# TYPE {name} {self.kind}"
        for suffix, labels, value in self.samples:
            yield f"{name}{suffix}{_spell(labels)} {_number(value)}"


def render(families: Iterable[Family]) -> str:
    return "".join(f"{line}\n" for family in families for line in family.lines())


def _spell(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escape_value(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _escape_value(text: str) -> str:
    return _escape(text).replace('"', r"\"")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


#: Per job; the rest share one row. A series for every host would overload Prometheus.
TOP_HOSTS: Final = 20
#: Jobs with histograms, hosts and routes: those that did a page last.
TOP_JOBS: Final = 50
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
    ("archived_pages_total", "archived", "Pages that the archive has kept.", 1),
    ("archived_bytes_total", "archived_bytes", "Bytes that the archive has taken for them.", 1),
    ("unarchived_pages_total", "unarchived", "Pages that the archive could not keep.", 1),
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
_DEPTHS: Final = (
    *("pending", "delayed", "leased", "dead", "excluded", "shelved"),
    *("trapped", "unhandled"),
)


class _Job(NamedTuple):
    name: str
    stats: Stats
    totals: Totals
    beats: list[Heartbeat]
    machines: list[Heartbeat]  # their supervisors
    oldest_at: float | None  # arrival of the request that has waited longest
    oldest_item_at: float | None  # of the item that has waited longest for a loader
    now: float


class _Node(NamedTuple):
    """One server, or node of a cluster."""

    name: str
    facts: ServerFacts


async def exposition(server: Server) -> str:
    """The text of `/metrics`, without `presence`."""
    found = await for_each_job(server, partial(_read, server))
    nodes = [_Node(str(at), facts) for at, facts in enumerate(await inspect(server))]
    free = shutil.disk_usage(server.directory).free if server.directory else None
    return render(_families(list(found.values()), nodes, free))


def presence(*, up: bool, read_at: float | None) -> str:
    """Whether the server answers, and how old the other figures are: while it is away, those read
    last are shown again."""
    return render(_presence(up=up, read_at=read_at))


def families(jobs: list[_Job]) -> list[Family]:
    """Every metric, in order. The label is `crawl`: Prometheus sets a `job` label itself."""
    return [*_presence(up=True, read_at=None), *_families(jobs, [], None)]


def _families(jobs: list[_Job], nodes: list[_Node], free: int | None) -> list[Family]:
    busy = _busiest(jobs)
    about = [*_counters(jobs), *_histograms(busy), *_tables(busy), *_gauges(jobs)]
    return [_build(), *_server(nodes, free), *about, *_processes(jobs)]


async def _read(server: Server, job: str) -> _Job:
    frontier = await open_job(server, job)
    stats, totals = await frontier.stats(), await read_totals(frontier)
    return _Job(
        job,
        stats,
        totals,
        await heartbeats(frontier),
        await supervisors(frontier),
        (await survey_hosts(frontier)).oldest_at if stats.pending else None,
        await oldest_item_at(frontier) if stats.items else None,
        await frontier.server_time(),
    )


def _presence(*, up: bool, read_at: float | None) -> Iterator[Family]:
    server = Family("server_up", "gauge", "1: Redis or Valkey answers.")
    server.add(int(up))
    at = Family("figures_timestamp_seconds", "gauge", "When all other figures were read.")
    if read_at is not None:
        at.add(read_at)
    yield from (server, at)


def _server(nodes: list[_Node], free: int | None) -> Iterator[Family]:
    memory = Family("server_memory_bytes", "gauge", "Memory that the server uses.")
    limit = Family("server_memory_limit_bytes", "gauge", "Its maxmemory, if it has one.")
    writes = Family("server_writes_ok", "gauge", "0: it cannot write to its disk.")
    disk = Family("server_disk_free_bytes", "gauge", "Free space of the embedded server's disk.")
    for node in nodes:
        memory.add(node.facts.memory_bytes, node=node.name)
        if node.facts.max_memory_bytes:
            limit.add(node.facts.max_memory_bytes, node=node.name)
        writes.add(int(node.facts.last_write_ok), node=node.name)
    if free is not None:
        disk.add(free)
    yield from (memory, limit, writes, disk)


def _build() -> Family:
    family = Family("build_info", "gauge", "The release of this server.")
    family.add(1, version=RELEASE)
    return family


def _busiest(jobs: list[_Job]) -> list[_Job]:
    """Those whose histograms, hosts and routes are exposed: they are 9 KB of each job."""
    is_open = [job for job in jobs if not job.stats.finished]
    top = nlargest(TOP_JOBS, is_open, key=lambda job: job.totals.last_page_at)
    return [job for job in jobs if job in top] if len(is_open) > TOP_JOBS else is_open


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
    text = "When the item that has waited longest for a loader was found."
    oldest_item = Family("items_oldest_timestamp_seconds", "gauge", text)
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
        if job.oldest_item_at is not None:
            oldest_item.add(job.oldest_item_at, crawl=job.name)
    yield from (depth, oldest, items, oldest_item, hosts, state, last)


def _processes(jobs: list[_Job]) -> Iterator[Family]:
    count = Family("processes", "gauge", "Processes that report, by kind.")
    heard = Family("worker_heartbeat_timestamp_seconds", "gauge", "When a process last reported.")
    text = "When the supervisor of a machine last reported."
    machines = Family("machine_heartbeat_timestamp_seconds", "gauge", text)
    for job in jobs:
        kinds = Counter(one.kind for one in living(job.beats, job.now))
        for kind in sorted(FETCHING | {"loader"}):
            count.add(kinds[kind], crawl=job.name, kind=kind)
        for beat in job.beats[:MAX_WORKERS]:
            heard.add(beat.at, crawl=job.name, worker=beat.name, kind=beat.kind)
        by_host = {
            machine.host: machine.at
            for machine in sorted(job.machines, key=lambda machine: machine.at)
        }
        for host, at in list(by_host.items())[-MAX_WORKERS:]:
            machines.add(at, crawl=job.name, machine=host)
    yield from (count, heard, machines)
