"""One attempt at a request: its stages, one after the other, until there is an outcome."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from skitter.engine.departures import TooEarly
from skitter.engine.stages import bind
from skitter.engine.verdict import Retry, judge_error
from skitter.engine.visit import AGAIN, OUTCOMES, Returned, Visit
from skitter.errors import (
    NAMES_AWAY,
    FetchError,
    NamesUnavailable,
    NoRoomForFiles,
    NotArchived,
    ServerRefused,
    ServerUnreachable,
    SkitterError,
    SpiderError,
)
from skitter.spider.hooks import run_hooks
from skitter.spider.source import trace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from skitter.engine.parts import Parts
    from skitter.engine.visit import Outcome
    from skitter.model import Lease

    Hook = Callable[..., Awaitable[Any]]

SAY_EVERY_S = 60.0


class Attempts:
    """Makes attempts. The hooks of the stages are looked up once, here."""

    def __init__(self, parts: Parts, stages: Sequence[object] | None = None) -> None:
        self.parts, self.spider = parts, parts.spider
        self.stages = stages = bind(parts) if stages is None else stages
        self._admit, self._before = _hooks(stages, "admit"), _hooks(stages, "before")
        [self._fetch], self._answered = _hooks(stages, "fetch"), _hooks(stages, "answered")
        [self._judge], self._judged = _hooks(stages, "judge"), _hooks(stages, "judged")
        [self._handle], self._handled = _hooks(stages, "handle"), _hooks(stages, "handled")
        self._ended = _hooks(stages, "ended")
        self._gate = parts.departures.gate if parts.departures else lambda lease: None
        self._said_at = -SAY_EVERY_S

    async def begin(self) -> None:
        """Run the spider's on_start hooks. Raises SpiderError."""
        try:
            await run_hooks(self.spider.hooks.start)
        except Exception as error:
            raise SpiderError(f"an on_start hook failed: {trace(error)}") from error

    async def admit(self, leases: list[Lease]) -> list[Lease]:
        """The leases to make attempts at."""
        for admit in self._admit:
            leases = await admit(leases)
        return leases

    async def make(self, lease: Lease) -> Outcome:
        """Fetch and handle one request. Raises nothing but cancellation."""
        visit = Visit(lease, self._gate(lease))
        try:
            outcome: Outcome = await self._go(visit)
        except Exception as error:
            outcome = self._end(visit, error)
        finally:
            if visit.gate:
                await visit.close(lease.url)
        for ended in self._ended:
            try:
                outcome = await ended(visit, outcome) or outcome
            except Exception as error:
                outcome = self._end(visit, error)
        if not isinstance(outcome, OUTCOMES):  # or the page would silently wait for its lease's end
            outcome = self._end(visit, TypeError(f"a stage returned {outcome!r}"))
        return outcome

    async def _go(self, visit: Visit) -> Any:
        """The outcome."""
        for before in self._before:
            if outcome := await before(visit):
                return outcome
            if visit.kept:  # what follows prepares a request
                break
        while (outcome := await self._ask(visit)) is AGAIN:
            pass
        if outcome is not None:
            return outcome
        output = await self._handle(visit)
        for handled in self._handled:
            if outcome := await handled(visit, output):
                return outcome
        return visit.completed(output, items=output.items, links=visit.links, again=visit.again)

    async def _ask(self, visit: Visit) -> Any:
        """Send the visit's request: an outcome, AGAIN, or None if there is a page to handle."""
        response = await self._fetch(visit)
        for answered in self._answered:
            if outcome := await answered(visit, response):
                return outcome
        verdict = await self._judge(visit, response)
        for judged in self._judged:
            if outcome := await judged(visit, verdict):
                return outcome
        return None

    def _end(self, visit: Visit, error: Exception) -> Outcome:
        """The outcome of an exception: the row of its nearest class."""
        return next(ENDS[kind] for kind in type(error).__mro__ if kind in ENDS)(self, visit, error)

    def _returned(self, visit: Visit, error: Exception) -> Outcome:
        """It is not the page's fault: too early, or our server is away."""
        return Returned(visit.lease)

    def _waits(self, visit: Visit, error: Exception) -> Outcome:
        if time.monotonic() - self._said_at > SAY_EVERY_S:  # each page comes here
            self._said_at, is_name = time.monotonic(), isinstance(error, NamesUnavailable)
            waits = f"{NAMES_AWAY}: pages wait until it does"
            self.parts.log("warning", waits if is_name else str(error))
        return Returned(visit.lease, waits=True)

    def _skipped(self, visit: Visit, error: FetchError) -> Outcome:
        return visit.completed(skipped=error.reason)

    def _failed(self, visit: Visit, error: SkitterError) -> Outcome:
        visit.error, attempt = error, visit.lease.attempt
        return visit.ended(judge_error(error, attempt=attempt, policy=self.parts.policy))

    def _broken(self, visit: Visit, error: Exception) -> Outcome:
        """A bug of ours, met by a strange page: only that page fails."""
        self.parts.log("error", f"internal error on {visit.lease.url}: {error!r}")
        return visit.ended(Retry(f"internal error: {error!r}"))


#: How an exception ends a visit. Other classes end it like the nearest of their base classes.
ENDS: dict[type[BaseException], Callable[[Attempts, Visit, Any], Outcome]] = {
    TooEarly: Attempts._returned,
    ServerUnreachable: Attempts._returned,
    ServerRefused: Attempts._returned,
    NamesUnavailable: Attempts._waits,
    NoRoomForFiles: Attempts._waits,
    NotArchived: Attempts._skipped,
    SkitterError: Attempts._failed,
    Exception: Attempts._broken,
}


def _hooks(stages: Sequence[object], name: str) -> tuple[Hook, ...]:
    return tuple(getattr(stage, name) for stage in stages if hasattr(stage, name))
