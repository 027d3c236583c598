"""Pages from the archive, for those that are handled again and for the cache."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Self

from skitter.domains import host_of
from skitter.engine.stages.revisits import BAD, as_text
from skitter.engine.stages.stage import Stage
from skitter.engine.visit import Completed
from skitter.errors import FetchError
from skitter.fetch.robots import robots_url
from skitter.frontier.completions import encode_item
from skitter.model import Request
from skitter.spider.run import HandlerError

if TYPE_CHECKING:
    from skitter.archive.playback import PageCache
    from skitter.engine.parts import Parts
    from skitter.engine.visit import Outcome, Visit
    from skitter.model import Response

#: The value of `Request.redo` of a page without a place in an archive.
FETCH: Final = "fetch"
_HAS_LIBRARY: Final = find_spec("fastwarc") is not None


class Recall(Stage):
    """Answers with what the archive has, to a page that is handled again or for the cache."""

    needs = "a job, or --cache"

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        is_on = parts.frontier or parts.pages
        return cls(parts) if is_on and not parts.config.archive.offline else None

    async def before(self, visit: Visit) -> None:
        if visit.request.redo:
            visit.kept = self._kept(visit.request)
        elif pages := self.parts.pages:
            if visit.lease.attempt > 1:  # kept after the attempt before, perhaps by another worker
                pages.refresh()
            visit.kept = pages.find(visit.request)
            if visit.kept:
                await self._ask_robots(pages, visit.lease.url)

    async def ended(self, visit: Visit, outcome: Outcome) -> None:
        visit.feedback.cached = visit.is_kept
        pages, frontier = self.parts.pages, self.parts.frontier
        if pages and not visit.is_kept:
            await self._keep(visit, outcome)
        elif pages and frontier and isinstance(outcome, Completed) and not visit.request.redo:
            visit.feedback.archived = pages.line_for(frontier.job, visit.lease)
        if visit.lease.request.redo and isinstance(outcome, Completed):
            visit.feedback.emptied = as_text(encode_item(None, visit.lease))

    async def _ask_robots(self, pages: PageCache, url: str) -> None:
        """If the cache has them: as ever, links that are disallowed are dropped."""
        robots, host = self.parts.robots, host_of(url)
        is_asked = robots.is_obeyed and robots.known(host) is None
        if is_asked and pages.find(Request(url=robots_url(url))):
            await robots.rules(url, host)

    async def _keep(self, visit: Visit, outcome: Outcome) -> None:
        """A page whose handler failed will be tried again; one without a job is never completed."""
        parts, response = self.parts, visit.response
        is_page = isinstance(visit.error, HandlerError) or (
            parts.frontier is None and isinstance(outcome, Completed)
        )
        if parts.archived and response and is_page and response.status < BAD:
            await parts.archived.keep_now(visit.lease.request, response, visit.lease.fingerprint)

    def _kept(self, request: Request) -> Response | None:
        """None: it is in no file here, or damaged, and is fetched."""
        if request.redo == FETCH or not _HAS_LIBRARY:
            return None
        from skitter.archive.index import Archive, is_here, read_line  # an extra

        archive = self.parts.config.archive.folder
        if not is_here(archive, request.redo):
            return None
        try:
            limit = self.parts.config.fetch.max_body_bytes
            return Archive(archive).read(read_line(request.redo), limit=limit)
        except FetchError as error:
            self.parts.log("warning", f"{request.url} is fetched again: {error.reason}")
            return None

    def tell(self, visit: Visit) -> str:
        return "the archive has it" if visit.kept else "the site is asked"
