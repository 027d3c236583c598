"""The queue at work: 3 processes share 1,000 URLs, one is killed, nothing is lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop
from rich.console import Console
from rich.progress import Progress

from skitter.app import open_server
from skitter.frontier.audit import STATES, audit
from skitter.frontier.jobs import create_job
from skitter.model import Added, Request
from skitter.settings import JobOptions, Politeness, Settings

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier

URLS, WORKERS, LEASE_S = 1000, 3, 1.0


def run_demo() -> None:
    """Needs no network: the workers only pretend to fetch."""
    with tempfile.TemporaryDirectory(prefix="skitter-") as directory:
        uvloop.run(_demo(Path(directory)))


async def _demo(directory: Path) -> None:
    console = Console(highlight=False)
    options = JobOptions(politeness=Politeness(delay_s=0.02, max_in_flight=2))
    async with open_server(Settings(directory=directory)) as server:
        console.print("A Valkey of our own is running. Pushing 1,000 URLs of 20 hosts, twice:")
        frontier = await create_job(server, "demo", options=options)
        pages = [Request(url=f"https://host{i % 20}.example/{i}") for i in range(URLS)]
        for _ in range(2):
            answers = await frontier.add(pages)
            console.print(
                f"  {answers.count(Added.NEW):,} new, {answers.count(Added.SEEN):,} seen before"
            )
        console.print("Three worker processes share them; one is killed with SIGKILL on the way.")
        workers = [_start_worker(directory) for _ in range(WORKERS)]
        try:
            await _watch(frontier, workers, console)
        finally:
            for worker in workers:
                worker.terminate()
                worker.wait()
        report = await audit(frontier)
    counts = report.counts
    console.print(
        f"Leases lost with the killed worker, and taken back: {counts['lost']}\n"
        f"seen {counts['seen']:,} = " + " + ".join(f"{name} {counts[name]:,}" for name in STATES)
    )
    verdict = "[green]Every URL is accounted for.[/]" if report.clean else "[red]Problems![/]"
    console.print(verdict)


async def _watch(
    frontier: Frontier, workers: list[subprocess.Popen[bytes]], console: Console
) -> None:
    with Progress(console=console) as progress:
        bar = progress.add_task("done", total=URLS)
        while not (stats := await frontier.stats()).finished:
            progress.update(bar, completed=stats.done)
            if stats.done > URLS / 3 and workers[0].poll() is None:
                workers[0].kill()
                progress.console.print(f"  killed worker {workers[0].pid}")
            await asyncio.sleep(0.05)
        progress.update(bar, completed=stats.done)


def _start_worker(directory: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "skitter.demo.worker", str(directory), str(LEASE_S)]
    return subprocess.Popen(command)
