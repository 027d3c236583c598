"""Revisits: a page is fetched again, with its ETag and date, and handled if it changed.

Loaders are told of a page that no longer has items, if its rows are to be removed.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

import msgspec

from skitter.engine.stages.stage import Stage
from skitter.engine.visit import Buried, Completed
from skitter.frontier.completions import encode_item
from skitter.frontier.records.schedule import offer_round
from skitter.frontier.transport.messages import encode, ms, open_record
from skitter.model import Revisit, Visited

if TYPE_CHECKING:
    from pathlib import Path

    from skitter.engine.parts import Parts
    from skitter.engine.verdict import Verdict
    from skitter.engine.visit import Outcome, Visit
    from skitter.frontier.frontier import Frontier
    from skitter.model import Feedback, Lease, Request, Response

NOT_MODIFIED, BAD = 304, 400
GONE = frozenset({404, 410})
GONE_ITEM = "gone"  # sinks/comparison.py
OLD_ROUND = re.compile(r"round (\d{1,15})\Z")
#: Longer ones are not kept: RFC 9110 sets no limit, and each is sent back with every revisit.
LONGEST_ETAG, LONGEST_DATE = 256, 40
_TEXT: Final = b"\xdb"  # of msgpack; its length follows, in four bytes


@dataclass(slots=True)
class Revisits(Stage):
    """Asks whether a page has changed since its last visit, and plans the next one."""

    needs: ClassVar[str] = "a job"

    frontier: Frontier
    archive: Path | None  # where every page is to be

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        archive = parts.config.archive
        folder = archive.folder if archive.is_on else None
        return cls(parts.frontier, folder) if parts.frontier else None

    async def before(self, visit: Visit) -> Outcome | None:
        """Make the request conditional: it is answered with 304 if the page has not changed."""
        request = visit.request
        if request.unique and await self._is_replaced(request):
            return visit.completed()
        last = request.visited
        is_asked = not (request.lane or request.redo or (last and last.missing))
        if last and self.archive and not is_kept(last, self.archive):
            is_asked = False  # 304 would leave the archive without the page
        if last and is_asked and (last.etag or last.modified):
            asked = {"if-none-match": last.etag, "if-modified-since": last.modified}
            headers = {name: value for name, value in asked.items() if value}
            headers |= request.headers
            visit.request = msgspec.structs.replace(request, headers=headers)
        return None

    async def judged(self, visit: Visit, verdict: Verdict) -> Outcome | None:
        if visit.lease.request.visited is None:
            return None
        is_over = is_unchanged(visit) or self._is_missing(visit)
        return visit.completed() if is_over else None

    async def ended(self, visit: Visit, outcome: Outcome) -> None:
        if visit.error is not None:
            return
        if self.frontier.options.visits.revisit and visit.response is not None:
            self._plan(visit, visit.response, outcome)
        if visit.lease.request.round:
            await self._take_along(visit.lease, outcome)

    def _is_missing(self, visit: Visit) -> bool:
        """Whether the page was not found, and may be there at its next visit."""
        last, visits = visit.lease.request.visited, self.frontier.options.visits
        if not visits.revisit or last is None or last.found_nothing or visit.response is None:
            return False
        return visit.response.status in GONE and last.missing + 1 < visits.revisit_gone

    def _plan(self, visit: Visit, response: Response, outcome: Outcome) -> None:
        """Send the next visit, or that there is none, when this one ends."""
        if isinstance(outcome, Completed):
            brought = bool(outcome.completion.items)
            visit.feedback.revisit = self._next(visit, response, brought=brought)
        elif isinstance(outcome, Buried) and response.status in GONE:
            visit.feedback.revisit = self._none(visit)

    async def _take_along(self, lease: Lease, outcome: Outcome) -> None:
        """In a round, where a page redirects to is visited again too, though it is known; so is the
        same page in a browser."""
        links = outcome.completion.links if isinstance(outcome, Completed) else ()
        if pages := [link for link in links if link.round]:
            await offer_round(self.frontier, pages, due_ms=lease.request.round)

    async def _is_replaced(self, request: Request) -> bool:
        """Whether it is a page of a round by an earlier release, which had a fingerprint per round:
        the page itself is visited instead."""
        found = OLD_ROUND.search(request.unique)
        if not found:
            return False
        page = msgspec.structs.replace(
            request, unique=request.unique[: found.start()], visited=None
        )
        await offer_round(self.frontier, [page], due_ms=int(found[1]))
        return True

    def _next(self, visit: Visit, response: Response, *, brought: bool) -> Revisit:
        last, unchanged = visit.lease.request.visited, is_unchanged(visit)
        missing = self._is_missing(visit)
        interval_s = self.frontier.options.visits.interval_s(
            last.interval_s if last else None, changed=not unchanged
        )
        known = last if last and (missing or response.status == NOT_MODIFIED) else visited(response)
        kept = last.kept if last and (missing or unchanged or visit.is_kept) else ""
        now = msgspec.structs.replace(
            known,
            kept=(_place(visit) if visit.is_kept else "") or kept,
            interval_s=interval_s,
            visits=last.visits + 1 if last else 1,
            at=time.time(),
            missing=last.missing + 1 if last and missing else 0,
        )
        how: Literal["new", "changed", "unchanged", "missing"]
        how = "new" if last is None else "unchanged" if unchanged else "changed"
        how = "missing" if missing else how
        return Revisit(
            after_ms=ms(interval_s),
            how=how,
            record=_record(visit.lease, now),
            emptied=self._emptied(visit.lease) if how == "changed" and not brought else None,
        )

    def _none(self, visit: Visit) -> Revisit | None:
        """No ETag, date or digest: revived from the dead letters, it is fetched like a new page."""
        lease, last = visit.lease, visit.lease.request.visited
        if last is None:
            return None
        now = Visited(interval_s=last.interval_s, visits=last.visits + 1, at=time.time())
        return Revisit(
            after_ms=0, how="gone", record=_record(lease, now), emptied=_notice(lease, GONE_ITEM)
        )

    def _emptied(self, lease: Lease) -> msgspec.Raw | None:
        prunes = self.frontier.options.visits.revisit_prune
        return _notice(lease, None) if prunes else None


def is_unchanged(visit: Visit) -> bool:
    """Whether the page is the same as the last time."""
    last, response = visit.lease.request.visited, visit.response
    if last is None or response is None or visit.request.redo:
        return False
    if response.status == NOT_MODIFIED:
        return True
    is_back = last.missing > 0  # handled again: what it led to was left out
    return not is_back and response.status < BAD and digest_of(response) == last.digest


def _place(visit: Visit) -> str:
    """Of a page that is handled again; empty if the archive has it by an earlier visit."""
    from skitter.archive.index import place_of  # an extra

    redo = visit.lease.request.redo
    return place_of(redo) if redo else ""


def is_kept(last: Visited, archive: Path) -> bool:
    """Whether that archive has the page as it was."""
    from skitter.archive.index import is_here  # an extra

    return bool(last.kept) and is_here(archive, last.kept)


def kept_at(feedback: Feedback, line: str) -> Feedback:
    """With where the page is kept, for the archive's index and for the next visit."""
    from skitter.archive.index import place_of  # an extra

    revisit = feedback.revisit
    if revisit and (place := place_of(line)):
        priority, host, request = open_record(bytes(revisit.record)[len(_TEXT) + 4 :])
        assert request.visited is not None
        now = msgspec.structs.replace(request.visited, kept=place)
        record = _packed(priority, host, msgspec.structs.replace(request, visited=now))
        revisit = msgspec.structs.replace(revisit, record=record)
    return msgspec.structs.replace(feedback, archived=line, revisit=revisit)


