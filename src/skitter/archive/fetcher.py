"""The archive instead of the web."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skitter.errors import NotArchived

if TYPE_CHECKING:
    from skitter.archive.index import Archive
    from skitter.model import Request, Response


@dataclass(frozen=True, slots=True)
class ArchiveFetcher:
    """Answers with the newest response that was kept. Raises NotArchived."""

    archive: Archive

    async def fetch(self, request: Request, **_: Any) -> Response:
        kept = self.archive.newest(request)
        if kept is None:
            raise NotArchived(request.url)
        return self.archive.read(kept)
