from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

import msgspec

from skitter.engine.stages.stage import Stage
from skitter.engine.visit import Completed

if TYPE_CHECKING:
    from skitter.engine.parts import Parts
    from skitter.engine.visit import Outcome, Visit


class Archive(Stage):
    """Has the response that the handler saw kept: on disk before the page is completed."""

    needs = "--archive"

    def __init__(self, parts: Parts) -> None:
        from skitter.archive.record import Record  # an extra

        super().__init__(parts)
        assert parts.frontier is not None
        self.make, self.job = Record, parts.frontier.job

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        return cls(parts) if parts.config.archive.keep and parts.frontier else None

    async def ended(self, visit: Visit, outcome: Outcome) -> Outcome | None:
        lease, response = visit.lease, visit.response
        if not (isinstance(outcome, Completed) and visit.output and response):
            return None
        at = time.time() - response.elapsed_s
        record = self.make(lease.request, response, at, self.job, lease.fingerprint)
        return msgspec.structs.replace(outcome, record=record)
