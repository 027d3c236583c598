"""dashboards: what many open dashboards cost the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from benchmarks.clients import ClientsTask
from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns
from benchmarks.crawl.job import JOB
from benchmarks.http.beside import cpu_s, crawling, our_words, run_clients, serving
from skitter.frontier.admin.tokens import new_token

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

SHARE = Figure("% of a core", min)


@dataclass(frozen=True, kw_only=True)
class Dashboards(Part):
    """Each has its own connection, and follows a running crawl."""

    name: ClassVar[str] = "dashboards"
    clients: int = 100
    seconds: float = 15.0

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
            before = cpu_s(pid)
            answered = await run_clients(task)
            used = cpu_s(pid) - before
        if answered.failed or answered.answers < self.clients * (self.seconds - 2):
            raise AssertionError(f"{answered.answers:,} messages, {answered.failed} heard nothing")
        return 100 * used / self.seconds
