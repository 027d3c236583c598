"""The processes of an agent: one that carries out a run, and one that lists what the agent offers.
And that of a server which fetches pages on request.

Standard output belongs to the agent; what users' code prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.app import open_server
from skitter.cli import tuning
from skitter.cli.crawl import plan_of
from skitter.cli.running import run_plan, supervisor_of
from skitter.cli.show.output import print_progress
from skitter.crawl.agent import OFFERED
from skitter.crawl.carried import Carried, leave_if_orphaned, started, take_stdout, write_out
from skitter.crawl.lifecycle import open_plan
from skitter.errors import SkitterError
from skitter.fetch.http.guard import Guard
from skitter.settings.sources import OPTIONS, check_given
from skitter.spider import load_spider
from skitter.spider.offers import find_offers, is_project
from skitter.spider.seeding import begin_due_round
from skitter.spider.source import version_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.crawl.lifecycle import Crawl
    from skitter.crawl.plan import Plan

#: The spider of pages on request.
SCRAPE = "skitter.scrape"


def main(words: list[str]) -> None:
    """Runs `started RUN --parent PID`, which carries out a run, `node JOB --parent PID` for one of
    a Scrapy project, `offers - --parent PID`, or `pages WORKERS --parent PID`."""
    tuning.begin()
    if words[0] == "node":
        from skitter.scrapy.project import run_node  # an extra

        run_node(int(words[3]))
    elif words[0] == "offers":
        list_offers()
    elif words[0] == "pages":
        fetch_pages(words[1], int(words[3]))
    else:
        sys.exit(carry_out(int(words[3])))


def list_offers() -> None:
    """What the agent's list offers, as JSON."""
    out = take_stdout()
    found = find_offers(os.environ.pop(OFFERED).split("\n"))
    write_out(out, msgspec.json.encode(found))


class Crawling(Carried):
    """A run of a spider of ours."""

    tasks: list[asyncio.Task[None]]

    @property
    def plan(self) -> Plan:
        """Raises UsageError."""
        spec, target = self.started.lease.spec, self.started.target
        spec.check()
        given = check_given(spec.settings) | ({"output.to": (spec.out,)} if spec.out else {})
        how: dict[str, Any] = {"fresh": self.discards, "max_time_s": self.left_s, "quiet": True}
        arguments = dict(spec.arguments)
        if arguments:  # an address of this network that comes from them is not ours
            how |= {"trusts_seeds": False, "allow": _own_addresses(target)}
        plan = plan_of(target, arguments, spec.job or None, given, **how)
        self.check_job(plan.job)
        return plan

    async def begun(self, crawl: Crawl, stop: Callable[[], None]) -> None:
        if self.started.lease.spec.round_ms:
            await begin_due_round(crawl.frontier, crawl.plan.spider)
        self.tasks = [asyncio.create_task(leave_if_orphaned(self.parent, stop))]
        version = version_of(crawl.plan.spider)
        server = crawl.frontier.server
        if not await self.note_begun(server, crawl.plan.job, version, crawl.before):
            print_progress("another agent has this run: stopping")
            stop()


def _own_addresses(target: str) -> tuple[str, ...]:
    """Private hosts among the start URLs of the spider without arguments."""
    with suppress(SkitterError):
        spider = load_spider(target, {})
        return tuple(Guard.for_seeds(seed.url for seed in spider.known_seeds).allowed_hosts)
    return ()


def carry_out(parent: int) -> int:
    """Carry out the run that the agent has leased. Returns the exit code."""
    import uvloop

    ours, out = started(), take_stdout()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if is_project(ours.target):
        from skitter.scrapy.project import carry_out_project  # an extra

        return uvloop.run(carry_out_project(Carried(ours, parent, out)))
    carried = Crawling(ours, parent, out)
    return uvloop.run(run_plan(carried.plan, observer=carried))


def fetch_pages(workers: str, parent: int) -> None:
    """Keep workers for pages that callers ask for, until the parent stops us or dies."""
    import uvloop

    option = OPTIONS["workers.processes"]
    given = {option.key: option.parse(workers, "--workers")}
    plan = plan_of(SCRAPE, {}, None, given, keep_alive=True)

    async def work() -> None:
        async with open_server(plan.where, progress=print_progress) as server:
            frontier = await open_plan(server, plan, print_progress)
            supervisor = supervisor_of(frontier, plan)
            leaving = asyncio.create_task(leave_if_orphaned(parent, supervisor.stop))
            await supervisor.run()
            leaving.cancel()

    uvloop.run(work())
