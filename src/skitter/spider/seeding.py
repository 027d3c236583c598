"""Adds a spider's seeds to the frontier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.errors import SkitterError, SpiderError
from skitter.fetch.guard import authority_of, refusal_of_name
from skitter.frontier.feed import feed
from skitter.spider.source_line import trace

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.spider.spider import Spider

SEED_BATCH = 1000


async def offer_seeds(frontier: Frontier, spider: Spider) -> set[str]:
    """Offer the seeds; a resumed crawl already knows them. Returns the private hosts among them: a
    seed allows its own host, and workers do not see what a generator yields."""
    batch = []
    private: set[str] = set()
    try:
        async for seed in spider.seeds():
            batch.append(frontier.offer(seed))
            authority = authority_of(seed.url)
            if refusal_of_name(authority.name):
                private.add(authority.host_port)
            if len(batch) >= SEED_BATCH:
                await feed(frontier, batch, wait=True)
                batch = []
    except SkitterError:
        raise
    except Exception as error:
        raise SpiderError(f"the seeds of {spider.name!r} failed: {trace(error)}") from error
    await feed(frontier, batch, wait=True)
    return private
