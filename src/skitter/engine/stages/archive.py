"""What a crawl keeps of its pages, and what a replay has not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Self, cast

import msgspec

from skitter.engine.stages.revisits import NOT_MODIFIED, is_kept, is_unchanged
from skitter.engine.stages.stage import Stage
from skitter.engine.verdict import Follow
from skitter.engine.visit import Completed
from skitter.spider.scope import Refused

if TYPE_CHECKING:
    from skitter.archive.playback import ArchiveFetcher
    from skitter.engine.parts import Parts
    from skitter.engine.visit import Outcome, Visit
    from skitter.spider.run import HandlerOutput

_MISSING: Final = Refused("it is not in the archive", "archive")


class Archive(Stage):
    """Has what the handler saw kept, and redirects: on disk before the page is completed."""

    needs = "--archive"

    def __init__(self, parts: Parts) -> None:
        from skitter.archive.index import read_line  # an extra
        from skitter.archive.record import Record

        super().__init__(parts)
        assert parts.frontier is not None
        self.make, self.read, self.job = Record, read_line, parts.frontier.job
        self.folder = parts.config.archive.folder

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        return cls(parts) if parts.config.archive.is_on and parts.frontier else None

    async def ended(self, visit: Visit, outcome: Outcome) -> Outcome | None:
        lease, response = visit.lease, visit.response
        if not (isinstance(outcome, Completed) and response) or visit.is_kept:
            return None
        same, is_new = None, visit.output or isinstance(visit.verdict, Follow)
        if is_unchanged(visit) and (last := lease.request.visited):
            same = self.read(last.kept) if is_kept(last, self.folder) else None
            is_new = response.status != NOT_MODIFIED
        if not (same or is_new):
            return None
        at = time.time() - response.elapsed_s
        record = self.make(lease.request, response, at, self.job, lease.fingerprint, same)
        return msgspec.structs.replace(outcome, record=record)


class Offline(Stage):
    """Drops links to pages that are not in the archive."""

    needs = "skitter replay"

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        return cls(parts) if parts.config.archive.offline else None

    async def handled(self, visit: Visit, output: HandlerOutput) -> None:
        links, has = output.requests, cast("ArchiveFetcher", self.parts.client).has
        output.requests = [link for link in links if has(link)]
        output.refused += [(link.url, _MISSING) for link in links if not has(link)]
