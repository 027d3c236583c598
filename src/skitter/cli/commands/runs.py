"""Runs of spiders that agents offer, and what they find: agent, start, runs, tail.

An agent serves the runs of its list; `start` asks for one; `runs` shows, stops and repeats them;
`tail` prints items as they are found.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Annotated, Any

import click
import msgspec

from skitter.app import open_server
from skitter.cli.common import (
    SERVER,
    Arguments,
    Job,
    Json,
    Where,
    on_job,
    on_server,
    pairs_of,
    seconds_of,
)
from skitter.cli.crawl import Fresh, MaxTime
from skitter.cli.dashboard import environment_of
from skitter.cli.flags import Given, with_flags
from skitter.cli.parameters import Argument, Exit, Group, Option
from skitter.cli.show.output import answer, emit_json, grid, pairs, print_progress, say
from skitter.errors import SkitterError
from skitter.frontier.frontier import Frontier
from skitter.frontier.records.agents import find_offer, list_agents, offers_of, start_run
from skitter.frontier.records.live import Live, is_over
from skitter.frontier.records.operators import NewAction, this_user
from skitter.frontier.records.runs import RUN_OPTIONS, Run, Runs, Spec, new_id
from skitter.frontier.transport.connection import Server
from skitter.model import Result, Stats
from skitter.observe.report import duration, moment, some
from skitter.settings import Settings
from skitter.settings.sources import OPTIONS
from skitter.sinks.rows import NOT_A_ROW, row_of

LOOK_S = 0.5
#: Ended without an exit code: stopped, or lost.
NO_CODE = 1


def agent(
    spiders: Annotated[
        list[str],
        Option(
            "--spiders", metavar="PATTERN", help="Spiders it may run: 'spiders/*.py', shop.spiders."
        ),
    ],
    at_most: Annotated[int, Option("--runs", min=1, max=1000, help="How many runs at a time.")] = 2,
    workers: Annotated[
        str | None,
        Option("--workers", metavar="NUMBER", help="Worker processes of a run that sets none."),
    ] = None,
    name: Annotated[
        str | None, Option("--name", help="Its name. Default: machine and process.")
    ] = None,
    where: Where = SERVER,
) -> None:
    """Serve runs of the spiders in a list, until stopped.

    `skitter start`, the dashboard, the HTTP API and schedules ask for runs. Only spiders that
    --spiders names are run. If the agent is stopped or dies, another agent goes on with its runs.
    """
    import os

    import uvloop

    from skitter.crawl.agent import Agency

    environment = environment_of(where)
    if workers is not None:
        option = OPTIONS["workers.processes"]
        environment[option.variable] = option.parse(workers, "--workers")

    async def work() -> None:
        async with open_server(where, progress=print_progress) as server:
            called = name or f"{socket.gethostname()}-{os.getpid()}"
            await Agency(server, spiders, at_most, called, environment, print_progress).serve()

    uvloop.run(work())


@with_flags(RUN_OPTIONS)
def start(
    spider: Annotated[
        str, Argument(metavar="SPIDER", help="Its name in the agent's list, or its file.")
    ],
    arguments: Arguments = None,
    job: Annotated[
        str | None, Option("--job", help="Job name. Default: the spider's name.")
    ] = None,
    fresh: Fresh = False,
    out: Annotated[
        str | None, Option("--out", "-o", metavar="FILE", help="A file in the agent's folder.")
    ] = None,
    max_time: MaxTime = None,
    wait: Annotated[
        bool, Option("--wait", help="Wait for its end, and exit with its exit code.")
    ] = False,
    where: Where = SERVER,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """Start a run of a spider on an agent.

    It works as `skitter run` does, where `skitter agent` serves the spider.
    """
    spec = Spec(
        spider=spider,
        arguments=pairs_of(arguments),
        settings=msgspec.to_builtins(given),
        job=job or "",
        out=out or "",
        fresh=fresh,
        max_time_s=seconds_of("--max-time", max_time) if max_time else None,
        by=this_user(),
    )
    _start(spec, where, wait=wait, as_json=as_json)


def _start(spec: Spec, where: Settings, *, wait: bool, as_json: bool) -> None:
    async def work(server: Server) -> tuple[Run, bool]:
        offer, runs, identity = await find_offer(server, spec), Runs.on(server), new_id()
        await start_run(server, offer, spec, identity)
        alive = offers_of(await list_agents(server, alive=True))
        run = await (_ended(runs, identity) if wait else runs.get(identity))
        return run, offer.name in alive

    action = NewAction(spec.job or spec.spider, "start", " ".join(spec.arguments))
    run, is_served = on_server(where, work, action=action)
    if wait:
        _show(run, as_json=as_json)
        raise Exit(_code_of(run))
    answer(
        run,
        f"run {run.id} of {run.spider} is started: `skitter runs show {run.id}` shows it.",
        as_json=as_json,
    )
    if not is_served and not as_json:
        print_progress("No agent offers this spider now: the run waits for one.")


async def _ended(runs: Runs, identity: str) -> Run:
    """If the server is away, wait for it."""
    while True:
        try:
            run = await runs.get(identity)
            if run.ended_at is not None:
                return run
        except SkitterError as error:
            if not error.retryable:
                raise
        await asyncio.sleep(LOOK_S)


class Listing(Group):
    """Without a command, `list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


group = Listing(help="Show, stop and repeat runs; without a command, list the newest.")
RunId = Annotated[str, Argument(metavar="ID", help="As `skitter runs` shows it.")]


@group.add("list")
def list_runs(
    job: Annotated[str | None, Option("--job", help="Only runs of this job or spider.")] = None,
    limit: Annotated[
        int, Option("--limit", "-n", min=1, max=1000, help="Maximum number to show.")
    ] = 20,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """List the newest runs."""

    async def work(server: Server) -> tuple[list[Run], int]:
        found, _ = await Runs.on(server).newest(
            lambda run: job is None or job in (run.job, run.spider), limit=limit
        )
        return found, len(await list_agents(server, alive=True))

    found, agents = on_server(where, work)
    if as_json:
        emit_json(found)
        return
    if found:
        columns = ["run", "spider", "state", "requested", "took", "pages", "items", "dead"]
        grid(columns, [_cells(run) for run in found])
    else:
        say("There are no runs: `skitter start SPIDER` starts one.")
    if not agents:
        print_progress("No agent is running: `skitter agent --spiders 'spiders/*.py'` starts one.")


def _cells(run: Run) -> list[object]:
    report = run.report or {}
    took = "" if run.seconds is None else duration(run.seconds)
    numbers = [str(report.get(name, "")) for name in ("pages_now", "items", "dead")]
    asked = moment(run.asked_at, "%m-%d %H:%M:%S")
    return [run.id, run.spider, _state(run), asked, took, *numbers]


def _state(run: Run) -> str:
    return f"failed, {run.exit_code}" if run.state == "failed" and run.exit_code else run.state


@group.add("show")
def show(identity: RunId, where: Where = SERVER, as_json: Json = False) -> None:
    """Show a run: what was asked for, who has it, and its report."""
    run = on_server(where, lambda server: Runs.on(server).get(identity))
    _show(run, as_json=as_json)


def _show(run: Run, *, as_json: bool) -> None:
    if as_json:
        emit_json(run)
        return
    pairs((name, value) for name, value in _rows(run) if value not in ("", None))
    if run.ended_at is None and run.job:
        print_progress(f"`skitter logs {run.job} -f` follows it.")


def _rows(run: Run) -> list[tuple[str, Any]]:
    report = run.report or {}
    given = [f"{name}={value}" for name, value in (run.arguments | run.settings).items()]
    counts = [f"{report[name]:,} {word}" for name, word in REPORTED.items() if report.get(name)]
    return [
        ("run", run.id),
        ("spider", run.spider),
        ("job", run.job),
        ("version", run.version),
        ("with", ", ".join([*given, *["fresh"] * run.fresh])),
        ("state", _state(run)),
        ("requested", f"{moment(run.asked_at)}, by {run.by}"),
        ("started", moment(run.started_at) if run.started_at else ""),
        ("ended", moment(run.ended_at) if run.ended_at else ""),
        ("agent", run.agent),
        ("lost agents", run.lost or ""),
        ("stopped by", run.stopped_by),
        ("repeats", run.again),
        ("end", report.get("end", "")),
        ("counts", ", ".join(counts)),
        ("out", report.get("out", "")),
        ("says", run.says),
    ]


REPORTED = {"pages_now": "pages", "items": "items", "dead": "dead", "pending": "pending"}


def _code_of(run: Run) -> int:
    return NO_CODE if run.exit_code is None else run.exit_code


@group.add("stop")
def stop(identity: RunId, where: Where = SERVER, as_json: Json = False) -> None:
    """Stop a run. Its agent finishes the pages in flight; `again` continues it."""

    async def work(server: Server) -> tuple[Run, bool]:
        runs = Runs.on(server)
        stopped = await runs.stop(identity, by=this_user())
        return await runs.get(identity), stopped

    action = NewAction("", "stop run", identity)
    run, stopped = on_server(where, work, action=action)
    says = "stops" if run.ended_at is None else "is stopped" if stopped else "had ended before"
    answer(run, f"run {run.id}: {run.spider} {says}.", as_json=as_json)


@group.add("again")
def again(
    identity: RunId,
    wait: Annotated[
        bool, Option("--wait", help="Wait for its end, and exit with its exit code.")
    ] = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Start a run with what another one was given. It continues the job, as `skitter run` does."""
    spec = on_server(where, lambda server: Runs.on(server).spec_again(identity, this_user()))
    _start(spec, where, wait=wait, as_json=as_json)


# --- what a crawl finds ---------------------------------------------------------------------------


def tail(
    job: Job,
    only: Annotated[
        str | None, Option("--field", metavar="NAME", help="Print only this field of each item.")
    ] = None,
    where: Where = SERVER,
) -> None:
    """Print items as JSON lines, as they are found, until the crawl is over.

    It begins with the next item; `skitter export` has the stored ones.
    """

    async def work(frontier: Frontier) -> None:
        count = 0
        async for found in follow_items(frontier):
            for line in _lines(found, only):
                print(line)
                count += 1
            sys.stdout.flush()  # to a pipe too: somebody follows it
        print_progress(_last_words(await frontier.stats(), count))

    on_job(where, job, work)


async def follow_items(frontier: Frontier) -> AsyncIterator[list[tuple[str, Result]]]:
    """Until nothing is left to fetch and nobody works on the job. If the server is away, waits."""
    live, away = await Live.open(frontier), False
    while True:
        try:
            if away:
                live = await Live.open(frontier, live.place)
                if live.has_gap:
                    print_progress("Some items were found meanwhile and are not shown.")
            away, over = False, await is_over(frontier)  # asked first: then nothing comes after
            while found := await live.read():
                yield found
        except SkitterError as error:
            if not error.retryable:
                raise
            if not away:
                print_progress(f"{error} Waiting for it.")
            away, over = True, False
        if over:
            return
        await asyncio.sleep(LOOK_S)


def _lines(found: list[tuple[str, Result]], only: str | None) -> Iterator[str]:
    """Without what no output takes."""
    for _, result in found:
        with suppress(*NOT_A_ROW):
            row = row_of(result)
            value = row.fields.get(only) if only else None
            text = row.line if only is None else msgspec.json.encode(value)
            yield value if isinstance(value, str) else text.decode()


def _last_words(stats: Stats, count: int) -> str:
    known = stats.stored + stats.items
    if count:
        return f"{stats.job}: nothing is left to fetch; {some(count, 'item')} since you looked."
    if known:
        items, where = some(known, "item"), f"`skitter export {stats.job} --to FILE`"
        return f"{stats.job}: nothing is left to fetch; {where} has its {items}."
    return f"{stats.job}: nothing is left to fetch, and no item was found."
