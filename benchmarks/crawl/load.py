"""load: items per second that a loader stores, one item per page, from a full stream."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import msgspec

from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns
from benchmarks.crawl.job import JOB
from benchmarks.ground import LEASE, RUDE, fill, make_urls
from benchmarks.loader import LoaderFigures, LoaderTask
from benchmarks.postgres import open_postgres
from benchmarks.processes import module_words, run_to_end
from skitter.errors import InfrastructureError
from skitter.frontier.jobs import create_job
from skitter.model import Completion

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

RATE, CPU = Figure("items/s"), Figure("us/item", min)
LIMIT_S = 300.0
FASTEST = 3_000.0  # more than any worker process has produced so far


@dataclass(frozen=True, kw_only=True)
class Load(Part):
    """A loader faster than a crawl does not hold the crawl up."""

    name: ClassVar[str] = "load"
    items: int = 30_000
    rounds: int = 2

    async def measure(self, ground: Ground) -> list[Row]:
        async with AsyncExitStack() as stack:
            places = {"SQLite": f"sqlite:///{ground.directory}/items-{{turn}}.db"}
            try:
                places["PostgreSQL"] = (
                    await stack.enter_async_context(open_postgres()) + "/postgres"
                )
            except InfrastructureError as error:
                ground.progress(f"not into PostgreSQL: {error}")
            loaders = [
                Contender(name, _Turns(ground, to, self.items).run) for name, to in places.items()
            ]
            await take_turns(ground, loaders, part=self.name, rounds=self.rounds)
        return [row for one in loaders for row in self._rows(one)]

    def _rows(self, loader: Contender) -> list[Row]:
        return [
            Row(
                what=f"one loader into {loader.name}, {self.items:,} items, best of {self.rounds}",
                figure=RATE,
                ours=loader,
                beside=f"{loader.best(CPU):,.0f} us of CPU time an item",
                goal=Goal(f"at least {FASTEST:,.0f}", least=FASTEST, of="measured"),
            )
        ]


@dataclass(slots=True)
class _Turns:
    """Each turn into a new place: existing rows would be replaced."""

    ground: Ground
    to: str
    items: int
    turn: int = 0

    async def run(self) -> Sample:
        self.turn += 1
        job = f"{JOB}{self.turn}"
        await bring_items(self.ground, job, self.items)
        task = LoaderTask(
            redis_url=f"unix://{self.ground.socket}",
            job=job,
            to=self.to.format(turn=self.turn),
            directory=str(self.ground.directory),
            items=self.items,
        )
        said = await run_to_end(module_words("loader", task), name="the loader", limit_s=LIMIT_S)
        figures = msgspec.convert(said, LoaderFigures)
        if figures.items != self.items:
            raise AssertionError(f"the loader stored {figures.items:,} of {self.items:,} items")
        return {
            RATE: [figures.items / figures.seconds],
            CPU: [figures.cpu_s / figures.items * 1e6],
        }


async def bring_items(ground: Ground, job: str, items: int) -> None:
    """A finished crawl, with one item per page in the stream."""
    frontier = await create_job(ground.server, job, options=RUDE)
    await fill(frontier, make_urls(items, hosts=100))
    while leases := (await frontier.lease(LEASE)).leases:
        await frontier.complete(
            [
                Completion(lease=lease, items=[{"title": f"Page {lease.url[-20:]}", "price": 9.5}])
                for lease in leases
            ]
        )
