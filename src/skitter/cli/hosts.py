"""The slowest hosts of a job, and why: hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from skitter.cli.common import Directory, Job, Json, Redis, on_job, settings
from skitter.cli.output import emit_json, grid, say
from skitter.frontier.admin.hosts import host_row, slowest_hosts
from skitter.frontier.facts import HostFacts
from skitter.frontier.frontier import Frontier
from skitter.settings import JobOptions

COLUMNS = ["host", "pending", "in flight", "pages", "delay", "because", "may be asked"]


def hosts(
    job: Job,
    limit: Annotated[int, typer.Option(min=1, max=5000, help="Maximum number to show.")] = 20,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Show the hosts that are asked least often, and why."""

    async def work(frontier: Frontier) -> tuple[list[HostFacts], JobOptions, float]:
        found = await slowest_hosts(frontier, limit)
        return found, frontier.options, await frontier.server_time()

    found, options, now = on_job(settings(redis, directory), job, work)
    if as_json:
        emit_json([host_row(one, options) for one in found])
    elif found:
        grid(COLUMNS, [list(_cells(one, options, now)) for one in found])
    else:
        say(f"{job}: no hosts yet.")


def _cells(one: HostFacts, options: JobOptions, now: float) -> Iterator[object]:
    delay, wait_s = one.delay(options), one.opens_at(options) - now
    yield from (one.name, one.queued, one.in_flight, one.pages)
    yield f"{delay.seconds:g} s"
    yield delay.why
    yield f"in {wait_s:,.1f} s" if wait_s > 0 else "now"