def _notice(lease: Lease, item: str | None) -> msgspec.Raw:
    return as_text(encode_item(item, lease))


def _record(lease: Lease, now: Visited) -> msgspec.Raw:
    request = msgspec.structs.replace(lease.request, visited=now, priority=0, round=0, redo="")
    priority = 0 if lease.request.redo else lease.priority  # that one was for once
    return _packed(priority, lease.host, request)


def _packed(priority: int, host: str, request: Request) -> msgspec.Raw:
    return as_text(b"%d %b %b" % (priority, host.encode(), encode(request)))


def as_text(data: bytes) -> msgspec.Raw:
    """Bytes as msgpack text, the only type that Lua's msgpack has for them."""
    return msgspec.Raw(_TEXT + len(data).to_bytes(4, "big") + data)


def visited(response: Response) -> Visited:
    """The ETag, date and digest of a page."""
    etag, modified = response.header("etag") or "", response.header("last-modified") or ""
    return Visited(
        etag=etag if len(etag) <= LONGEST_ETAG else "",
        modified=modified if len(modified) <= LONGEST_DATE else "",
        digest=digest_of(response),
    )


def digest_of(response: Response) -> bytes:
    """The digest of what matters: the body, and where a redirect leads."""
    digest = blake2b(response.body, digest_size=8)
    if 300 <= response.status < 400:
        digest.update((response.header("location") or "").encode("utf-8", "replace"))
    return digest.digest()
