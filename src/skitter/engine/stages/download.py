"""Files that a visit downloads: streamed to disk, each content once."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skitter.engine.stages.stage import Stage
from skitter.engine.verdict import Bury, Follow, Handle, redirected, way_to
from skitter.errors import FetchError
from skitter.fetch.http.exchange import BODY_SINK
from skitter.fetch.pdf import write_text
from skitter.frontier.records.archived import count_download, downloads_of
from skitter.model import TYPE
from skitter.spider.named_files import FIELD, FILE, FILE_TYPE
from skitter.spider.run import HandlerOutput

if TYPE_CHECKING:
    from skitter.engine.verdict import Verdict
    from skitter.engine.visit import Outcome, Visit
    from skitter.fetch.filestore import Part, Stored
    from skitter.fetch.http.fetcher import Fetcher, Leave
    from skitter.model import Request, Response

NOT_MODIFIED: Final = 304
_PART: Final = "part"  # of `Visit.notes`


def part_of(visit: Visit) -> Part | None:
    """The download that a visit is; None: it visits a page."""
    return visit.notes.get(_PART)


async def download(
    fetcher: Fetcher, request: Request, part: Part, *, leave: Leave | None
) -> Response:
    """Fetch a file into its part; while connections are cut off after some progress, the rest."""
    BODY_SINK.set(part)
    try:
        while True:
            sent = msgspec.structs.replace(request, headers=request.headers | part.headers())
            try:
                return await fetcher.fetch(sent, leave=leave)
            except FetchError:
                if not part.may_go_on:
                    raise
    finally:
        BODY_SINK.set(None)


class Download(Stage):
    """Streams files to disk, each content once, where other requests have a handler."""

    async def before(self, visit: Visit) -> Outcome | None:
        if visit.lease.request.handler != FILE:
            return None
        if problem := await self._over_limit():
            return visit.ended(Bury(problem))
        url = visit.lease.url
        visit.notes[_PART] = await asyncio.to_thread(self.parts.files.begin, url)
        return None

    async def judged(self, visit: Visit, verdict: Verdict) -> Outcome | None:
        part = part_of(visit)
        if part is None or visit.response is None:
            return None
        if isinstance(verdict, Follow):
            return self._follow(visit, verdict.url, visit.response.status)
        if not isinstance(verdict, Handle):
            return None
        if visit.response.status == NOT_MODIFIED:
            if part.known is None:
                return visit.ended(Bury("304, but its content is not here"))
            return await self._done(visit, part.known)
        kind = part.begun.type
        if (wanted := self.parts.config.files.types) and not _is_among(kind, wanted):
            part.discard()
            return visit.completed(skipped=f"{kind or 'no content type'} is not in files.types")
        stored = await asyncio.to_thread(part.keep)
        if self.parts.frontier:
            await count_download(self.parts.frontier, stored.size)
        return await self._done(visit, stored)

    async def ended(self, visit: Visit, outcome: Outcome) -> None:
        if part := part_of(visit):
            part.close()

    def tell(self, visit: Visit) -> str:
        part = part_of(visit)
        return f"{part.size:,} bytes of a file" if part else ""

    async def _over_limit(self) -> str:
        limit_mb, frontier = self.parts.config.files.max_total_mb, self.parts.frontier
        if limit_mb is None or frontier is None:
            return ""
        if (await downloads_of(frontier)).bytes < limit_mb * 10**6:
            return ""
        return (
            f"the files of this job are over {limit_mb:,.0f} MB: raise files.max_total_mb, then "
            f"`skitter dead retry {frontier.job}`"
        )

    def _follow(self, visit: Visit, url: str, status: int) -> Outcome:
        """Two files may redirect to one, and each is named by a row of its own."""
        link = redirected(visit.lease.request, url, status=status)
        way = way_to(link)
        return visit.completed(
            links=[msgspec.structs.replace(link, unique=f"file {len(way)} {way[0]}")]
        )

    async def _done(self, visit: Visit, stored: Stored) -> Outcome:
        request, folder = visit.lease.request, self.parts.config.files.folder
        if self.parts.config.files.text and stored.path.endswith(".pdf"):
            to = folder / "text" / f"{stored.sha256}.txt"
            if why := await asyncio.to_thread(write_text, folder / stored.path, to):
                self.parts.log("warning", f"{request.url} is stored without its text: {why}")
        item: dict[str, Any] = {
            TYPE: FILE_TYPE,
            "url": [*way_to(request), request.url][0],
            "path": self.parts.files.named(stored),
            "size": stored.size,
            "type": stored.type,
            "sha256": stored.sha256,
            "page": request.parent,
        }
        if field := request.meta.get(FIELD):
            item["field"] = field
        return visit.completed(HandlerOutput(items=[item]), items=[item])


def _is_among(kind: str, wanted: tuple[str, ...]) -> bool:
    return any(fnmatchcase(kind, pattern.lower()) for pattern in wanted)
