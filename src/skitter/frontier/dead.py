"""Dead letters: read them, bring them back, drop them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from skitter.errors import BadOption
from skitter.frontier.seen import seen_set
from skitter.frontier.sites.snapshots import EXCLUDED_S, Trouble, open_body, open_trouble
from skitter.frontier.transport.messages import MAX_ERROR_CHARS, batched, ms, scatter, with_scores
from skitter.frontier.transport.scripts import Code
from skitter.frontier.transport.shard import Shard
from skitter.model import DeadLetter, Request
from skitter.redact import redact_request, redact_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from skitter.frontier.frontier import Frontier

PAGE = 200
EXCLUDED_MS: Final = round(1000 * EXCLUDED_S)
#: The times of dead letters, and of what the job's patterns exclude.
DEAD: Final = "-inf", f"({EXCLUDED_MS}"
EXCLUDED: Final = str(EXCLUDED_MS), "+inf"
KINDS_LOOK_AT: Final = 10_000  # someone waits for it
LONGEST_KIND: Final = 200
_DIFFERS: Final = re.compile(r"""\w+://\S+|'[^']*'|"[^"]*"|\d+\.\d+|\d{4,}""")
#: A callback of Scrapy's: its numbers are of the page; a status or a limit is in no such message.
_ERROR: Final = re.compile(r"[A-Z][\w.]*(?:Error|Exception): ")
_IN_ERROR: Final = re.compile(r"""\w+://\S+|'[^']*'|"[^"]*"|\d+(?:\.\d+)?""")
#: As worded by spider/run.py: what failed, the exception, its message, and the line.
_CODE: Final = re.compile(
    r"(?P<head>(?:handler|callback) \S+ failed[^:]*: [\w.]+):.*? (?P<place>\(\S+:\d+\b.*\))",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Selects dead letters. Without conditions: all of them."""

    url: str | None = None  # a glob with * and ?, or a substring
    reason: str | None = None  # a substring, ignoring case; or a kind (`kind_of`)

    def matches(self, letter: DeadLetter) -> bool:
        return self.has_url(letter.url) and self.has_reason(letter.reason)

    def has_reason(self, reason: str) -> bool:
        if self.reason is None:
            return True
        wanted = self.reason.lower()
        return wanted in reason.lower() or wanted == kind_of(reason).lower()

    def has_url(self, url: str) -> bool:
        if self.url is None:
            return True
        wild = "*" in self.url or "?" in self.url
        return fnmatchcase(url, self.url) if wild else self.url in url


def kind_of(reason: str) -> str:
    """The reason without what varies from page to page: addresses, quoted text, long numbers. An
    error in code is its exception and its line, whatever its message says."""
    code = _CODE.fullmatch(reason)
    if code:
        return redact_text(f"{code['head']} {code['place']}")[:LONGEST_KIND]
    differs = _IN_ERROR if _ERROR.match(reason) else _DIFFERS
    return differs.sub("…", redact_text(reason[:MAX_ERROR_CHARS]))[:LONGEST_KIND]


def masked(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter for JSON, without the passwords and secrets of its request."""
    document: dict[str, Any] = msgspec.to_builtins(letter)
    texts = {name: redact_text(document[name]) for name in ("url", "reason")}
    return {**document, **texts, "request": redact_request(document["request"])}


class Position(NamedTuple):
    """The position of a dead letter, to continue listing after it."""

    shard: int = 0
    at_ms: int = -1
    fingerprint: str = ""

    @classmethod
    def of(cls, letter: DeadLetter) -> Position:
        return cls(letter.shard, round(letter.at * 1000), letter.fingerprint)


async def dead_letters(
    frontier: Frontier, which: Filter | None = None, *, after: Position | None = None
) -> AsyncIterator[DeadLetter]:
    """Oldest first, shard by shard, in small steps. Letters removed meanwhile are skipped."""
    which, after = which or Filter(), after or Position()
    for shard in frontier.shards[after.shard :]:
        is_first = shard.keys.shard == after.shard
        async for page in _pages(shard, after if is_first else Position()):
            for letter in page:
                if which.matches(letter):
                    yield letter


async def dead_kinds(frontier: Frontier) -> dict[str, int]:
    """The number of dead letters of each kind (`kind_of`), most frequent first; of many, only the
    oldest are counted."""
    found: Counter[str] = Counter()
    async for letter in dead_letters(frontier):
        found[kind_of(letter.reason)] += 1
        if found.total() >= KINDS_LOOK_AT:
            break
    return dict(found.most_common())


async def find_dead(frontier: Frontier, fingerprint: str) -> DeadLetter | None:
    """One dead letter by its fingerprint."""
    for shard in frontier.shards:
        score = await shard.command("ZSCORE", "dead", fingerprint)
        if score is not None and float(score) < EXCLUDED_MS:
            letters = await _read(shard, [(fingerprint.encode(), float(score))])
            return letters[0] if letters else None
    return None


async def revive(frontier: Frontier, letters: Sequence[DeadLetter]) -> int:
    """Make dead letters pending again and clear their failures. Returns how many came back.

    Fed messages that are not URLs, and unreadable records, stay dead: they cannot be fetched.
    """
    return await _send(
        frontier, Shard.revive, [letter for letter in letters if letter.can_be_fetched]
    )


async def drop(frontier: Frontier, letters: Sequence[DeadLetter], *, forget: bool = False) -> int:
    """Remove dead letters. With `forget`, a later push or link may bring the URL back."""
    if forget and not seen_set(frontier.layout).can_forget:
        raise BadOption("forget", forget, "left out: a Bloom filter cannot forget")
    return await _send(frontier, Shard.drop, letters, forget=int(forget))


async def withdraw(frontier: Frontier, requests: Sequence[Request], reason: str) -> int:
    """Make dead letters of requests that wait for their turn or for a retry. Returns how many did:
    one that is in flight, over or unknown stays what it is."""
    offers = [frontier.offer(request) for request in requests]

    async def send(shard: int, part: list[int]) -> list[bool]:
        rows = [(offers[number].arguments[0], reason) for number in part]
        codes = await frontier.shards[shard].withdraw(rows)
        return [Code(code) is Code.BURIED for code in codes]

    return sum(await scatter([offer.shard for offer in offers], send, batch=PAGE))


async def lock_dead(frontier: Frontier, *, ttl_s: float) -> bool:
    """Lock for readers that need not run in parallel. Advisory, and it expires."""
    words = (frontier.client, "NX", "PX", ms(ttl_s))
    return bool(await frontier.home.command("SET", "reporter", *words))


async def unlock_dead(frontier: Frontier) -> None:
    await frontier.home.command("DEL", "reporter")


async def _send(
    frontier: Frontier,
    verb: Callable[..., Awaitable[int]],
    letters: Sequence[DeadLetter],
    **values: int,
) -> int:
    changed = 0

    async def send(shard: int, part: list[int]) -> list[None]:
        nonlocal changed
        fps = [letters[i].fingerprint for i in part]
        count = await verb(frontier.shards[shard], fps, **values)
        changed += count  # after the await: shards run concurrently
        return [None] * len(part)

    await scatter([letter.shard for letter in letters], send, batch=PAGE)
    return changed


async def excluded_letters(frontier: Frontier) -> AsyncIterator[DeadLetter]:
    """What the job's patterns exclude, set aside while it waited. In small steps, oldest first."""
    for shard in frontier.shards:
        async for page in _pages(shard, Position(), EXCLUDED):
            for letter in page:
                yield letter


async def unfetched(frontier: Frontier) -> AsyncIterator[DeadLetter]:
    """Dead or excluded: for callers who wait for each of their pages."""
    async for letter in dead_letters(frontier):
        yield letter
    async for letter in excluded_letters(frontier):
        yield letter


async def restore_excluded(frontier: Frontier) -> int:
    """Make pending again what the job's patterns exclude no longer. Returns how many came back."""
    limits, restored = frontier.options.limits, 0
    async for batch in batched(excluded_letters(frontier), PAGE):
        back = [letter for letter in batch if not limits.excludes_request(letter.request)]
        restored += await revive(frontier, back)
    return restored


async def _pages(
    shard: Shard, start: Position, times: tuple[str, str] = DEAD
) -> AsyncIterator[list[DeadLetter]]:
    """By time, not by position: letters revived between two pages must not shift the rest."""
    first, last_of_all = times
    after: bytes | str = first if start.at_ms < 0 else _number(start.at_ms)
    at_after: set[bytes] = set()
    begins = start.at_ms, start.fingerprint.encode()
    while True:
        page = await shard.command(
            "ZRANGE", "dead", after, last_of_all, "BYSCORE",
            "LIMIT", 0, PAGE + len(at_after), "WITHSCORES",
        )  # fmt: skip
        fresh = [(fp, float(score)) for fp, score in with_scores(page) if fp not in at_after]
        if not fresh:
            return
        # Letters with equal times are sorted by fingerprint on the server.
        if behind := [one for one in fresh if (one[1], one[0]) > begins]:
            yield await _read(shard, behind)
        last = fresh[-1][1]
        at_after = {fp for fp, score in fresh if score == last} | (
            at_after if after == _number(last) else set()
        )
        after = _number(last)


async def _read(shard: Shard, rows: list[tuple[bytes, float]]) -> list[DeadLetter]:
    fps = [fp for fp, _ in rows]
    records = await shard.command("HMGET", "task", *fps)
    troubles = await shard.command("HMGET", "trouble", *fps)
    return [
        _letter(shard.keys.shard, fp.decode(), at / 1000, record, trouble or b"")
        for (fp, at), record, trouble in zip(rows, records, troubles, strict=True)
        if record  # else revived or dropped meanwhile
    ]


def _letter(shard: int, fingerprint: str, at: float, record: bytes, trouble: bytes) -> DeadLetter:
    """An unreadable record becomes a letter without a URL, so that it can be seen and dropped."""
    priority, _, request = open_body(record)
    known = open_trouble(trouble) or Trouble(error="unknown: its record cannot be read")
    return DeadLetter(
        shard=shard,
        fingerprint=fingerprint,
        url=request.url if request else "",
        reason=known.error,
        at=at,
        failures=known.failures,
        losses=known.losses,
        priority=priority if known.priority is None else known.priority,
        request=request or Request(url=""),
    )


def _number(score: float) -> str:
    return f"{score:.0f}"


async def forget(frontier: Frontier, requests: Sequence[Request]) -> list[bool]:
    """Make pages that are done unknown, so that a push or a link brings them again. Returns which
    were: one that waits, is in flight or dead stays what it is."""
    if not seen_set(frontier.layout).can_forget:
        raise BadOption("forget", True, "left out: a Bloom filter cannot forget")
    offers = [frontier.offer(request) for request in requests]

    async def send(shard: int, part: list[int]) -> list[int]:
        rows = [offers[i].arguments[:2] for i in part]  # fingerprint and host
        return await frontier.shards[shard].forget(rows)

    codes = await scatter([offer.shard for offer in offers], send, batch=PAGE)
    return [code == Code.DONE for code in codes]
