"""tasks: a list of URLs by the tasks of callers, compared with tasks that fetch them themselves."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urljoin, urlsplit

from benchmarks.contest import Contender, Figure, Part, Row, take_turns, times
from benchmarks.crawl.celery import LIMIT_S, celery_worker, our_app, until_done
from benchmarks.crawl.job import RATE
from benchmarks.ground import RUDE
from benchmarks.peers import CELERY_BATCH, CELERY_RECORD, PROCESSES, Peer
from skitter.frontier.jobs import create_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

CPU = Figure("us/page", min, inverse=True)


@dataclass(frozen=True, kw_only=True)
class Tasks(Part):
    """`scrape.delay` for each URL, and one `scrape_many` for all of them."""

    name: ClassVar[str] = "tasks"
    pages: int = 2000
    many: int = 10_000
    rounds: int = 3
    peers: tuple[Peer, ...] = (CELERY_RECORD, CELERY_BATCH)

    async def measure(self, ground: Ground) -> list[Row]:
        sizes = {"scrape": self.pages, "scrape_many": self.many}
        ours = [
            Contender(job, partial(_submit, ground, job, pages)) for job, pages in sizes.items()
        ]
        theirs = [
            Contender(peer.title, partial(_ask, ground, peer, pages))
            for peer, pages in zip(self.peers, sizes.values(), strict=False)
        ]
        await take_turns(ground, [*ours, *theirs], part=self.name, rounds=self.rounds)
        whats = (
            f"scrape.delay for each of {self.pages:,} URLs, {PROCESSES} processes, until every "
            "record is its task's result",
            f"one scrape_many of {self.many:,} URLs, {PROCESSES} processes, records to the stream",
        )
        rivals = dict(zip(sizes, zip(self.peers, theirs, strict=True), strict=False))
        return [
            _row(what, figure, one, *rivals.get(one.name, (None, None)), rounds=self.rounds)
            for what, one in zip(whats, ours, strict=True)
            for figure in (RATE, CPU)
        ]


def _row(
    what: str,
    figure: Figure,
    one: Contender,
    peer: Peer | None,
    theirs: Contender | None,
    *,
    rounds: int,
) -> Row:
    return Row(
        what=f"{what}{', CPU time of caller and workers' * (figure is CPU)}, best of {rounds}",
        figure=figure,
        ours=one,
        theirs=theirs,
        beside=peer.title if peer else "",
        goal=times(peer.least_ratio) if peer else None,
    )


async def _ask(ground: Ground, peer: Peer, pages: int) -> Sample:
    figures = await peer.crawl(ground.publish(pages), pages=pages, socket=ground.socket)
    cpu_us = figures["cpu_s"] / figures["pages"] * 1e6
    return {RATE: [figures["pages"] / figures["seconds"]], CPU: [cpu_us]}


async def _submit(ground: Ground, job: str, pages: int) -> Sample:
    """From the first call to the last record."""
    frontier, seed = await create_job(ground.server, job, options=RUDE), ground.publish(pages)
    urls = [urljoin(seed, f"{number}.html") for number in range(pages)]
    async with celery_worker(ground, SKITTER_ALLOW_HOSTS=urlsplit(seed).netloc) as pid:
        with our_app(ground) as app:
            used_before_s, began = _cpu_s(pid), time.perf_counter()
            await asyncio.to_thread(CALLS[job], app.tasks[f"skitter.{job}"], urls)
            async with asyncio.timeout(LIMIT_S):
                await until_done(frontier, pages)
                while job == "scrape" and (await frontier.stats()).items:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            seconds, used_s = time.perf_counter() - began, _cpu_s(pid) - used_before_s
    return {RATE: [pages / seconds], CPU: [used_s / pages * 1e6]}


def _cpu_s(worker: int) -> float:
    """The CPU time of this process, of the worker and of its pool: proc(5)."""
    children = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
    used = time.process_time()
    for pid in (str(worker), *children):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def _one_by_one(task: Any, urls: list[str]) -> None:
    for url in urls:
        task.delay(url)


CALLS: dict[str, Callable[[Any, list[str]], object]] = {
    "scrape": _one_by_one,
    "scrape_many": lambda task, urls: task.delay(urls, job="scrape_many"),
}
