"""The archive instead of the web, or in front of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from skitter.archive.index import Archive, line_of
from skitter.archive.masking import described
from skitter.errors import FetchError, NotArchived

if TYPE_CHECKING:
    from pathlib import Path

    from skitter.model import Lease, Request, Response

#: What the name of a replay's job has after that of the job whose pages it reads.
SUFFIX: Final = "-replay"
#: The handler of a robots.txt, which no replay runs.
ROBOTS: Final = "_robots"


@dataclass(frozen=True, slots=True)
class ArchiveFetcher:
    """Answers with the newest response that the job has kept, or else another. Raises NotArchived,
    or FetchError if it cannot be read."""

    archive: Archive
    job: str
    limit: int  # bytes of a body

    def has(self, request: Request) -> bool:
        return bool(self.archive.visits(request))

    async def fetch(self, request: Request, **_: Any) -> Response:
        kept = self.archive.newest(request, job=self.job)
        if kept is None:
            raise NotArchived(request.url)
        return self.archive.read(kept, limit=self.limit)


@dataclass
class PageCache:
    """What a folder has of pages that are asked for, if it is young enough."""

    folder: Path
    max_age_s: float
    limit: int  # bytes of a body

    @cached_property
    def _archive(self) -> Archive:
        return Archive.open(self.folder) if self.folder.is_dir() else Archive(self.folder)

    def count(self) -> int:
        """Of pages, not of what is asked for on the way."""
        pages = (kept for kept in self._archive if kept.request.get("handler") != ROBOTS)
        oldest = time.time() - self.max_age_s
        return sum(kept.at >= oldest for kept in pages)

    def refresh(self) -> None:
        """Other processes may have kept more."""
        self.__dict__.pop("_archive", None)

    def find(self, request: Request) -> Response | None:
        """None: it is not there, too old or damaged."""
        if request.visited or request.round:  # a visit asks what is new
            return None
        found = self._archive.newest(request)
        if found is None or found.at < time.time() - self.max_age_s:
            return None
        try:
            return self._archive.read(found, limit=self.limit)
        except FetchError:
            return None

    def line_for(self, job: str, lease: Lease) -> str:
        """For a page that another job has kept: this one has seen it, too. Empty: it need not."""
        found = self._archive.newest(lease.request)
        if found is None or found.job in (job, ""):
            return ""
        about = described(lease.request, lease.fingerprint)
        own = replace(found, job=job, fingerprint=lease.fingerprint, request=about)
        return line_of(own)
