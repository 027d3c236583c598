"""Links beyond max_depth. The frontier refuses them, but the pages they were found on keep them,
so looking for one means scanning those pages, in small steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skitter.errors import UsageError
from skitter.frontier.offers import identify_request
from skitter.frontier.outlinks import open_outlinks
from skitter.frontier.scan import scan_names

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.shard import Shard
    from skitter.model import Request

AT_ONCE = 50  # pages, of a few kilobytes each
REMEMBERED = 1_000_000


class Beyond(NamedTuple):
    """A link that is too deep."""

    depth: int
    parent: str | None
    priority: int


async def find_beyond(frontier: Frontier, fingerprint: str) -> Beyond | None:
    """Find a link to this request on the pages whose links were not all added."""
    passed: set[str] = set()  # pages of a site share most of their links
    for shard in frontier.shards:
        async for links in _reopenable_links(shard):
            for one in links:
                if one.is_plain and one.url in passed:
                    continue
                if _fingerprint(one, frontier) == fingerprint:
                    return Beyond(one.depth, one.parent, one.priority)
                if one.is_plain and len(passed) < REMEMBERED:
                    passed.add(one.url)
    return None


async def _reopenable_links(shard: Shard) -> AsyncIterator[list[Request]]:
    async for fps in scan_names(shard, "reopenable"):
        for first in range(0, len(fps), AT_ONCE):
            some = fps[first : first + AT_ONCE]
            depths = await shard.command("HMGET", "depths", *some)
            packed = await shard.command("HMGET", "outlinks", *some)
            for depth, links in zip(depths, packed, strict=True):
                yield open_outlinks(links or b"", int(depth or 0))


def _fingerprint(request: Request, frontier: Frontier) -> str:
    try:
        return identify_request(request, frontier.layout)[1]
    except UsageError:
        return ""
