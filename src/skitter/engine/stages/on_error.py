from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec

from skitter.engine.stages.stage import Stage
from skitter.engine.visit import Buried, Cause, Retried
from skitter.errors import FetchError, NoPage
from skitter.spider.hooks import run_error_hooks
from skitter.spider.source import trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.engine.parts import Parts
    from skitter.engine.visit import Outcome, Visit


class OnError(Stage):
    """Calls the spider's hooks for failed attempts."""

    needs = "a spider with error hooks"

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        hooks = parts.spider.hooks
        return cls(parts) if hooks.error or hooks.failed_attempt else None

    async def ended(self, visit: Visit, outcome: Outcome) -> Outcome | None:
        if not isinstance(outcome, Retried | Buried):
            return None
        outcome = msgspec.structs.replace(outcome, cause=_cause(visit, outcome))
        await self.call(self.parts.spider.hooks.failed_attempt, outcome)
        return outcome

    async def call(self, hooks: list[Callable[..., Any]], outcome: Retried | Buried) -> None:
        """A failing user hook must not cost the page its verdict."""
        cause, request = outcome.cause, outcome.failure.lease.request
        if cause is None:
            return
        try:
            await run_error_hooks(hooks, request, cause.error, cause.response)
        except Exception as failure:
            self.parts.log("error", f"an on_error hook failed: {trace(failure)}")


def _cause(visit: Visit, outcome: Retried | Buried) -> Cause:
    """The last response, unless a later request got none."""
    if visit.error is None:
        return Cause(NoPage(visit.lease.url, outcome.failure.error), visit.response)
    return Cause(visit.error, None if isinstance(visit.error, FetchError) else visit.response)
