"""Whatever the order of answers, a crawl with max_depth finds what a breadth-first search finds."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from conftest import rude
from skitter.engine.outbox import RequestMemory
from skitter.frontier.audit.auditor import audit
from skitter.frontier.control import change_options
from skitter.frontier.jobs import create_job, open_job, purge_job
from skitter.frontier.transport.connection import connect
from skitter.model import Completion, Ended, Request
from skitter.settings import Layout

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease

pytestmark = pytest.mark.timeout(300)

_jobs = count(1)
CHAIN = 10  # pages on the longest way


@dataclass(frozen=True)
class Site:
    """Page number -> where it links to. A page that redirects links to one page, no deeper. Slow
    pages answer when all others have: the short ways by them are found last."""

    links: dict[int, list[int]]
    redirects: frozenset[int]
    slow: frozenset[int]

    def url(self, page: int) -> str:
        return f"https://h{page % 4}.test/{page}"

    def depths(self) -> dict[int, int]:
        """The oracle: from page 0, by the shortest way. A redirect costs nothing."""
        found, line = {0: 0}, deque([0])
        while line:
            page = line.popleft()
            step = 0 if page in self.redirects else 1
            for link in self.links[page]:
                if found[page] + step < found.get(link, 99):
                    found[link] = found[page] + step
                    line.append(link)
        return found

    def within(self, limit: int | None) -> set[str]:
        depths = self.depths().items()
        return {self.url(page) for page, depth in depths if limit is None or depth <= limit}


@st.composite
def sites(draw: st.DrawFn) -> Site:
    """A long way from page to page; shortcuts, each over a slow page; and a few links anywhere."""
    places = st.integers(0, CHAIN - 1)
    links = {page: [page + 1] for page in range(CHAIN - 1)} | {CHAIN - 1: []}
    shortcuts = draw(st.lists(st.tuples(places, places), min_size=1, max_size=4))
    for slow, (start, end) in enumerate(shortcuts, start=CHAIN):
        links[start].append(slow)
        links[slow] = [end]
    for start, end in draw(st.lists(st.tuples(places, places), max_size=3)):
        links[start].append(end)
    redirects = draw(st.frozensets(st.sampled_from(sorted(links)), max_size=3))
    sole = frozenset(page for page in redirects if len(links[page]) == 1)
    return Site(links, sole, frozenset(range(CHAIN, CHAIN + len(shortcuts))))


@dataclass
class Worker:
    """A client as careful as a real one: it does not offer again what it offered lately."""

    frontier: Frontier
    site: Site
    chance: random.Random
    held: list[Lease] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.memory = RequestMemory(
            lambda: self.frontier.epoch, lambda: self.frontier.keeps_depths, size=8
        )

    async def lease(self) -> bool:
        found = (await self.frontier.lease(self.chance.randint(1, 4))).leases
        self.held += found
        return bool(found)

    @property
    def answered(self) -> list[Lease]:
        return [lease for lease in self.held if self.page_of(lease) not in self.site.slow]

    def page_of(self, lease: Lease) -> int:
        return int(lease.url.rpartition("/")[2])

    async def finish_one(self, answered: list[Lease]) -> str:
        """Any of them, as the network would have it."""
        lease = self.chance.choice(answered)
        self.held.remove(lease)
        epoch = self.frontier.epoch
        links, again = self.memory.split(self.links_of(lease))
        done = Completion(lease=lease, links=links, again=again)
        assert await self.frontier.complete([done]) == [Ended.DONE]
        self.memory.add_requests(links, epoch=epoch)
        return lease.url

    def links_of(self, lease: Lease) -> list[Request]:
        page = self.page_of(lease)
        step = 0 if page in self.site.redirects else 1
        found = [
            Request(url=self.site.url(link), depth=lease.request.depth + step, parent=lease.url)
            for link in self.site.links[page]
        ]
        return [one for one in found if not step or one.url not in self.memory.known]

    async def step(self) -> str | None:
        match self.chance.choice(["lease", "finish", "finish", "release", "vanish"]):
            case "finish" if self.answered:
                return await self.finish_one(self.answered)
            case "release" if self.answered:
                self.held.remove(lease := self.answered[0])
                await self.frontier.release([lease])
            case "vanish":  # while it opens pages again: it took them, and did nothing
                for shard in self.frontier.shards:
                    await shard.call("reopen", limit=9, max_bytes=999, ttl_ms=1)
            case _:
                await self.lease()
        return None


async def crawl(workers: list[Worker], chance: random.Random) -> list[str]:
    """Until nothing is left. Returns what was done, in that order."""
    done: list[str] = []
    while not (await workers[0].frontier.stats()).crawled:
        worker = chance.choice(workers)
        if url := await worker.step():
            done.append(url)
        elif not any(one.answered for one in workers) and not await worker.lease() and worker.held:
            done.append(await worker.finish_one(worker.held))
    return done


@pytest.mark.parametrize("shards", [1, 3])
@given(
    site=sites(),
    limits=st.lists(st.integers(0, 7), min_size=1, max_size=3).map(sorted),
    ends_without=st.booleans(),
    seed=st.integers(0, 2**32),
)
@settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=list(HealthCheck),
    phases=set(Phase) - {Phase.shrink, Phase.explain},
)
def test_a_crawl_finds_what_a_breadth_first_search_finds(
    server_url: str,
    shards: int,
    site: Site,
    limits: list[int],
    ends_without: bool,
    seed: int,
) -> None:
    """And goes on from there if the limit is raised, or removed."""

    async def check() -> None:
        chance = random.Random(seed)
        async with connect(server_url) as one, connect(server_url) as two:
            job = f"depth-{next(_jobs)}"
            options = rude(max_depth=limits[0])
            first = await create_job(one, job, options=options, layout=Layout(shards=shards))
            workers = [Worker(each, site, chance) for each in (first, await open_job(two, job))]
            await first.add([Request(url=site.url(0))])
            done: list[str] = []
            for limit in [*limits, *([None] if ends_without else [])]:
                await change_options(first, {"max_depth": limit})
                done += await crawl(workers, chance)
                assert sorted(done) == sorted(site.within(limit))
                assert (await audit(first)).clean
            await purge_job(first)

    asyncio.run(check())
