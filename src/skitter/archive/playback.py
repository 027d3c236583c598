"""The archive instead of the web."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from skitter.errors import NotArchived

if TYPE_CHECKING:
    from skitter.archive.index import Archive
    from skitter.model import Request, Response

#: What the name of a replay's job has after that of the job whose pages it reads.
SUFFIX: Final = "-replay"


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
