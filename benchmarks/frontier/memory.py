"""memory: bytes per pending URL, then per seen URL once all are done."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns
from benchmarks.ground import RUDE, fill, finish_all, make_urls
from benchmarks.peers import SCHEDULER, Peer
from skitter.frontier.jobs import create_job, purge_job
from skitter.model import Request

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

PENDING = Figure("bytes", min, inverse=True, name="pending")
SEEN = Figure("bytes", min, inverse=True, name="seen")


@dataclass(frozen=True, kw_only=True)
class Memory(Part):
    """One crawl gives both figures: all pending first, then all done."""

    name: ClassVar[str] = "memory"
    urls: int = 1_000_000
    hosts: int = 1_000
    peers: tuple[Peer, ...] = (SCHEDULER,)

    async def measure(self, ground: Ground) -> list[Row]:
        urls = make_urls(self.urls, hosts=self.hosts)
        ours = Contender(f"{self.urls:,} URLs", partial(_use, ground, urls))
        peers = [Contender(peer.title, partial(_ask, ground, peer, urls)) for peer in self.peers]
        await take_turns(ground, [ours, *peers], part=self.name, rounds=1)
        theirs = next(iter(peers), None)
        length = sum(map(len, urls)) / self.urls
        return [
            Row(
                what=f"a pending URL of {length:.0f} characters, {self.urls:,} of "
                f"{self.hosts:,} hosts",
                figure=PENDING,
                ours=ours,
                theirs=theirs,
                beside="scrapy-redis's queue without its dupefilter" if theirs else "",
                goal=Goal("at most 200", most=200.0, of="measured"),
            ),
            Row(
                what=f"a seen URL, {self.urls:,} done",
                figure=SEEN,
                ours=ours,
                theirs=theirs,
                beside="scrapy-redis's dupefilter" if theirs else "",
                goal=Goal("at most 10", most=10.0, of="measured"),
            ),
        ]


async def _use(ground: Ground, urls: list[str]) -> Sample:
    await _load_scripts(ground)
    before = await ground.data_bytes()
    ground.progress(f"memory: adding {len(urls):,} URLs")
    frontier = await create_job(ground.server, "memory", options=RUDE)
    await fill(frontier, urls, ground.progress)
    pending = await ground.data_bytes() - before
    ground.progress(f"memory: finishing {len(urls):,} URLs")
    await finish_all(frontier)
    seen = await ground.data_bytes() - before
    return {PENDING: [pending / len(urls)], SEEN: [seen / len(urls)]}


async def _load_scripts(ground: Ground) -> None:
    """The scripts themselves take memory, once per server, whatever the number of URLs."""
    frontier = await create_job(ground.server, "scripts", options=RUDE)
    await frontier.add([Request(url="https://a.test/")])
    await finish_all(frontier)
    await frontier.stats()
    await purge_job(frontier)


async def _ask(ground: Ground, peer: Peer, urls: list[str]) -> Sample:
    path = ground.directory / "all.txt"
    path.write_text("\n".join(urls))
    sample: Sample = {}
    for figure in (PENDING, SEEN):
        ground.progress(f"memory: {len(urls):,} {figure.name} URLs of the peer")
        await ground.clear()
        before = await ground.data_bytes()
        figures = await peer.run(verb=figure.name, socket=str(ground.socket), urls=str(path))
        if figures["members"] != len(urls):
            raise AssertionError(f"the peer holds {figures['members']:,} of {len(urls):,} URLs")
        sample[figure] = [(await ground.data_bytes() - before) / len(urls)]
    return sample
