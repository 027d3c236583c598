"""Take over a home-made queue on Redis: keys that hold the URLs to fetch, and those seen.

The keys are renamed first, so that nobody can take from them meanwhile, and keep their new names.
Reading them is idempotent: an interrupted adoption is simply run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.errors import FrontierError, InfrastructureError, UsageError, shorten
from skitter.frontier.feed import bury_messages
from skitter.frontier.jobs import create_job
from skitter.frontier.records.filters import remember_urls
from skitter.frontier.requests import identify_request
from skitter.frontier.transport.messages import with_scores
from skitter.model import Added, Request
from skitter.settings import MAX_PRIORITY, Layout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server

STEP = 500
#: Types of keys, and the command that pages through them.
SCANS = {"set": "SSCAN", "hash": "HSCAN", "zset": "ZSCAN"}
QUEUES = ("zset", "list", "set", "hash")
FIELDS = frozenset({"url", "method", "headers", "body", "meta", "depth"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeMade:
    """Which keys to adopt, and how they are to be read."""

    job: str
    queues: Sequence[str]
    seen: str | None = None
    lowest_first: bool = False


class TakenOver(msgspec.Struct, kw_only=True):
    """What was found and what happened to it."""

    job: str
    entries: int = 0
    queued: int = 0
    known: int = 0  # duplicates, or adopted before
    dead: int = 0  # not URLs: dead letters
    seen: int = 0
    remembered: int = 0  # the rest of them are queued here, or adopted before


async def take_over(server: Server, keys: HomeMade) -> TakenOver:
    """Raises UsageError, before changing anything, if the keys do not hold URLs."""
    await _check(server, keys)
    frontier = await create_job(server, keys.job)
    result = TakenOver(job=keys.job)
    for queue in keys.queues:
        for key in await rename(server, queue):
            async for entries in _entries(server, key, lowest_first=keys.lowest_first):
                await _queue(frontier, entries, result)
    for key in await rename(server, keys.seen) if keys.seen else ():
        async for members in members_of(server, key):
            await _remember(frontier, members, result)
    return result


async def _check(server: Server, keys: HomeMade) -> None:
    found = 0
    for name in (*keys.queues, *([keys.seen] if keys.seen else [])):
        kinds = QUEUES if name in keys.queues else tuple(SCANS)
        for key in (name, f"{name}:adopted"):
            kind = await kind_of(server, key)
            if kind not in ("none", *kinds):
                raise UsageError(f"{key} is a {kind}: URLs are read from a {', '.join(kinds)}.")
            found += kind != "none"
    if not found:
        raise UsageError(
            "nothing to adopt: this server has none of these keys. Check their names and the "
            "database number."
        )
    if keys.seen:
        await _check_urls(server, keys.seen)


async def _check_urls(server: Server, name: str) -> None:
    """Hashes of URLs cannot be turned back: their pages would be fetched again, in silence."""
    strange, example = 0, b""
    for key in (name, f"{name}:adopted"):
        async for members in members_of(server, key):
            for member in members:
                if not _is_url(member):
                    strange, example = strange + 1, member
    if strange:
        text = shorten(example.decode("utf-8", "replace"), 60)
        raise UsageError(
            f"{strange:,} members of {name} are not URLs, such as {text!r}, so nobody can tell "
            "which pages were seen. Leave --seen out: pages that are not in the queue are then "
            "fetched again when a link to them is found."
        )


def _is_url(data: bytes) -> bool:
    try:
        identify_request(Request(url=data.decode()), Layout())
    except (UsageError, ValueError):
        return False
    return True


# --- the keys, also for other adoptions -----------------------------------------------------------


async def kind_of(server: Server, key: str) -> str:
    kind: str = (await server.command("TYPE", key)).decode()
    return kind


async def rename(server: Server, key: str) -> list[str]:
    """The renamed key, and the original if others have recreated it since. Another adoption may run
    at the same time: never replaces the key that it renamed."""
    adopted = f"{key}:adopted"
    if await server.command("EXISTS", key):
        try:
            await server.command("RENAMENX", key, adopted)
        except InfrastructureError as error:
            if "no such key" not in str(error):  # else the other one has just renamed it
                raise
    return [one for one in (adopted, key) if await server.command("EXISTS", one)]


async def members_of(server: Server, key: str) -> AsyncIterator[list[bytes]]:
    """The members of a set or zset, or the fields of a hash, in pages."""
    kind = await kind_of(server, key)
    if kind not in SCANS:  # it is not there
        return
    cursor: Any = b"0"
    while True:
        cursor, page = await server.command(SCANS[kind], key, cursor, "COUNT", STEP)
        if kind == "zset":
            page = [name for name, _ in with_scores(page)]
        elif kind == "hash":
            page = list(page) if isinstance(page, dict) else page[::2]
        yield page
        if int(cursor) == 0:
            return


async def _entries(
    server: Server, key: str, *, lowest_first: bool
) -> AsyncIterator[list[tuple[bytes, int]]]:
    """Entries with their priorities, in the order in which they would be popped."""
    kind = await kind_of(server, key)
    if kind in ("set", "hash"):
        async for members in members_of(server, key):
            yield [(member, 0) for member in members]
        return
    at, end = 0, () if lowest_first else ("REV",)
    while True:
        if kind == "zset":
            rows = await server.command("ZRANGE", key, at, at + STEP - 1, *end, "WITHSCORES")
            page = [(one, _priority(score, lowest_first)) for one, score in with_scores(rows)]
        else:
            page = [(one, 0) for one in await server.command("LRANGE", key, at, at + STEP - 1)]
        if not page:
            return
        yield page
        at += STEP


def _priority(score: Any, lowest_first: bool) -> int:
    """Scores beyond ours, such as times, become equal: what is added first then comes first."""
    value = -float(score) if lowest_first else float(score)
    return round(max(-MAX_PRIORITY, min(MAX_PRIORITY, value)))


# --- what they hold -------------------------------------------------------------------------------


async def _queue(frontier: Frontier, entries: list[tuple[bytes, int]], result: TakenOver) -> None:
    offers, refused = [], []
    for data, priority in entries:
        try:
            offers.append(frontier.offer(_request(data, priority)))
        except (UsageError, ValueError, TypeError) as error:  # an entry may contain anything
            refused.append((data, f"the entry is not a request: {error}"))
    answers = await frontier.add_offers(offers, links=True)
    await bury_messages(frontier, refused, origin="adopted")
    result.entries += len(entries)
    result.queued += answers.count(Added.NEW)
    result.known += answers.count(Added.SEEN)
    result.dead += len(refused)
    if strange := set(answers) - {Added.NEW, Added.SEEN}:
        raise FrontierError(
            f"the job {frontier.job} does not take the whole queue: {', '.join(sorted(strange))}. "
            "The keys are kept: change its limits or resume it, then run the adoption again."
        )


def _request(data: bytes, priority: int) -> Request:
    """A URL, or JSON with a `url`; what a Request has no field for goes to its `meta`."""
    text = data.strip()
    if not text.startswith(b"{"):
        return Request(url=text.decode(), priority=priority)
    known = msgspec.json.decode(text, type=dict[str, Any])
    fields = {name: value for name, value in known.items() if name in FIELDS and value is not None}
    rest = {name: value for name, value in known.items() if name not in FIELDS}
    meta = {**rest, **fields.pop("meta", {})}
    if isinstance(fields.get("body"), str):
        fields["body"] = fields["body"].encode()
    return msgspec.convert({**fields, "meta": meta, "priority": priority}, Request)


async def _remember(frontier: Frontier, members: list[bytes], result: TakenOver) -> None:
    """Mark pages as done elsewhere; those that were queued just now stay queued."""
    result.seen += len(members)
    result.remembered += await remember_urls(frontier, [member.decode() for member in members])
