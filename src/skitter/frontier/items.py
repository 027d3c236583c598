"""Items: what completions brought, in a stream, until a reader says that it has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.frontier.wire import decode
from skitter.model import Result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.shard import Shard

PAGE = 500


async def read_items(frontier: Frontier) -> AsyncIterator[list[Result]]:
    """All items, in pages, shard by shard; they stay until `remove_items`."""
    for shard in frontier.shards:
        after = "-"
        while page := await _page(shard, after):
            yield page
            after = f"({page[-1].id.partition('/')[2]}"


async def remove_items(frontier: Frontier, results: Sequence[Result]) -> int:
    """Let go of items that are stored elsewhere. Returns how many there were."""
    removed = 0
    for number, shard in enumerate(frontier.shards):
        ids = [
            entry
            for place, _, entry in (r.id.partition("/") for r in results)
            if place == str(number)
        ]
        for start in range(0, len(ids), PAGE):
            part = ids[start : start + PAGE]
            removed += await shard.server.command("XDEL", shard.keys.key("items"), *part)
    return removed


async def _page(shard: Shard, after: str) -> list[Result]:
    entries = await shard.server.command(
        "XRANGE", shard.keys.key("items"), after, "+", "COUNT", PAGE
    )
    results = []
    for entry, fields in entries:
        body = decode(fields[b"item"])
        results.append(
            Result(
                id=f"{shard.keys.shard}/{entry.decode()}",
                fingerprint=fields[b"fp"].decode(),
                index=int(fields[b"n"]),
                url=body["url"],
                item=body["item"],
                fetched_at=int(entry.partition(b"-")[0]) / 1000,
            )
        )
    return results
