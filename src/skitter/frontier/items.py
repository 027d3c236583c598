"""Items from completed pages, in a stream until all their readers have acknowledged them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from skitter.errors import InfrastructureError, JobMissing, shorten
from skitter.frontier.completions import encode_item
from skitter.frontier.transport.messages import decode, encode, side_by_side
from skitter.model import Request, Result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.shard import Shard
    from skitter.model import Lease

R = TypeVar("R", bound="RejectedItem")
PAGE = 500
GROUP = "load"
REJECTED_KEPT = 100_000
#: A loader silent for this long counts as dead, and its items are taken over.
#: Loading is idempotent, so one that was only slow does no harm.
TAKE_OVER_S = 5.0
#: With several shards, how long a loader waits before it looks again; doubled while nothing comes.
FIRST_PAUSE_S = 0.02
MAX_BLOCK_S = 10.0  # well below the time after which a call counts as lost
#: What decoding raises for entries that are not ours. msgspec's errors are ValueErrors.
UNREADABLE = (ValueError, KeyError, TypeError)


async def read_items(frontier: Frontier) -> AsyncIterator[list[Result]]:
    """All items, in pages, shard by shard; they stay until `remove_items`."""
    for shard in frontier.shards:
        after = "-"
        while page := await shard.command("XRANGE", "items", after, "+", "COUNT", PAGE):
            if items := results_in(shard, page):
                yield items
            after = f"({page[-1][0].decode()}"


async def item_page(frontier: Frontier, after: str, limit: int) -> list[Result]:
    """Up to `limit` items after the one with the id `after`."""
    first, _, entry = after.partition("/")
    found: list[Result] = []
    for shard in frontier.shards[int(first or 0) :]:
        start = f"({entry}" if entry else "-"
        while len(found) < limit:
            words = ("items", start, "+", "COUNT", limit - len(found))
            page = await shard.command("XRANGE", *words)
            if not page:
                break
            found += results_in(shard, page)
            start = f"({page[-1][0].decode()}"
        entry = ""
    return found


async def find_item(frontier: Frontier, *, host: str, fingerprint: str) -> Result | None:
    """The newest item of a page that is still in the stream; reads back from the newest of all."""
    shard, before, found = frontier.shard_for(host), "+", list[Result]()
    while page := await shard.command("XREVRANGE", "items", before, "-", "COUNT", PAGE):
        found += [item for item in results_in(shard, page) if item.fingerprint == fingerprint]
        if found and found[-1].index == 0:
            break
        before = f"({page[-1][0].decode()}"
    return min(found, key=lambda result: result.index, default=None)


async def remove_items(frontier: Frontier, results: Sequence[Result]) -> int:
    """Remove items that are stored elsewhere. Returns how many there were."""
    removed = 0
    for shard, ids in _by_shard(frontier, results):
        removed += await shard.command("XDEL", "items", *ids)
    return removed


async def put_items(
    frontier: Frontier, lease: Lease, items: Sequence[Any], *, first: int = 0
) -> None:
    """Add items of a page outside its completion, in the format of lua/complete.lua.

    `first`: the index of the first one, after those in the completion.
    """
    shard = frontier.shard_for(lease.host)
    is_watched = bool(items) and await shard.command("EXISTS", "watched")
    for index, item in enumerate(items, start=first):
        fields = ("fp", lease.fingerprint, "n", index, "item", encode_item(item, lease), "part", 1)
        await shard.command("XADD", "items", "*", *fields)
        if is_watched:  # as lua/lib/live.lua does
            await shard.command("XADD", "live", "MAXLEN", "~", 10_000, "*", *fields)
            await shard.command("EXPIRE", "live", 600)


class RejectedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item that was not stored, and why."""

    url: str
    field: str  # the bad field; empty: the whole item
    reason: str
    item: Any
    at: float = 0.0

    @property
    def why(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


class RejectedFrom(RejectedItem, frozen=True, kw_only=True):
    """The same, with the request of its page: None if that is not known."""

    request: Request | None = None
    entry: str = ""  # its place in the stream


async def reject_items(frontier: Frontier, *rejected: RejectedItem) -> None:
    """Keep items that cannot be stored, and count them by field; the oldest are dropped."""
    rows = [(_field_of(item), encode(item)) for item in rejected]
    await frontier.home.reject_items(rows, keep=REJECTED_KEPT)


async def count(frontier: Frontier, **counters: int) -> None:
    """Add to counters that are only displayed."""
    rows = [(name, by) for name, by in counters.items() if by]
    if rows:
        await frontier.home.tally([(name, str(by)) for name, by in rows])


async def set_count(frontier: Frontier, name: str, value: int) -> None:
    """Such a counter that is known elsewhere."""
    await frontier.home.tally([(name, f"={value}")])


async def read_rejected(frontier: Frontier, count: int) -> list[RejectedItem]:
    """The last rejected items, newest first."""
    entries = await frontier.home.command("XREVRANGE", "rejected", "+", "-", "COUNT", count)
    return list(_rejected(entries, RejectedItem))


async def rejected_pages(frontier: Frontier) -> AsyncIterator[list[RejectedFrom]]:
    """All rejected items, oldest first, in small steps."""
    after = "-"
    while page := await frontier.home.command("XRANGE", "rejected", after, "+", "COUNT", PAGE):
        after = f"({page[-1][0].decode()}"
        yield list(_rejected(page, RejectedFrom))


async def forget_rejected(frontier: Frontier, items: Sequence[RejectedFrom]) -> None:
    """Their pages are handled again."""
    if items:
        await frontier.home.unreject([(item.entry, _field_of(item)) for item in items])


def _rejected(entries: Any, kind: type[R]) -> Iterator[R]:
    for entry, fields in entries:
        with suppress(*UNREADABLE):
            # Older releases stored it as `aside`.
            stored = decode(fields.get(b"item") or fields[b"aside"])
            at = int(entry.partition(b"-")[0]) / 1000
            yield msgspec.convert({**stored, "at": at, "entry": entry.decode()}, kind)


def _field_of(item: RejectedItem) -> str:
    return (item.field or "whole")[:200]


@dataclass(slots=True)
class ItemStream:
    """Items for one of several loaders of an output: its own share, and what dead loaders left."""

    frontier: Frontier
    loader: str
    take_over_s: float = TAKE_OVER_S
    group: str = GROUP  # of the output: records/outputs.py
    _begun: set[int] = field(default_factory=set)
    _again: float = inf  # lua/lib/later.lua
    _pause_s: float = FIRST_PAUSE_S

    async def read(self, limit: int, wait_s: float) -> list[Result]:
        """Up to `limit` items, as soon as there are any. The stream of a single shard wakes us; no
        call can wait for streams in several slots."""
        shards = self.frontier.shards
        if len(shards) == 1:
            return await self._read_from(shards[0], limit, block_s=wait_s)
        for shard in shards:
            if results := await self._read_from(shard, limit):
                self._pause_s = FIRST_PAUSE_S
                return results
        from asyncio import sleep  # a look at a job imports this module, and no loop

        await sleep(min(wait_s, self._pause_s))
        self._pause_s = max(FIRST_PAUSE_S, min(wait_s, 2 * self._pause_s))
        return []

    async def acknowledge(
        self, stored: Sequence[Result], others: Sequence[Result] = (), *, updated: int = 0
    ) -> None:
        """Remove items that are stored, and others that never will be, from the stream."""
        with suppress(JobMissing):  # purged meanwhile, and the items with it
            for results, counts in ((stored, 1), (others, 0)):
                for shard, ids in _by_shard(self.frontier, results):
                    await shard.unload(ids, name=self.group, stored=counts, updated=updated)
                    updated = 0

    async def keep(self, results: Sequence[Result]) -> None:
        """Say that we still work on these, so that no other loader takes them over."""
        for shard, ids in _by_shard(self.frontier, results):
            key = shard.keys.key("items")
            words = ("XCLAIM", key, self.group, self.loader, 0, *ids, "JUSTID")
            await shard.server.command(*words, parse_justid=True)

    async def _read_from(self, shard: Shard, limit: int, block_s: float = 0.0) -> list[Result]:
        try:
            return await self._share_of(shard, limit, block_s)
        except InfrastructureError as error:
            if not (_is(error, "NOGROUP") or _is(error, "UNBLOCKED")):  # removed meanwhile
                raise
            self._begun.discard(shard.keys.shard)  # created again, unless the job is gone
            return []

    async def _share_of(self, shard: Shard, limit: int, block_s: float) -> list[Result]:
        await self._begin(shard)
        key = shard.keys.key("items")
        idle_ms = round(self.take_over_s * 1000)
        _, stale, *_ = await shard.server.command(
            "XAUTOCLAIM", key, self.group, self.loader, idle_ms, "0-0", "COUNT", limit
        )
        entries = [entry for entry in stale if entry[1]]  # removed ones come without fields
        if not entries:
            words = ("XREADGROUP", "GROUP", self.group, self.loader, "COUNT", limit)
            block_ms = round(1000 * min(block_s, MAX_BLOCK_S))
            block = ("BLOCK", block_ms) if block_ms > 0 else ()  # 0 would be for ever
            entries = _entries(await shard.server.command(*words, *block, "STREAMS", key, ">"))
        results, unreadable = _read(shard, entries)
        for entry, fields in unreadable:
            await self._reject(shard, entry, fields)
        return await self._marked(results)

    async def _marked(self, results: list[Result]) -> list[Result]:
        """Those of a moment when pages were being visited again. Asked after they were read: what
        is later than that moment cannot have been read before it was noted."""
        if results and self._again == inf:
            # Of any shard: a page that is visited again may lead to one of another host.
            words = ("HGET", "stats", "again_since")
            found = await side_by_side(shard.command(*words) for shard in self.frontier.shards)
            self._again = min((int(since) / 1000 for since in found if since), default=inf)
        return [replace(result, is_later=result.fetched_at >= self._again) for result in results]

    async def _reject(self, shard: Shard, entry: bytes, fields: Any) -> None:
        """One bad entry must not hold up all others."""
        item = shorten(ascii(fields), 500)
        reason = "it is in the stream of items, but is none"
        await reject_items(self.frontier, RejectedItem(url="", field="", reason=reason, item=item))
        await shard.unload([entry.decode()], name=self.group, stored=0, updated=0)

    async def _begin(self, shard: Shard) -> None:
        if shard.keys.shard in self._begun:
            return
        await shard.group(name=self.group)
        self._begun.add(shard.keys.shard)


def _is(error: InfrastructureError, code: str) -> bool:
    return code in str(error)


def _entries(reply: Any) -> list[Any]:
    """The client returns a dict or a list of (stream, entries), by protocol version."""
    if not reply:
        return []
    streams = reply.values() if isinstance(reply, dict) else [entries for _, entries in reply]
    return [entry for entries in streams for entry in entries]


def _read(shard: Shard, entries: list[Any]) -> tuple[list[Result], list[Any]]:
    """The items among them, and the entries that other clients of the server wrote."""
    results, unreadable = [], []
    for entry, fields in entries:
        try:
            results.append(_result(shard, entry, fields))
        except UNREADABLE:
            unreadable.append((entry, fields))
    return results, unreadable


def _result(shard: Shard, entry: bytes, fields: Any) -> Result:
    known = (
        fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=True))
    )
    body = decode(known[b"item"])
    if not isinstance(body["url"], str):
        raise TypeError(body)
    return Result(
        id=f"{shard.keys.shard}/{entry.decode()}",
        fingerprint=known[b"fp"].decode(),
        index=int(known[b"n"]),
        url=body["url"],
        item=body["item"],
        fetched_at=int(entry.partition(b"-")[0]) / 1000,
        is_part=b"part" in known,
    )


def results_in(shard: Shard, page: list[Any]) -> list[Result]:
    """Results without notices, which are for loaders only."""
    results, _ = _read(shard, page)
    return [result for result in results if not result.is_notice]


def _by_shard(frontier: Frontier, results: Sequence[Result]) -> list[tuple[Shard, list[str]]]:
    places: dict[int, list[str]] = {}
    for result in results:
        number, _, entry = result.id.partition("/")
        places.setdefault(int(number), []).append(entry)
    return [(frontier.shards[number], ids) for number, ids in places.items()]


async def oldest_item_at(frontier: Frontier) -> float | None:
    """When the item that has waited longest for a loader was found."""
    found = []
    for shard in frontier.shards:
        for entry, _ in await shard.command("XRANGE", "items", "-", "+", "COUNT", 1):
            found.append(int(entry.partition(b"-")[0]) / 1000)
    return min(found, default=None)
