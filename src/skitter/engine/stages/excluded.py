from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.engine.leases import exclude
from skitter.engine.stages.stage import Stage
from skitter.engine.visit import Buried

if TYPE_CHECKING:
    from skitter.engine.visit import Outcome, Visit


class Excluded(Stage):
    """Sets pages aside that the job's patterns exclude by now."""

    async def before(self, visit: Visit) -> Outcome | None:
        excluded = exclude(visit.lease, self.parts.limits())
        return Buried(excluded) if excluded else None

    def tell(self, visit: Visit) -> str:
        excluded = exclude(visit.lease, self.parts.limits())
        return excluded.error if excluded else "no pattern excludes it"
