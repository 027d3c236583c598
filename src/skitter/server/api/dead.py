"""Dead letters: list, group, retry, drop."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec

from skitter.frontier import dead
from skitter.frontier.dead import Filter, Position, dead_letters, find_dead, kind_of, masked
from skitter.frontier.frontier import Frontier
from skitter.frontier.records.failed import FailedPage, failed_pages, find_failed, retry
from skitter.frontier.transport.messages import batched
from skitter.model import DeadLetter
from skitter.redact import redact_text
from skitter.server.call import Call, Page
from skitter.server.problems import Refusal
from skitter.server.route import Rows
from skitter.spider.fixtures import as_page

#: Dead letters that one call reads at most, so that other calls get their turn.
LOOK_AT = 5000
GROUPS_LOOK_AT = 50_000
CURSOR = re.compile(r"(\d{1,5})\.(\d{1,15})\.(\d{1,20})")
Letter = dict[str, Any]  # as in `skitter dead list --json`


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A page that failed. `body`: its text; not in lists."""

    fingerprint: str
    url: str
    reason: str
    at: float
    status: int
    size_bytes: int
    headers: dict[str, str]
    traceback: str
    body: str = ""

    @classmethod
    def of(cls, page: FailedPage, *, body: str = "") -> Failed:
        return cls(
            fingerprint=page.fingerprint,
            url=redact_text(page.url),
            reason=page.reason,
            at=page.at,
            status=page.status,
            size_bytes=len(page.body),
            headers=dict(page.headers),
            traceback=page.traceback,
            body=body,
        )


class Letters(Page, frozen=True, kw_only=True):
    """Filter by part of the URL or a pattern with * and ?, by part of the reason, or its kind."""

    url: str | None = None
    reason: str | None = None


class Group(msgspec.Struct, kw_only=True):
    """Dead letters with the same kind of reason."""

    reason: str
    count: int = 0
    first_at: float
    last_at: float
    sample_url: str
    example: str = ""  # a whole reason, where the group leaves out a part of it


class Selection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters. `preview`: only count them."""

    url: str | None = None
    reason: str | None = None
    fingerprints: Annotated[list[str], msgspec.Meta(max_length=1000)] | None = None
    all: bool = False
    preview: bool = False


class Drop(Selection, frozen=True, kw_only=True):
    """`forget`: a later push or link may bring the URL back."""

    forget: bool = False


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """How many matched, and how many were changed."""

    matched: int
    changed: int


async def dead_list(call: Call, query: Letters) -> Rows[Letter]:
    """Dead letters, oldest first, without their secrets.

    If many do not match, a page may have few rows or none; `next` says that there is more.
    """
    frontier, rows, looked = await call.frontier(), list[Letter](), 0
    wanted = Filter(url=query.url, reason=query.reason)
    async for letter in dead_letters(frontier, after=_place(query.after)):
        looked += 1
        if wanted.matches(letter):
            rows.append(masked(letter))
        if len(rows) >= query.limit or looked >= LOOK_AT:
            return Rows(rows=rows, next=".".join(map(str, Position.of(letter))))
    return Rows(rows=rows)


async def dead_groups(call: Call) -> Rows[Group]:
    """The oldest 50,000 dead letters by kind of reason, largest group first."""
    groups: dict[str, Group] = {}
    looked = 0
    async for letter in dead_letters(await call.frontier()):
        kind, at = kind_of(letter.reason), letter.at
        group = groups.setdefault(
            kind,
            Group(
                reason=kind,
                first_at=at,
                last_at=at,
                sample_url=redact_text(letter.url),
                example=redact_text(letter.reason) if letter.reason != kind else "",
            ),
        )
        group.count += 1
        group.first_at, group.last_at = min(group.first_at, at), max(group.last_at, at)
        looked += 1
        if looked >= GROUPS_LOOK_AT:
            break
    return Rows(rows=sorted(groups.values(), key=lambda one: (-one.count, one.reason))[:1000])


async def dead_letter(call: Call) -> Letter:
    """One dead letter, by its fingerprint."""
    return masked(await _find(await call.frontier(), call.path("fingerprint")))


async def failed(call: Call) -> Rows[Failed]:
    """Pages that failed: the first of each kind of failure, until they are handled again."""
    return Rows(rows=[Failed.of(page) for page in await failed_pages(await call.frontier())])


async def failed_page(call: Call) -> Failed:
    """One of them, by its fingerprint, with the text of its body. It may be hostile: show it as
    text, or in a frame without scripts."""
    page = await find_failed(await call.frontier(), call.path("fingerprint"))
    if page is None:
        raise Refusal(404, "no such page is kept of those that failed.", field="fingerprint")
    return Failed.of(page, body=as_page(page).text)


async def dead_retry(call: Call, body: Selection) -> Changed:
    """Make dead letters pending again."""
    frontier, matched, changed = await call.frontier(), 0, 0
    async for batch in _batches(frontier, body):
        matched += len(batch)
        changed += 0 if body.preview else await retry(frontier, batch)
    return Changed(matched=matched, changed=changed)


async def dead_drop(call: Call, body: Drop) -> Changed:
    """Remove dead letters."""
    frontier, matched, changed = await call.frontier(), 0, 0
    async for batch in _batches(frontier, body):
        matched += len(batch)
        if not body.preview:
            changed += await dead.drop(frontier, batch, forget=body.forget)
    return Changed(matched=matched, changed=changed)


async def _batches(frontier: Frontier, body: Selection) -> AsyncIterator[list[DeadLetter]]:
    wanted = Filter(url=body.url, reason=body.reason)
    if body.fingerprints is not None:
        yield [await _find(frontier, fingerprint) for fingerprint in body.fingerprints]
        return
    if wanted == Filter() and not body.all:
        says = "select some by url, reason or fingerprints; or all of them with `all`."
        raise Refusal(422, says, field="all")
    async for batch in batched(dead_letters(frontier, wanted), dead.PAGE):
        yield batch


async def _find(frontier: Frontier, fingerprint: str) -> DeadLetter:
    letter = await find_dead(frontier, fingerprint) if fingerprint.isascii() else None
    if letter is None:
        raise Refusal(404, "there is no dead letter with that fingerprint.", field="fingerprint")
    return letter


def _place(cursor: str) -> Position | None:
    if not cursor:
        return None
    found = CURSOR.fullmatch(cursor)
    if not found:
        raise Refusal(422, "`after` must be the `next` of the page before.", field="after")
    return Position(int(found[1]), int(found[2]), found[3])
