"""What a crawl of a given size takes: plan."""

from __future__ import annotations

import math
import re
from typing import Annotated

import msgspec
import typer

from skitter.cli.common import Json
from skitter.cli.output import emit_json, pairs
from skitter.errors import BadOption
from skitter.report import duration, some

#: Measured: docs/scaling.md and docs/benchmarks.md say how.
PENDING_BYTES, SEEN_BYTES = 218, 8.6
PAGES_PER_WORKER, SLOTS_PER_WORKER, WORKER_MB = 57.0, 64, 100
PAGES_PER_SERVER = 1400.0  # of one core, at seven new links per page
CONNECTIONS_PER_WORKER = 3
SUFFIXES = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9}


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a crawl takes, if its pages are spread evenly over its hosts."""

    hours: float
    pages_per_s: float
    bound_by: str  # hosts, workers or server
    workers: int
    worker_memory_mb: int
    server_memory_mb: int  # if all URLs are known at once
    connections: int


def needs_of(
    *, pages: int, hosts: int, delay_s: float, seconds: float, workers: int | None = None
) -> Needs:
    """Pure. `seconds`: that a fetch takes; `workers`: that there are, else as many as help."""
    by_hosts = hosts / max(delay_s, seconds)  # one request at a time to each
    polite = min(by_hosts, PAGES_PER_SERVER)
    per_worker = min(PAGES_PER_WORKER, SLOTS_PER_WORKER / seconds)
    worth = max(1, math.ceil(polite / per_worker))
    count = workers or worth
    rate = min(polite, count * per_worker)
    bound = "hosts" if rate == by_hosts else "server" if rate == PAGES_PER_SERVER else "workers"
    return Needs(
        hours=round(pages / rate / 3600, 2),
        pages_per_s=round(rate, 1),
        bound_by=bound,
        workers=count,
        worker_memory_mb=count * WORKER_MB,
        server_memory_mb=math.ceil(pages * (PENDING_BYTES + SEEN_BYTES) / 2**20),
        connections=count * CONNECTIONS_PER_WORKER,
    )


BOUNDS = {
    "hosts": "politeness: more workers would wait; only more hosts or a shorter delay help",
    "workers": "workers: more of them help",
    "server": "one server: shards on a cluster help (docs/howto/cluster.md)",
}


def plan(
    pages: Annotated[str, typer.Option(metavar="N", help="How many: 50000, 200K, 10M, 1B.")],
    hosts: Annotated[int, typer.Option(min=1, help="Over how many hosts they are spread.")],
    delay: Annotated[
        float, typer.Option(min=0, help="Seconds between requests to one host.")
    ] = 1.0,
    seconds: Annotated[float, typer.Option(min=0.01, help="That a fetch takes.")] = 0.5,
    workers: Annotated[
        int | None, typer.Option(min=1, help="That you have; else as many as are worth it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say how long a crawl takes, what it needs, and what bounds it.

    From measured figures; pages that are spread unevenly over hosts take longer.
    """
    needs = needs_of(
        pages=_number(pages), hosts=hosts, delay_s=delay, seconds=seconds, workers=workers
    )
    if as_json:
        emit_json(needs)
        return
    rows = [
        ("time", f"{duration(3600 * needs.hours)}, at {needs.pages_per_s:,.0f} pages/s"),
        ("bound by", BOUNDS[needs.bound_by]),
        ("workers", f"{some(needs.workers, 'process', 'processes')}, a core each"),
        ("memory", f"{needs.worker_memory_mb:,} MB for them"),
        ("server", f"{needs.server_memory_mb:,} MB, if all URLs are known at once"),
        ("connections", f"{needs.connections:,} to the server"),
    ]
    pairs(iter(rows))


def _number(text: str) -> int:
    found = re.fullmatch(r"(\d{1,12})([KMBG]?)", text.strip().upper().replace(",", ""))
    if not found or not int(found[1]):
        raise BadOption("pages", text, "a number such as 50000, 200K or 10M")
    return int(found[1]) * SUFFIXES[found[2]]
