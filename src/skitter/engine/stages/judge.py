from __future__ import annotations

import time
from typing import TYPE_CHECKING

from skitter.engine.stages.stage import Stage
from skitter.engine.verdict import Bury, Follow, Handle, Retry, Skip, judge_response
from skitter.page import Page

if TYPE_CHECKING:
    from skitter.engine.outcomes import Outcome
    from skitter.engine.verdict import Verdict
    from skitter.engine.visit import Visit
    from skitter.model import Response


class Judge(Stage):
    """Decides what becomes of a response, by status, headers and the marks of block pages."""

    async def judge(self, visit: Visit, response: Response) -> Verdict:
        verdict = judge_response(visit.request, response, self.parts.policy, now=time.time())
        await visit.note_response(response, verdict)
        return verdict

    async def judged(self, visit: Visit, verdict: Verdict) -> Outcome | None:
        if isinstance(verdict, Handle):
            assert visit.response is not None
            visit.page = Page(visit.request, visit.response)
            return None
        if isinstance(verdict, Skip):
            return visit.completed(skipped=verdict.reason)
        return visit.ended(verdict) if isinstance(verdict, Retry | Bury) else None

    def tell(self, visit: Visit) -> str:
        verdict = visit.verdict
        if isinstance(verdict, Handle):
            return "a page to handle"
        if isinstance(verdict, Follow):
            return f"a redirect to {verdict.url}"
        return verdict.reason if verdict else ""
