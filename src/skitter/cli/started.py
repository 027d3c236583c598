"""The processes of an agent: one that carries out a run, and one that lists what the agent offers.
And that of a server which fetches pages on request.

Standard output belongs to the agent; what users' code prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.app import open_server
from skitter.cli import tuning
from skitter.cli.crawl import plan_of
from skitter.cli.running import run_plan, supervisor_of
from skitter.cli.show.output import print_progress
from skitter.crawl.agent import OFFERED, STARTED, Started
from skitter.crawl.lifecycle import open_plan
from skitter.engine.pulse import is_orphan
from skitter.errors import FrontierError, SkitterError, UsageError
from skitter.fetch.http.guard import Guard
from skitter.frontier.records.runs import RENEW_S, Hold, Runs
from skitter.settings.sources import OPTIONS, check_given
from skitter.spider import load_spider
from skitter.spider.offers import find_offers
from skitter.spider.seeding import begin_due_round
from skitter.spider.source import version_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.crawl.lifecycle import Crawl
    from skitter.crawl.plan import Plan
    from skitter.frontier.transport.connection import Server
    from skitter.observe.report import Report

ORPHAN_S = 0.5
#: The spider of pages on request.
SCRAPE = "skitter.scrape"


def main(words: list[str]) -> None:
    """Runs `started RUN --parent PID`, which carries out a run, `offers - --parent PID`, or
    `pages WORKERS --parent PID`."""
    tuning.begin()
    if words[0] == "offers":
        list_offers()
    elif words[0] == "pages":
        fetch_pages(words[1], int(words[3]))
    else:
        sys.exit(carry_out(int(words[3])))


def _take_stdout() -> int:
    """A descriptor for the agent; prints go to stderr from now on."""
    ours = os.dup(1)
    os.dup2(2, 1)
    return ours


def _write(to: int, document: bytes) -> None:
    with os.fdopen(to, "wb") as pipe:
        pipe.write(document)


def list_offers() -> None:
    """What the agent's list offers, as JSON."""
    out = _take_stdout()
    found = find_offers(os.environ.pop(OFFERED).split("\n"))
    _write(out, msgspec.json.encode(found))


class Carried:
    """A run, as its process knows it."""

    def __init__(self, started: Started, parent: int, out: int) -> None:
        self.started, self.parent, self.out = started, parent, out
        self.tasks: list[asyncio.Task[None]] = []
        self.pages_before = 0
        self.began = time.monotonic()

    @property
    def plan(self) -> Plan:
        """Raises UsageError. An earlier agent may have discarded the crawl before it."""
        lease, spec = self.started.lease, self.started.lease.spec
        spec.check()
        given = check_given(spec.settings) | ({"output.to": (spec.out,)} if spec.out else {})
        left_s = None
        if spec.max_time_s:
            waited_s = time.monotonic() - self.began
            left_s = max(1.0, spec.max_time_s - lease.spent_s - waited_s)
        how: dict[str, Any] = {"fresh": spec.fresh and not lease.job, "max_time_s": left_s}
        how |= {"quiet": True}
        target, arguments = self.started.target, dict(spec.arguments)
        if arguments:  # an address of this network that comes from them is not ours
            how |= {"trusts_seeds": False, "allow": _own_addresses(target)}
        plan = plan_of(target, arguments, spec.job or None, given, **how)
        if spec.within and not any(fnmatchcase(plan.job, job) for job in spec.within):
            allowed = ", ".join(spec.within)
            raise UsageError(
                f"the token that started this run does not allow {plan.job}, only {allowed}."
            )
        return plan

    async def opened(self, server: Server) -> None:
        """Nothing was discarded or begun yet: after a long pause, another agent may have it."""
        if is_orphan(self.parent) or await self._renew(Runs.on(server)) is Hold.LOST:
            raise FrontierError("another agent has this run.")

    async def _renew(self, runs: Runs, **known: Any) -> Hold:
        """Until the server has heard."""
        lease = self.started.lease
        while True:
            try:
                return await runs.renew(lease.id, lease.token, **known)
            except SkitterError as error:
                if not error.retryable:
                    raise
            await asyncio.sleep(RENEW_S)

    async def begun(self, crawl: Crawl, stop: Callable[[], None]) -> None:
        """From now on, an earlier crawl is not discarded again."""
        if self.started.lease.spec.round_ms:
            await begin_due_round(crawl.frontier, crawl.plan.spider)
        self.tasks.append(asyncio.create_task(leave_if_orphaned(self.parent, stop)))
        runs, lease = Runs.on(crawl.frontier.server), self.started.lease
        done = crawl.before.done + crawl.before.again
        self.pages_before = done - lease.done_before if lease.job else 0
        known: dict[str, Any] = {"job": crawl.plan.job, "version": version_of(crawl.plan.spider)}
        said = await self._renew(runs, **known, done=done)
        if said is Hold.LOST:
            print_progress("another agent has this run: stopping")
            stop()

    def ended(self, report: Report) -> None:
        """With the pages that earlier agents did in this run."""
        report = replace(report, pages_now=report.pages_now + self.pages_before)
        _write(self.out, msgspec.json.encode(report, enc_hook=int))


async def leave_if_orphaned(parent: int, stop: Callable[[], None]) -> None:
    """Without its agent, nobody keeps a run for us: another agent may have it already."""
    while not is_orphan(parent):  # noqa: ASYNC110
        await asyncio.sleep(ORPHAN_S)
    stop()
    stop()  # twice: without waiting for pages in flight


def _own_addresses(target: str) -> tuple[str, ...]:
    """Private hosts among the start URLs of the spider without arguments."""
    with suppress(SkitterError):
        spider = load_spider(target, {})
        return tuple(Guard.for_seeds(seed.url for seed in spider.known_seeds).allowed_hosts)
    return ()


def carry_out(parent: int) -> int:
    """Carry out the run that the agent has leased. Returns the exit code."""
    import uvloop

    started = msgspec.json.decode(os.environ.pop(STARTED), type=Started)
    carried = Carried(started, parent, _take_stdout())
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
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
