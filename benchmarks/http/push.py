"""push: how long a producer waits for its answer, and what that costs the server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import msgspec

from benchmarks.clients import ClientsTask
from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns
from benchmarks.http.beside import cpu_s, crawling, our_words, run_clients, serving
from benchmarks.peers import FASTAPI, RIVALS, Peer
from skitter.frontier.jobs import create_job
from skitter.frontier.records.operators import new_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

JOB = "pushed"
CLIENTS, PER_S = 50, 10.0
P50 = Figure("ms", min, inverse=True, name="p50")
P95 = Figure("ms", min, inverse=True, name="p95")
CPU = Figure("us/request", min, inverse=True)


@dataclass(frozen=True, kw_only=True)
class Push(Part):
    """50 producers, 10 requests per second each, evenly spread, one URL per request."""

    name: ClassVar[str] = "push"
    seconds: float = 10.0
    rounds: int = 3
    peers: tuple[Peer, ...] = (FASTAPI,)

    async def measure(self, ground: Ground) -> list[Row]:
        ours = Contender("skitter serve", partial(self._push, ground, our_words(ground)))
        field = [
            ours,
            *(Contender(one.title, partial(self._rival, ground, one)) for one in self.peers),
        ]
        await take_turns(ground, field, part=self.name, rounds=self.rounds)
        theirs = field[1] if len(field) > 1 else None
        beside = theirs.name if theirs else ""
        what = f"{CLIENTS} clients, {PER_S:g} requests/s each, beside a crawl"
        return [
            Row(
                what=f"POST urls, p95: {what}, best of {self.rounds}",
                figure=P95,
                ours=ours,
                theirs=theirs,
                beside=beside,
                goal=Goal("under 10 ms", most=10.0, of="measured"),
            ),
            Row(what="the same, p50", figure=P50, ours=ours, theirs=theirs, beside=beside),
            Row(
                what="CPU time of the server for a request",
                figure=CPU,
                ours=ours,
                theirs=theirs,
                beside=beside,
                goal=Goal("half of FastAPI's", least=2.0) if theirs else None,
            ),
        ]

    async def _rival(self, ground: Ground, peer: Peer) -> Sample:
        task = msgspec.json.encode({"socket": str(ground.socket)}).decode()
        words = [str(peer.python), str(RIVALS / peer.script), task]
        return await self._push(ground, words)

    async def _push(self, ground: Ground, words: Sequence[str]) -> Sample:
        await create_job(ground.server, JOB)
        token = await new_token(ground.server, name="bench", scopes=["push"])
        async with crawling(ground), serving(words, ground) as (pid, port):
            task = ClientsTask(
                kind="push",
                port=port,
                path=f"/api/jobs/{JOB}/urls",
                token=token,
                clients=CLIENTS,
                per_s=PER_S,
                seconds=1.0,
            )
            await run_clients(task)  # warm up
            before = cpu_s(pid)
            answered = await run_clients(msgspec.structs.replace(task, seconds=self.seconds))
            used = cpu_s(pid) - before
        if answered.failed:
            raise AssertionError(f"{answered.failed:,} of {answered.answers:,} pushes failed")
        return {
            P50: [answered.p50_ms],
            P95: [answered.p95_ms],
            CPU: [used / answered.answers * 1e6],
        }
