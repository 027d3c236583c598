"""What happens with failed attempts: the user's hooks are called, and some pages are kept."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from skitter.archive.masking import described, kept_headers, without_user
from skitter.engine.stages.stage import Stage
from skitter.engine.visit import Buried, Cause, Completed, Retried
from skitter.errors import FetchError, NoPage
from skitter.frontier.records.failed import MAX_BODY_BYTES, FailedPage
from skitter.redact import redact_headers, redact_text
from skitter.spider.hooks import run_error_hooks
from skitter.spider.run import HandlerError
from skitter.spider.source import full_trace, trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.engine.parts import Parts
    from skitter.engine.visit import Outcome, Visit
    from skitter.errors import SkitterError
    from skitter.model import Lease, Response


LONGEST_TRACE: Final = 20_000


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


class Failed(Stage):
    """Keeps the first pages of each failure: handler error, rejected item, block page, quality."""

    needs = "a job"

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        return cls(parts) if parts.frontier and parts.config.archive.failed_pages else None

    async def ended(self, visit: Visit, outcome: Outcome) -> None:
        reason, lease, response = _reason(visit, outcome), visit.lease, visit.response
        if response is None:
            return
        if reason and self.parts.failed.wants(reason):
            self.parts.failed.add(_page(lease, response, visit.error, reason))
        elif not reason and visit.output and isinstance(outcome, Completed):
            name = lease.request.handler or self.parts.spider.default or ""
            # Not the visit: its tree takes ten times the memory of the page.
            make = partial(_page, lease, response, None)
            self.parts.failed.recent.append((name, visit.output.items, make))


def _reason(visit: Visit, outcome: Outcome) -> str:
    """Empty: nothing of the page has failed."""
    is_blocked = isinstance(outcome, Retried) and outcome.blocked
    if isinstance(outcome, Retried | Buried) and (is_blocked or _is_of_handler(visit)):
        return outcome.failure.error
    if isinstance(outcome, Completed) and visit.output and visit.output.rejected:
        return f"rejected: {visit.output.rejected[0].why}"
    return ""


def _is_of_handler(visit: Visit) -> bool:
    return isinstance(visit.error, HandlerError)


def _page(lease: Lease, response: Response, error: SkitterError | None, reason: str) -> FailedPage:
    trace = full_trace(error.__cause__ or error) if error else []
    return FailedPage(
        fingerprint=lease.fingerprint,
        url=without_user(lease.url),
        reason=redact_text(reason)[:2000],
        at=time.time(),
        status=response.status,
        headers=list(redact_headers(dict(kept_headers(response.headers))).items()),
        body=response.body[:MAX_BODY_BYTES],
        is_cut=len(response.body) > MAX_BODY_BYTES,
        traceback=redact_text("\n".join(trace)[-LONGEST_TRACE:]),
        screenshot=response.screenshot,
        request=described(lease.request, lease.fingerprint),
    )
