"""Adding requests from outside: batches, and the list that other programs may push to."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.errors import JobClosed, QueueFull, UsageError, shorten
from skitter.frontier.admin.refusals import Refusal, record_refusals
from skitter.frontier.keys import feed_key
from skitter.frontier.options import read_options
from skitter.frontier.wire import NOT_PLAIN, clip, cut, decode, encode
from skitter.model import Added, Origin, Request
from skitter.urls import fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.offers import Offer

FULL_PAUSE_S = 0.25
FEED_BATCH = 500
LOCK_MS = 5000
_OF_ENGINES = ("slot", "identity")
_TAKEN = frozenset((Added.NEW, Added.SEEN))


async def feed(frontier: Frontier, offers: Sequence[Offer], *, wait: bool) -> Counter[Added]:
    """Add offers. If the queue is full, wait for room, or raise QueueFull with the count added."""
    total: Counter[Added] = Counter()
    while offers:
        answers = await frontier.add_offers(offers)
        total.update(answers)
        if _TAKEN.issuperset(answers):
            break
        del total[Added.FULL]
        deep = [one for one, said in zip(offers, answers, strict=True) if said is Added.DEEP]
        if deep:
            await _refuse(frontier, deep)
        if total[Added.CLOSED]:
            raise JobClosed(frontier.job, (await frontier.stats()).state)
        offers = [one for one, said in zip(offers, answers, strict=True) if said is Added.FULL]
        if offers and not wait:
            limits = (await read_options(frontier.home)).limits  # others may have changed them
            raise QueueFull(
                frontier.job, max_pending=limits.max_pending or 0, added=total[Added.NEW]
            )
        if offers:
            await asyncio.sleep(FULL_PAUSE_S)
    return total


async def _refuse(frontier: Frontier, deep: list[Offer]) -> None:
    """Record what was pushed too deep: unlike a link, no page keeps it."""
    requests = [msgspec.convert(decode(one.body), Request) for one in deep]
    refusals = {
        one.url: Refusal("depth", f"it was pushed at depth {one.depth}, beyond max_depth", "")
        for one in requests
    }
    await record_refusals(frontier, refusals)


async def take_feed(frontier: Frontier) -> int:
    """Move messages from the job's feed list into the frontier. Returns how many.

    A message is removed after it was added, so none is lost; one that was added but not yet removed
    is added again, which changes nothing. The lock only saves workers from doing the same work, and
    it expires.
    """
    server, key = frontier.server, feed_key(frontier.job)
    if not await server.command("LLEN", key):
        return 0
    lock = f"{key}:lock"
    if not await server.command("SET", lock, frontier.client, "NX", "PX", LOCK_MS):
        return 0
    try:
        messages = await server.command("LRANGE", key, -FEED_BATCH, -1)
        taken = await _take(frontier, messages[::-1])  # LPUSH: the oldest is last
        for message in taken:
            await server.command("LREM", key, -1, message)
        return len(taken)
    finally:
        await server.command("DEL", lock)


async def _take(frontier: Frontier, messages: list[bytes]) -> list[bytes]:
    """Add the requests; messages that are not requests become dead letters."""
    offers: list[tuple[bytes, Offer]] = []
    rejected: list[tuple[bytes, str]] = []
    for message in messages:
        try:
            offers.append((message, frontier.offer(parse_message(message))))
        except (UsageError, *NOT_PLAIN) as error:
            rejected.append((message, str(error)))
    answers = await frontier.add_offers([offer for _, offer in offers])
    await bury_messages(frontier, rejected)
    refused = (Added.FULL, Added.CLOSED)  # they stay in the list until there is room
    taken = [m for (m, _), said in zip(offers, answers, strict=True) if said not in refused]
    return taken + [message for message, _ in rejected]


async def bury_messages(
    frontier: Frontier, rejected: Sequence[tuple[bytes, str]], *, origin: Origin = "feed"
) -> None:
    """Make dead letters of messages that cannot be crawled, with their text and the reason."""
    rows = []
    for message, reason in rejected:
        text = message.decode("utf-8", "replace")
        body = encode(Request(url=f"{origin}:{shorten(text, 2000)}", meta={"message": clip(text)}))
        rows.append((fingerprint(text, unique="rejected"), "feed", body, cut(reason)))
    if rows:
        await frontier.home.bury_messages(rows)


def parse_message(message: bytes) -> Request:
    """A plain URL, or JSON with url and any of method, headers, body, meta, priority, ..."""
    text = message.strip()
    if not text.startswith(b"{"):
        return Request(url=text.decode("utf-8", "surrogateescape"))
    try:
        return request_of(msgspec.json.decode(text))
    except msgspec.MsgspecError as error:
        raise UsageError(f"the message is not a request: {error}") from None


def request_of(fields: dict[str, Any]) -> Request:
    """A request from JSON, whose body is text as JSON has no bytes. Raises UsageError.

    `slot` and `identity` are for engines and ignored: with a slot for each request, none would wait
    for the others at its host.
    """
    fields = {name: value for name, value in fields.items() if name not in _OF_ENGINES}
    unknown = fields.keys() - set(Request.__struct_fields__)
    if unknown:
        raise UsageError(f"the message has unknown fields: {', '.join(sorted(unknown))}")
    if isinstance(fields.get("body"), str):
        fields["body"] = fields["body"].encode()
    try:
        return msgspec.convert(fields, Request)
    except msgspec.MsgspecError as error:
        raise UsageError(f"the message is not a request: {error}") from None
