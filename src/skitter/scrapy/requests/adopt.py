"""Take over the queue and dupefilter of a scrapy-redis crawl.

The keys are renamed first, so that no scrapy-redis node can take from them meanwhile, and keep
their new names. Reading them is idempotent: an interrupted adoption is simply run again.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from skitter.errors import FrontierError, UsageError
from skitter.frontier.adoption import members_of, rename
from skitter.frontier.feed import bury_messages
from skitter.frontier.identities import SCRAPY_REDIS, identity_by
from skitter.frontier.jobs import create_job, note_fingerprinter
from skitter.frontier.records.drivers import adopt_seen, set_adopted
from skitter.frontier.requests import offer
from skitter.frontier.transport.messages import with_scores
from skitter.model import Added, Request
from skitter.scrapy.requests.codec import MAX_REQUEST_BYTES, checked, clamp, jar_name, spell_slot
from skitter.scrapy.requests.pickled import read_pickle
from skitter.scrapy.requests.release import was_released
from skitter.scrapy.requests.values import pack
from skitter.settings import MAX_PRIORITY, Layout
from skitter.urls import fingerprint_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server

STEP = 500
REASONS = 10  # listed separately in the report
PICKLED = b"\x80"
FIELDS = ("cookies", "meta", "encoding", "flags", "cb_kwargs")
TYPED = (*FIELDS, "headers", "callback", "errback", "priority", "dont_filter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """Which keys to adopt, and how they may be read."""

    spider: str
    job: str
    requests_key: str
    dupefilter_key: str
    trust_pickle: bool = False
    lifo: bool = False
    rule: str = SCRAPY_REDIS  # how pages are told apart; `skitter release` notes that of a job

    def identity_of(self, known: dict[str, Any]) -> str:
        identify = identity_by(self.rule, self.job)
        return identify(known["url"], _method(known), _bytes(known.get("body")))


class Adopted(msgspec.Struct, kw_only=True):
    """What was found and what happened to it."""

    job: str
    entries: int = 0  # in the queue
    queued: int = 0
    known: int = 0  # duplicates, or adopted before
    dead: int = 0  # unreadable: dead letters
    fingerprints: int = 0  # text members of the dupefilter
    unreadable: int = 0  # other members of the dupefilter: dead letters too
    remembered: int = 0
    remembered_before: int = 0  # queued here, or adopted before
    forgotten: int = 0  # of unreadable requests: found again, they may be crawled
    reasons: dict[str, int] = {}  # why requests were unreadable

    def note(self, reason: str) -> None:
        """Count one more dead letter."""
        self.dead += 1
        known = reason in self.reasons or len(self.reasons) < REASONS
        reason = reason if known else "other reasons, see `skitter dead list`"
        self.reasons[reason] = self.reasons.get(reason, 0) + 1


async def adopt(server: Server, adoption: Adoption) -> Adopted:
    """Raises UsageError, before changing anything, if an entry may not be read."""
    await _check_keys(server, adoption)
    for key in (adoption.requests_key, f"{adoption.requests_key}:adopted"):
        await _check_readable(server, key, adoption)
    layout = Layout(order="lifo" if adoption.lifo else "fifo")
    frontier = await create_job(server, adoption.job, layout=layout)
    if await was_released(frontier):
        raise UsageError(
            f"the job {adoption.job} was released to scrapy-redis, and what that has fetched since "
            f"would be fetched again: `skitter purge {adoption.job}`, then adopt."
        )
    rule = ((await server.command("GET", f"{adoption.dupefilter_key}:by")) or b"").decode()
    adoption = replace(adoption, rule=rule or SCRAPY_REDIS)
    if adoption.rule == SCRAPY_REDIS:
        await set_adopted(frontier)
    await note_fingerprinter(frontier, adoption.rule)
    before = (await frontier.stats()).seen
    result, died = Adopted(job=adoption.job), set[str]()
    for key in await rename(server, adoption.requests_key):
        async for entries in _entries(server, key):
            died |= await _adopt_entries(frontier, entries, result, adoption)
    for key in await rename(server, adoption.dupefilter_key):
        async for members in members_of(server, key):
            await _adopt_members(frontier, members, result, died)
    await _verify(frontier, before, result)
    return result


# --- the keys of scrapy-redis ---------------------------------------------------------------------


async def _check_keys(server: Server, adoption: Adoption) -> None:
    """Raises UsageError unless a key exists and all have the types that scrapy-redis writes."""
    wanted = {adoption.requests_key: ("zset", "list"), adoption.dupefilter_key: ("set",)}
    found = 0
    for name, kinds in wanted.items():
        for key in (name, f"{name}:adopted"):
            kind = (await server.command("TYPE", key)).decode()
            if kind not in ("none", *kinds):
                raise UsageError(
                    f"{key} is a {kind}, but scrapy-redis keeps a {' or '.join(kinds)} there: "
                    "check the key."
                )
            found += kind != "none"
    if not found:
        raise UsageError(
            f"nothing to adopt: this server has neither {' nor '.join(wanted)}. Check the spider's "
            "name, its keys and the database number."
        )


async def _entries(server: Server, key: str) -> AsyncIterator[list[tuple[bytes, int]]]:
    """Entries with their priorities, in the order scrapy-redis would pop them."""
    kind = (await server.command("TYPE", key)).decode()
    at = 0
    while True:
        if kind == "zset":
            rows = await server.command("ZRANGE", key, at, at + STEP - 1, "WITHSCORES")
            page = [(data, _priority(score)) for data, score in with_scores(rows)]
        else:
            page = [(data, 0) for data in await server.command("LRANGE", key, -at - STEP, -at - 1)]
            page.reverse()  # scrapy-redis uses LPUSH: the oldest entry is last
        if not page:
            return
        yield page
        at += STEP


def _priority(score: Any) -> int:
    """The negated score of scrapy-redis, which may be infinite."""
    return round(max(-MAX_PRIORITY, min(MAX_PRIORITY, -float(score))))


async def _check_readable(server: Server, key: str, adoption: Adoption) -> None:
    if adoption.trust_pickle:
        return
    pickled = 0
    async for page in _entries(server, key):
        pickled += sum(data.startswith(PICKLED) for data, _ in page)
    if pickled:
        raise UsageError(
            f"{pickled:,} requests in {key} are pickled, and a pickle can run code when it is "
            "read: anyone who can write to that server could have planted one. If you trust them "
            "all, use --trust-pickle. Even then only plain types are read; an entry that needs "
            "other classes becomes a dead letter."
        )


# --- entries --------------------------------------------------------------------------------------


async def _adopt_entries(
    frontier: Frontier, entries: list[tuple[bytes, int]], result: Adopted, adoption: Adoption
) -> set[str]:
    """Returns the fingerprints of dead letters: they were not crawled, so are not seen."""
    offers, refused, died = [], [], set()
    for number, (data, priority) in enumerate(entries, start=result.entries):
        known: dict[str, Any] = {}
        try:
            known = read_entry(data)
            unique = f"{adoption.requests_key}/{number}"
            request = read_request(known, priority, adoption.identity_of, unique=unique)
            offers.append(offer(request, frontier.layout, limit_bytes=MAX_REQUEST_BYTES))
        except Exception as error:  # an entry may contain anything
            reason = _reason(error)
            refused.append((_letter(known, data, number), reason))
            result.note(reason)
            if known and not known.get("dont_filter"):
                with suppress(ValueError):  # not a valid URL, so it has no fingerprint
                    died.add(adoption.identity_of(known))
    answers = await frontier.add_offers(offers, links=True)
    await bury_messages(frontier, refused, origin="adopted")
    result.entries += len(entries)
    result.queued += sum(said is Added.NEW for said in answers)
    result.known += sum(said is Added.SEEN for said in answers)
    return died


def _letter(known: dict[str, Any], data: bytes, number: int) -> bytes:
    """The text of a dead letter: its method and URL if readable, else the raw entry."""
    if not known:
        return _one_line(data)
    return f"{_method(known)} {known['url']} (entry {number})".encode("utf-8", "replace")


def _one_line(data: bytes) -> bytes:
    """Printable, as a pickle may contain control characters that a terminal would obey."""
    text = data[:2000].decode("utf-8", "backslashreplace")
    seen = (one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return "".join(seen).encode()


def _reason(error: Exception) -> str:
    if isinstance(error, UsageError):
        return str(error)
    return f"the entry cannot be read: {type(error).__name__}: {error}".rstrip(": ")


def read_entry(data: bytes) -> dict[str, Any]:
    """The plain parts of a serialized Scrapy request. Raises UsageError if it is not one."""
    known = read_pickle(data) if data.startswith(PICKLED) else json.loads(data)
    if not isinstance(known, dict) or not isinstance(known.get("url"), str):
        raise UsageError("the entry is not a Scrapy request.")
    return known


def _method(known: dict[str, Any]) -> str:
    return str(known.get("method") or "GET")


def read_request(
    known: dict[str, Any], priority: int, identify: Callable[[dict[str, Any]], str], *, unique: str
) -> Request:
    """Raises UsageError for a part that is not plain data or has the wrong type."""
    for name in TYPED:
        if known.get(name):
            checked(name, known[name])
    meta = known.get("meta") or {}
    rest: dict[str, Any] = {
        "fields": {name: pack(known[name], name) for name in FIELDS if known.get(name)}
    }
    if jar := jar_name(meta.get("cookiejar")):
        rest["jar"] = jar
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
        identity=identify(known),
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
    texts = [one.decode() for one in found if _is_text(one)]
    members = [text for text in texts if text not in died]
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
    new = await adopt_seen(frontier, [_number_of(member) for member in members])
    result.remembered += new
    result.remembered_before += len(members) - new


def _number_of(member: str) -> str:
    """A fingerprint of ours, from `skitter release`, has at most 19 digits; theirs has 40."""
    return member if member.isdigit() and len(member) < 20 else fingerprint_of(member)


def _is_text(data: bytes) -> bool:
    try:
        return bool(data.decode())
    except UnicodeDecodeError:
        return False


async def _verify(frontier: Frontier, before: int, result: Adopted) -> None:
    """Raises FrontierError unless every entry is accounted for and the seen-set grew to match."""
    sums = (
        (result.entries, result.queued + result.known + result.dead),
        (result.fingerprints, result.remembered + result.remembered_before + result.forgotten),
    )
    gained = (await frontier.stats()).seen - before
    if any(found != placed for found, placed in sums) or gained < result.queued + result.remembered:
        raise FrontierError(
            f"the counts do not add up: {msgspec.to_builtins(result)}, but the frontier gained "
            f"{gained:,}. Stop whatever else uses the job, then run the adoption again."
        )
