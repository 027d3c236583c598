"""dashboards: what many open dashboards cost the server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from msgspec import structs

from benchmarks.clients import ClientsTask
from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns
from benchmarks.crawl.job import JOB
from benchmarks.http.beside import cpu_s, crawling, our_words, run_clients, serving
from skitter.frontier.records.operators import new_token
from skitter.observe.metrics import COUNTERS, TIMINGS

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

SHARE = Figure("% of a core", min)
#: What the page with the most charts asks for, and how often.
CHARTS = f"/api/jobs/{JOB}/history?points=600&names={','.join([*COUNTERS, *TIMINGS])}"
CHARTS_PER_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Dashboards(Part):
    """Each has its own connections, follows a running crawl, and shows the page with all charts."""

    name: ClassVar[str] = "dashboards"
    clients: int = 100
    seconds: float = 20.0

    async def measure(self, ground: Ground) -> list[Row]:
        async def listen() -> Sample:
            return {SHARE: [await self._share(ground)]}

        ours = Contender("skitter serve", listen)
        await take_turns(ground, [ours], part=self.name, rounds=1)
        return [
            Row(
                what=f"{self.clients} open dashboards of a running crawl, for {self.seconds:g} s",
                figure=SHARE,
                ours=ours,
                goal=Goal("under 20%", most=20.0, of="measured"),
            )
        ]

    async def _share(self, ground: Ground) -> float:
        token = await new_token(ground.server, name="bench", scopes=["read"])
        async with crawling(ground), serving(our_words(ground), ground) as (pid, port):
            task = ClientsTask(
                kind="listen",
                port=port,
                path=f"/api/events?job={JOB}",
                token=token,
                clients=self.clients,
                seconds=self.seconds,
            )
            charts = structs.replace(task, kind="poll", path=CHARTS, per_s=CHARTS_PER_S)
            before = cpu_s(pid)
            heard, polled = await asyncio.gather(run_clients(task), run_clients(charts))
            used = cpu_s(pid) - before
        if heard.failed or heard.answers < self.clients * (self.seconds - 2):
            raise AssertionError(f"{heard.answers:,} messages, {heard.failed} heard nothing")
        if polled.failed:
            raise AssertionError(f"{polled.failed} of {polled.answers} charts were refused")
        return 100 * used / self.seconds
