"""Pages that are handled again: from the archive where it has them, else fetched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from skitter.archive.index import is_here, key_of, line_of
from skitter.archive.record import request_of
from skitter.crawl.replay import MACHINES
from skitter.engine.stages.recall import FETCH
from skitter.errors import QueueFull, UsageError
from skitter.frontier.items import RejectedFrom, forget_rejected, rejected_pages
from skitter.frontier.records.failed import forget_failed
from skitter.frontier.records.schedule import offer_again, resting_pages
from skitter.frontier.transport.messages import batched
from skitter.model import Added, Request
from skitter.settings import MAX_PRIORITY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from skitter.archive.index import Archive
    from skitter.archive.record import Kept
    from skitter.frontier.dead import Filter
    from skitter.frontier.frontier import Frontier
    from skitter.spider import Spider

BATCH: Final = 500
_BROWSER: Final = "browser"


@dataclass(slots=True)
class Redone:
    """What became of the pages that were asked for."""

    archived: int = 0  # pending now; the archive has them
    fetched: int = 0  # pending now; they will be fetched
    left: int = 0  # on their way, or not in this crawl
    unknown: int = 0  # rejected, and nobody knows how they were requested

    @property
    def pages(self) -> int:
        return self.archived + self.fetched


@dataclass(slots=True)
class Redo:
    """Makes done and dead pages of a job pending again. Safe to repeat, after a kill too: a page
    that is handled twice leaves the same rows."""

    frontier: Frontier
    archive: Archive | None
    spider: Spider | None  # None: others will handle them
    which: Filter  # by URL, and the reason of rejected items
    handler: str | None = None
    rejected: bool = False  # only pages with such items
    did: Redone = field(default_factory=Redone)

    async def mark(self) -> Redone:
        """Raises UsageError if the job takes no pages, QueueFull."""
        if self.rejected:
            async for items in rejected_pages(self.frontier):
                await self._mark_rejected([item for item in items if self._is_wanted(item)])
        else:
            async for pages in batched(self._all(), BATCH):
                await self._offer(pages)
        return self.did

    def _is_wanted(self, item: RejectedFrom) -> bool:
        return self.which.has_url(item.url) and self.which.has_reason(item.why)

    async def _mark_rejected(self, items: list[RejectedFrom]) -> None:
        pages, taken = dict[bytes, Request](), list[tuple[bytes, RejectedFrom]]()
        for item in items:
            request = item.request or self._asked_at(item.url)
            if request is None:
                self.did.unknown += 1
            elif self._is_handled(request):
                pages[key := key_of(request)] = self._ready(request)
                taken.append((key, item))
        known = await self._offer(list(pages.values()))
        here = {key for key, is_known in zip(pages, known, strict=True) if is_known}
        # What no page brings again is the only copy of the item.
        gone = [item for key, item in taken if key in here]
        await forget_rejected(self.frontier, gone)

    def _asked_at(self, url: str) -> Request | None:
        found = self.archive.find(url) if self.archive else []
        own = [page for page in found if page.job == self.frontier.job]
        return request_of(own[-1]) if own else None

    async def _all(self) -> AsyncIterator[Request]:
        """Those that are revisited have their request on the server, the others in the archive."""
        seen = set[bytes]()
        async for request in resting_pages(self.frontier):
            if (key := key_of(request)) not in seen and self._is_one(request):
                yield self._ready(request)
            seen.add(key)
        for kept in self._own():
            request = request_of(kept)
            if key_of(request) not in seen and self._is_one(request):
                yield self._ready(request, kept)

    def _own(self) -> Iterator[Kept]:
        """Pages, not redirects to them."""
        found = self.archive.of(self.frontier.job) if self.archive else ()
        return (kept for kept in found if kept.status // 100 != 3)

    def _is_one(self, request: Request) -> bool:
        return self.which.has_url(request.url) and self._is_handled(request)

    def _is_handled(self, request: Request) -> bool:
        """By that handler; links of sitemaps are all in the crawl."""
        default = self.spider.default if self.spider else None
        name = request.handler or default
        return request.handler not in MACHINES and self.handler in (None, name)

    def _ready(self, request: Request, kept: Kept | None = None) -> Request:
        line = self._line_of(request, kept) or FETCH
        if self.spider:
            request = self.spider.in_lane(request)
        if request.unique.endswith(_BROWSER):  # engine/rendering.py `for_browser`
            request = msgspec.structs.replace(request, lane=_BROWSER)
        # First of all: `max_pages` counts them, and may leave no page for what else is pending.
        return msgspec.structs.replace(request, redo=line, priority=MAX_PRIORITY)

    def _line_of(self, request: Request, kept: Kept | None) -> str:
        """Empty: the archive does not have the page, or only as it was before its last visit, or
        as another job has seen it."""
        if request.visited:
            return request.visited.kept
        if kept is None and self.archive:
            visits = self.archive.visits(request)
            kept = next((visit for visit in visits[::-1] if visit.job == self.frontier.job), None)
        return line_of(msgspec.structs.replace(kept, request={})) if kept else ""

    async def _offer(self, pages: list[Request]) -> list[bool]:
        """Which of them the job knows."""
        answers = await offer_again(self.frontier, pages)
        await forget_failed(
            self.frontier, [self.frontier.offer(request).arguments[0] for request in pages]
        )
        for page, said in zip(pages, answers, strict=True):
            if said is Added.CLOSED:
                job = self.frontier.job
                raise UsageError(f"{job} accepts no URLs: `skitter resume {job}` opens it.")
            if said is Added.FULL:
                limit = self.frontier.options.limits.max_pending or 0
                raise QueueFull(self.frontier.job, max_pending=limit, added=self.did.pages)
            self._count(page, said)
        return [said is not None for said in answers]

    def _count(self, page: Request, said: Added | None) -> None:
        if said is not Added.NEW:
            self.did.left += 1
        elif self.archive and is_here(self.archive.folder, page.redo):
            self.did.archived += 1
        else:
            self.did.fetched += 1
