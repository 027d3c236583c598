from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from skitter.engine.outcomes import Completed
from skitter.engine.stages.stage import Stage

if TYPE_CHECKING:
    from skitter.engine.outcomes import Outcome
    from skitter.engine.parts import Parts
    from skitter.engine.visit import Visit


class Archive(Stage):
    """Keeps the response that the handler saw: on disk before the page is completed."""

    needs = "--archive"

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        return cls(parts) if parts.archive else None

    async def ended(self, visit: Visit, outcome: Outcome) -> None:
        from skitter.archive.record import Record  # an extra

        archive = self.parts.archive
        if not (archive and isinstance(outcome, Completed) and visit.output and visit.response):
            return
        lease, took_s = visit.lease, visit.response.elapsed_s
        record = Record(
            lease.request, visit.response, time.time() - took_s, archive.job, lease.fingerprint
        )
        visit.feedback.archived = await archive.keep(record)

    def tell(self, visit: Visit) -> str:
        return "kept" if visit.feedback.archived else ""
