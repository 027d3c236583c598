"""python -m benchmarks.simulate: a polite crawl of an imaginary web."""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING, Annotated

import click
import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.frontier.lease import Clock
from benchmarks.ground import prepare_ground
from benchmarks.render import progress_on_stderr
from benchmarks.simulate.crawl import Crawl, Plan
from benchmarks.simulate.outcome import Costs, Outcome, outcome_of
from benchmarks.simulate.web import Web
from skitter.cli.parameters import Option, command
from skitter.frontier.jobs import create_job
from skitter.settings import JobOptions, Layout, Limits, Politeness

if TYPE_CHECKING:
    from benchmarks.ground import Ground, Progress

#: All URLs of this web have the same shape.
OPTIONS = JobOptions(politeness=Politeness(), limits=Limits(shape_budget=None))


def simulate(
    hosts: Annotated[int, Option(help="Hosts of the web.")] = 100_000,
    urls: Annotated[int, Option(help="Pages of the web, a Zipf over hosts.")] = 10_000_000,
    pages: Annotated[int, Option(help="Pages to crawl.")] = 100_000,
    slots: Annotated[int, Option(help="Fetches at once, of all workers.")] = 20_000,
    shards: Annotated[int, Option(help="Shards of the job.")] = 1,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
) -> None:
    """Crawl politely, a second of delay per host, on the frontier's real scripts."""
    plan = Plan(Web(hosts, urls), pages=pages, slots=slots, seeds=max(1, hosts // 10))
    with progress_on_stderr() as progress:
        outcome = uvloop.run(run(plan, shards=shards, progress=progress))
    if as_json:
        click.echo(msgspec.json.encode(outcome).decode())
    else:
        Console(highlight=False, soft_wrap=True).print(table(outcome))


async def run(plan: Plan, *, shards: int, progress: Progress) -> Outcome:
    clock, began = Clock(), time.perf_counter()
    async with prepare_ground(progress) as ground:
        await _unbound(ground)
        frontier = await create_job(
            ground.server, "web", options=OPTIONS, layout=Layout(shards=shards), clock=clock
        )
        before, server_before = cpu_us(), await server_cpu_us(ground)
        bytes_before = await ground.data_bytes()
        crawl = Crawl(frontier, clock, plan, progress)
        await crawl.run()
        costs = Costs(
            bytes_total=await ground.data_bytes() - bytes_before,
            server_us=await server_cpu_us(ground) - server_before,
            client_us=cpu_us() - before,
            real_s=time.perf_counter() - began,
        )
        return outcome_of(crawl, await frontier.stats(), costs)


async def _unbound(ground: Ground) -> None:
    """This is about memory and scripts: write no files, and set no memory limit."""
    await ground.server.command("CONFIG SET", "appendonly", "no")
    await ground.server.command("CONFIG SET", "maxmemory", "0")


def cpu_us() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return 1e6 * (used.ru_utime + used.ru_stime)


async def server_cpu_us(ground: Ground) -> float:
    """CPU time of the thread that runs scripts: on a busy machine wall-clock time is too high."""
    info = await ground.server.command("INFO", "cpu")
    return 1e6 * sum(float(info[f"used_cpu_{kind}_main_thread"]) for kind in ("user", "sys"))


def table(outcome: Outcome) -> Table:
    shown = Table("figure", "value", title="benchmarks.simulate")
    for name, value in msgspec.structs.asdict(outcome).items():
        places = 0 if value >= 1000 or isinstance(value, int) else 3
        shown.add_row(name.replace("_", " "), f"{value:,.{places}f}")
    return shown


if __name__ == "__main__":
    command(simulate, "simulate").main()
