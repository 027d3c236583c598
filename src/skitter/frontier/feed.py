"""Requests from outside, and links that are kept out."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from skitter.errors import BadURL, JobClosed, UsageError, shorten
from skitter.frontier.transport.keys import feed_key
from skitter.frontier.transport.messages import NOT_PLAIN, clip, cut, decode, encode, ms
from skitter.frontier.transport.scripts import script
from skitter.model import Added, Origin, Request
from skitter.urls import fingerprint, identify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.requests import Offer
    from skitter.urls import Canonical


#: At most this many are kept, and at least the newest half of it. About 300 bytes each.
KEPT: Final = 10_000
#: Per call: this keeps the server busy for a millisecond.
BATCH: Final = 500


class ExcludedLink(msgspec.Struct, frozen=True, array_like=True):
    """Why a link was not followed: the newest are kept, all are counted by kind."""

    kind: str  # robots, scope, depth, nofollow, ...
    reason: str
    found_on: str
    url: str = ""  # of the link; older releases did not keep it


async def record_refusals(frontier: Frontier, refusals: dict[str, ExcludedLink]) -> None:
    """Record links that were kept out, by URL."""
    canonical = frontier.layout.canonical
    rows = [
        (_fingerprint(url, canonical), refusal.kind, encode(_shortened(refusal, url)))
        for url, refusal in refusals.items()
    ]
    for first in range(0, len(rows), BATCH):
        await frontier.home.refuse(rows[first : first + BATCH], keep=KEPT)


async def newest_refusals(frontier: Frontier) -> list[ExcludedLink]:
    """The refusals that are still known, in no order: KEPT at most."""
    keys, found = frontier.home.keys, list[ExcludedLink]()
    for part in ("new", "old"):
        for packed in await frontier.server.command("HVALS", keys.key("refused", part)):
            with suppress(ValueError):  # as below
                found.append(msgspec.convert(decode(packed), ExcludedLink))
    return found


async def find_refusal(frontier: Frontier, fp: str) -> ExcludedLink | None:
    """Why a link was kept out; None: it was not, or too long ago."""
    keys, server = frontier.home.keys, frontier.server
    for part in ("new", "old"):
        if packed := await server.command("HGET", keys.key("refused", part), fp):
            try:
                return msgspec.convert(decode(packed), ExcludedLink)
            except ValueError:  # msgspec's errors are ValueErrors
                return None
    return None


def _fingerprint(url: str, canonical: Canonical) -> str:
    """The fingerprint that `why` looks up; for an invalid URL, any unique one will do."""
    try:
        return fingerprint(identify(url, canonical).canonical)
    except BadURL:
        return fingerprint(clip(url))


def _shortened(link: ExcludedLink, url: str) -> ExcludedLink:
    return ExcludedLink(link.kind, cut(link.reason), clip(link.found_on), clip(url))


KEEP_S = 30.0
AT_ONCE = 1000  # bounds the work of a script; the rest of a larger batch follows at once
_TAG = re.compile(r"\{([^}]+)\}")


class Messages(NamedTuple):
    """A batch of messages that other programs pushed to their own key.

    It is kept until its requests are in the frontier; if the process dies, another takes it over.
    Requests derive their identity from the name of the batch, so a message makes its requests once,
    however often it is read. In a cluster, a key of others may be on any node: the copy of a batch
    is then beside it, in its hash slot.
    """

    name: str
    place: str  # the key of its copy
    texts: list[bytes]
    scores: list[float]  # of each, if they are from a sorted set
    behind: int = 0  # how many keys have precedence over theirs


async def has_messages(frontier: Frontier, keys: Sequence[str]) -> bool:
    """One cheap command, or one per key in a cluster, for callers that poll."""
    for some in [[key] for key in keys] if frontier.server.is_cluster else [keys]:
        if await frontier.server.command("EXISTS", *some):
            return True
    return False


async def take_batch(frontier: Frontier, keys: Sequence[str], *, limit: int) -> Messages | None:
    """The next messages, from a list, a set, a sorted set or a stream."""
    for number, (place, some) in enumerate(_places(frontier, keys)):
        if answer := await _take(frontier, place, some, limit=min(limit, AT_ONCE)):
            found = _checked(place, answer)
            return found._replace(behind=found.behind + number)
    return None


async def finish_batch(frontier: Frontier, *, name: str, place: str) -> None:
    """Drop a batch whose requests are all in the frontier."""
    await frontier.server.command("HDEL", place, name)


def _places(frontier: Frontier, keys: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    """Where to keep batches, and of which keys."""
    if not frontier.server.is_cluster:
        return [(frontier.home.keys.key("feeding"), keys)]
    return [(_beside(key, frontier.job), [key]) for key in keys]


def _beside(key: str, job: str) -> str:
    """A key in the same hash slot."""
    found = _TAG.search(key)
    return f"{{{found[1] if found else key}}}:skitter:{job}:feeding"


async def _take(frontier: Frontier, place: str, keys: Sequence[str], *, limit: int) -> Any:
    shard, code = frontier.home, script("feed")
    values: dict[str, object] = {
        "now": shard.clock() if shard.clock else "",
        "limit": limit,
        "ttl_ms": ms(KEEP_S),
        "token": uuid.uuid4().hex,
    }
    return await shard.server.call(code, [place], code.arguments(values, keys))


def _checked(place: str, answer: list[Any]) -> Messages:
    name, scores, behind, *texts = answer
    if not name:
        key, kind = scores.decode("utf-8", "replace"), behind.decode()
        raise UsageError(
            f"{key} is a {kind}, but messages are read from a list, set, sorted set or stream: "
            "push to another key, or remove this one."
        )
    return Messages(name.decode(), place, texts, [float(one) for one in scores.split()], behind)


FULL_PAUSE_S = 0.25
FEED_BATCH = 500
LOCK_MS = 5000
BELL_S = 10  # well below the time after which a call counts as lost
_OF_ENGINES = ("slot", "identity", "redo")
_TEXTS = frozenset(("url", "method", "body", "parent", "handler", "unique", "session", "country"))
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
        deep = [offer for offer, said in zip(offers, answers, strict=True) if said is Added.DEEP]
        if deep:
            await _refuse(frontier, deep)
        if total[Added.CLOSED]:
            raise JobClosed(frontier.job, (await frontier.stats()).state)
        offers = [offer for offer, said in zip(offers, answers, strict=True) if said is Added.FULL]
        if offers and not wait:
            raise await frontier.full(added=total[Added.NEW])
        if offers:
            await asyncio.sleep(FULL_PAUSE_S)
    return total


async def _refuse(frontier: Frontier, deep: list[Offer]) -> None:
    """Record what was pushed too deep: unlike a link, no page keeps it."""
    requests = [msgspec.convert(decode(offer.body), Request) for offer in deep]
    refusals = {
        request.url: ExcludedLink(
            "depth", f"it was pushed at depth {request.depth}, beyond max_depth", ""
        )
        for request in requests
    }
    await record_refusals(frontier, refusals)


async def take_feed(frontier: Frontier) -> int:
    """Move messages from the job's feed list into the frontier. Returns how many.

    A message is removed after it was added, so none is lost; one that was added but not yet removed
    is added again, which changes nothing. The lock only saves workers from doing the same work, and
    it expires.
    """
    server, key = frontier.server, feed_key(frontier.job)
    kind = await server.command("TYPE", key)
    if kind in (b"none", "none"):
        return 0
    lock = f"{key}:lock"
    if not await server.command("SET", lock, frontier.client, "NX", "PX", LOCK_MS):
        return 0
    try:
        take = _take_stream if kind in (b"stream", "stream") else _take_list
        return await take(frontier, key)
    finally:
        await server.command("DEL", lock)


async def _take_list(frontier: Frontier, key: str) -> int:
    messages = await frontier.server.command("LRANGE", key, -FEED_BATCH, -1)
    taken = await _feed_take(frontier, messages[::-1])  # LPUSH: the oldest is last
    for message in taken:
        await frontier.server.command("LREM", key, -1, message)
    return len(taken)


async def _take_stream(frontier: Frontier, key: str) -> int:
    """XADD: the oldest is first. An entry has a URL or JSON in its only field, or the fields of a
    request."""
    entries = await frontier.server.command("XRANGE", key, "-", "+", "COUNT", FEED_BATCH)
    ids: dict[bytes, list[bytes]] = {}
    for entry, fields in entries:
        ids.setdefault(_message_in(fields), []).append(entry)
    taken = [id for message in await _feed_take(frontier, list(ids)) for id in ids[message]]
    if taken:
        await frontier.server.command("XDEL", key, *taken)
    return len(taken)


def _message_in(fields: dict[bytes, bytes]) -> bytes:
    if len(fields) == 1:
        return next(iter(fields.values()))
    texts = {name.decode("utf-8", "replace"): one for name, one in fields.items()}
    return msgspec.json.encode({name: _value_of(name, one) for name, one in texts.items()})


def _value_of(name: str, text: bytes) -> Any:
    """As JSON where a request has no text there: {"url": ..., "priority": "5", "meta": "{...}"}."""
    with suppress(msgspec.DecodeError):
        if name not in _TEXTS:
            return msgspec.json.decode(text)
    return text.decode("utf-8", "replace")


async def _feed_take(frontier: Frontier, messages: list[bytes]) -> list[bytes]:
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


async def ring(frontier: Frontier) -> None:
    """Wake a worker that stays and has nothing to do: it need not wait for its next look."""
    key = frontier.home.keys.key("bell")
    await frontier.server.command("RPUSH", key, 1)
    await frontier.server.command("EXPIRE", key, BELL_S)


async def hear(frontier: Frontier) -> bool:
    """Wait for somebody to ring. False: nobody did for some seconds."""
    key = frontier.home.keys.key("bell")
    return bool(await frontier.server.command("BLPOP", key, BELL_S))


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
