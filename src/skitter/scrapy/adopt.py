"""Take over what scrapy-redis has on a server: its queue and its dupefilter.

The keys are renamed first, so that no node of scrapy-redis takes from them meanwhile, and stay
under their new names. Reading them twice changes nothing: an adoption that was interrupted is
simply run again.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from skitter.errors import FrontierError, UsageError
from skitter.frontier.admin.adopted import adopt_seen, set_adopted
from skitter.frontier.admin.jobs import create_job
from skitter.frontier.feed import bury_messages
from skitter.frontier.offers import offer
from skitter.frontier.wire import with_scores
from skitter.model import Added, Request
from skitter.scrapy.codec import MAX_REQUEST_BYTES, clamp, spell_slot
from skitter.scrapy.fingerprinter import scrapy_redis_fingerprint
from skitter.scrapy.message import checked
from skitter.scrapy.pickled import read_pickle
from skitter.scrapy.values import pack
from skitter.settings import MAX_PRIORITY, Layout
from skitter.urls import fingerprint_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skitter.frontier.connection import Server
    from skitter.frontier.frontier import Frontier

STEP = 500
REASONS = 10  # that are told apart in an answer
PICKLED = b"\x80"
FIELDS = ("cookies", "meta", "encoding", "flags", "cb_kwargs")
TYPED = (*FIELDS, "headers", "callback", "errback", "priority", "dont_filter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """Whose keys, and how they may be read."""

    spider: str
    job: str
    requests_key: str
    dupefilter_key: str
    trust_pickle: bool = False
    lifo: bool = False


class Adopted(msgspec.Struct, kw_only=True):
    """What was found and what became of it."""

    job: str
    entries: int = 0  # in the queue
    queued: int = 0
    known: int = 0  # duplicates, or adopted before
    dead: int = 0  # could not be read: dead letters
    fingerprints: int = 0  # in the dupefilter, those that are text
    unreadable: int = 0  # in the dupefilter, and no fingerprints: dead letters too
    remembered: int = 0
    remembered_before: int = 0  # queued here, or adopted before
    forgotten: int = 0  # of requests that could not be read: whoever finds those may do them
    reasons: dict[str, int] = {}  # why requests could not be read

    def note(self, reason: str) -> None:
        """One more dead letter."""
        self.dead += 1
        known = reason in self.reasons or len(self.reasons) < REASONS
        reason = reason if known else "other reasons, see `skitter dead list`"
        self.reasons[reason] = self.reasons.get(reason, 0) + 1


async def adopt(server: Server, adoption: Adoption) -> Adopted:
    """Raises UsageError if something cannot be read as allowed; nothing is changed then."""
    await _check_keys(server, adoption)
    for key in (adoption.requests_key, f"{adoption.requests_key}:adopted"):
        await _check_readable(server, key, adoption)
    layout = Layout(order="lifo" if adoption.lifo else "fifo")
    frontier = await create_job(server, adoption.job, layout=layout)
    await set_adopted(frontier)
    before = (await frontier.stats()).seen
    result, died = Adopted(job=adoption.job), set[str]()
    for key in await _rename(server, adoption.requests_key):
        async for entries in _entries(server, key):
            died |= await _adopt_entries(frontier, entries, result, adoption)
    for key in await _rename(server, adoption.dupefilter_key):
        async for members in _members(server, key):
            await _adopt_members(frontier, members, result, died)
    await _verify(frontier, before, result)
    return result


# --- the keys of scrapy-redis ---------------------------------------------------------------------


async def _check_keys(server: Server, adoption: Adoption) -> None:
    """Something is there, and of the types that scrapy-redis writes."""
    wanted = {adoption.requests_key: ("zset", "list"), adoption.dupefilter_key: ("set",)}
    found = 0
    for name, kinds in wanted.items():
        for key in (name, f"{name}:adopted"):
            kind = (await server.command("TYPE", key)).decode()
            if kind not in ("none", *kinds):
                raise UsageError(
                    f"{key} is a {kind}, and scrapy-redis has a {' or '.join(kinds)} there: "
                    "is it the right key?"
                )
            found += kind != "none"
    if not found:
        raise UsageError(
            f"there is neither {' nor '.join(wanted)} on this server: nothing to adopt. Check "
            "the names of the spider and of its keys, and the number of the database."
        )


async def _rename(server: Server, key: str) -> list[str]:
    """The key under its new name; with another that nodes of scrapy-redis made since."""
    adopted = f"{key}:adopted"
    if await server.command("EXISTS", key) and not await server.command("EXISTS", adopted):
        await server.command("RENAME", key, adopted)
    return [one for one in (adopted, key) if await server.command("EXISTS", one)]


async def _entries(server: Server, key: str) -> AsyncIterator[list[tuple[bytes, int]]]:
    """Entries with their priority, those first that would be popped first."""
    kind = (await server.command("TYPE", key)).decode()
    at = 0
    while True:
        if kind == "zset":
            rows = await server.command("ZRANGE", key, at, at + STEP - 1, "WITHSCORES")
            page = [(data, _priority(score)) for data, score in with_scores(rows)]
        else:
            page = [(data, 0) for data in await server.command("LRANGE", key, -at - STEP, -at - 1)]
            page.reverse()  # LPUSH: the oldest is the last
        if not page:
            return
        yield page
        at += STEP


def _priority(score: Any) -> int:
    """The negative of what scrapy-redis sorts by, which may be infinite."""
    return round(max(-MAX_PRIORITY, min(MAX_PRIORITY, -float(score))))


async def _members(server: Server, key: str) -> AsyncIterator[list[bytes]]:
    cursor: Any = b"0"
    while True:
        cursor, page = await server.command("SSCAN", key, cursor, "COUNT", STEP)
        yield page
        if int(cursor) == 0:
            return


async def _check_readable(server: Server, key: str, adoption: Adoption) -> None:
    if adoption.trust_pickle:
        return
    pickled = 0
    async for page in _entries(server, key):
        pickled += sum(data.startswith(PICKLED) for data, _ in page)
    if pickled:
        raise UsageError(
            f"{pickled:,} requests in {key} are pickled, and whoever may write to that server "
            "could have put anything there: a pickle can run code when it is read. If you trust "
            "all of them, use --trust-pickle. Only plain types are read even then; what needs "
            "other classes becomes a dead letter."
        )


# --- entries --------------------------------------------------------------------------------------


async def _adopt_entries(
    frontier: Frontier, entries: list[tuple[bytes, int]], result: Adopted, adoption: Adoption
) -> set[str]:
    """The fingerprints of those that died: nothing is done, so nothing must count as seen."""
    offers, refused, died = [], [], set()
    for number, (data, priority) in enumerate(entries, start=result.entries):
        known: dict[str, Any] = {}
        try:
            known = read_entry(data)
            request = read_request(known, priority, unique=f"{adoption.requests_key}/{number}")
            offers.append(offer(request, frontier.layout, limit_bytes=MAX_REQUEST_BYTES))
        except Exception as error:  # what scrapy-redis wrote may be anything
            reason = _reason(error)
            refused.append((_letter(known, data, number), reason))
            result.note(reason)
            if known and not known.get("dont_filter"):
                with suppress(ValueError):  # no URL, so nothing can be known of it
                    died.add(_fingerprint(known))
    answers = await frontier.add_offers(offers, links=True)
    await bury_messages(frontier, refused, origin="adopted")
    result.entries += len(entries)
    result.queued += sum(said is Added.NEW for said in answers)
    result.known += sum(said is Added.SEEN for said in answers)
    return died


def _letter(known: dict[str, Any], data: bytes, number: int) -> bytes:
    """What a dead letter is called: its page, if that could be read."""
    if not known:
        return _one_line(data)
    return f"{_method(known)} {known['url']} (entry {number})".encode("utf-8", "replace")


def _one_line(data: bytes) -> bytes:
    """For people to look at: a pickle is full of what a terminal should not get."""
    text = data[:2000].decode("utf-8", "backslashreplace")
    seen = (one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return "".join(seen).encode()


def _reason(error: Exception) -> str:
    if isinstance(error, UsageError):
        return str(error)
    return f"the entry cannot be read: {type(error).__name__}: {error}".rstrip(": ")


def read_entry(data: bytes) -> dict[str, Any]:
    """A request as Scrapy spells it, as far as it is plain. Raises UsageError for what is none."""
    known = read_pickle(data) if data.startswith(PICKLED) else json.loads(data)
    if not isinstance(known, dict) or not isinstance(known.get("url"), str):
        raise UsageError("the entry is not a request of Scrapy's.")
    return known


def _method(known: dict[str, Any]) -> str:
    return str(known.get("method") or "GET")


def _fingerprint(known: dict[str, Any]) -> str:
    body = _bytes(known.get("body"))
    return scrapy_redis_fingerprint(_method(known), known["url"], body)


def read_request(known: dict[str, Any], priority: int, *, unique: str) -> Request:
    """One entry. Raises UsageError for a part that is not plain, or of a wrong type."""
    for name in TYPED:
        if known.get(name):
            checked(name, known[name])
    meta = known.get("meta") or {}
    rest: dict[str, Any] = {
        "fields": {name: pack(known[name], name) for name in FIELDS if known.get(name)}
    }
    for name in ("errback", "priority", "dont_filter"):
        if known.get(name):
            rest[name] = known[name]
    if known.get("headers"):
        rest["headers"] = {_text(k): _values(v) for k, v in known["headers"].items()}
    if known.get("_class"):
        rest["class"] = ":".join(str(known["_class"]).rsplit(".", 1))
    slot = str(meta.get("download_slot") or urlsplit(known["url"]).hostname or "")
    return Request(
        url=known["url"],
        method=_method(known),
        body=_bytes(known.get("body")),
        depth=max(0, int(meta.get("depth", 0))),
        handler=known.get("callback"),
        meta=rest,
        priority=clamp(priority),
        identity=_fingerprint(known),
        unique=unique if known.get("dont_filter") else "",
        slot=spell_slot(slot, known["url"]),
    )


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value or "").encode()


def _values(value: Any) -> list[bytes]:
    return [_bytes(one) for one in (value if isinstance(value, list | tuple) else [value])]


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


# --- fingerprints ---------------------------------------------------------------------------------


async def _adopt_members(
    frontier: Frontier, found: list[bytes], result: Adopted, died: set[str]
) -> None:
    """All in the first shard's order: a job of Scrapy has one."""
    texts = [one.decode() for one in found if _is_text(one)]
    members = [one for one in texts if one not in died]
    strange = [one for one in found if not _is_text(one)]
    await bury_messages(
        frontier,
        [(_one_line(one), "it is not a fingerprint") for one in strange],
        origin="adopted",
    )
    result.unreadable += len(strange)
    result.fingerprints += len(texts)
    result.forgotten += len(texts) - len(members)
    if not members:
        return
    new = await adopt_seen(frontier, [fingerprint_of(one) for one in members])
    result.remembered += new
    result.remembered_before += len(members) - new


def _is_text(data: bytes) -> bool:
    try:
        return bool(data.decode())
    except UnicodeDecodeError:
        return False


async def _verify(frontier: Frontier, before: int, result: Adopted) -> None:
    """Everything that was found is somewhere, and the frontier has as many more as it said."""
    sums = (
        (result.entries, result.queued + result.known + result.dead),
        (result.fingerprints, result.remembered + result.remembered_before + result.forgotten),
    )
    gained = (await frontier.stats()).seen - before
    if any(found != placed for found, placed in sums) or gained < result.queued + result.remembered:
        raise FrontierError(
            f"the counts do not agree: {msgspec.to_builtins(result)}, the frontier has {gained:,} "
            "more. Is something else at work on the job? Stop it, and run the adoption again."
        )
