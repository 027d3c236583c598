"""Retrier: repeat what is away now and may soon be back, and report why."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import random
from typing import TYPE_CHECKING, Any, TypeVar

from skitter.errors import BadOption, SkitterError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoadState:
    """Whether rows are being stored, and if not, why."""

    ok: bool
    message: str


def ignore(*_: object) -> None:
    """The default hook: do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPace:
    """How much is written at once, and how an unavailable sink is retried."""

    batch: int = 500
    linger_s: float = 0.2  # how long the first row of a batch waits for others
    quiet_s: float = 0.03  # it waits no longer when no others come for this long
    idle_s: float = 1.0  # how long one read waits
    transform_s: float = 1.0  # then write what has been transformed so far
    retry_base_s: float = 0.1
    retry_cap_s: float = 15.0

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise BadOption("batch", self.batch, "at least 1")
        for name in ("linger_s", "quiet_s", "idle_s", "transform_s", "retry_base_s", "retry_cap_s"):
            if getattr(self, name) < 0:
                raise BadOption(name, getattr(self, name), "0 or more")

    def backoff_s(self, attempt: int, *, chance: float) -> float:
        """Between half of the exponential step and all of it."""
        step: float = min(self.retry_cap_s, self.retry_base_s * 2.0 ** min(attempt, 60))
        return step * (0.5 + chance / 2)


class Stopped(Exception):
    """Told to stop while waiting for something that is away."""


@dataclass(slots=True)
class Retrier:
    """`await retry(call, ...)`: repeat until it succeeds, or until told to stop."""

    stop: asyncio.Event
    pace: LoadPace = field(default_factory=LoadPace)
    on_state: Callable[[LoadState], None] = ignore
    what: str = "the database"
    _state: LoadState | None = None

    async def __call__(self, call: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Return the result. Raises Stopped, and errors that retrying will not cure."""
        attempt = 0
        while True:
            try:
                answer = await call(*args)
            except (SkitterError, OSError) as error:
                if isinstance(error, SkitterError) and not error.retryable:
                    raise
                self._report(LoadState(ok=False, message=f"{str(error).rstrip('.')}, trying again"))
                await self._wait(self.pace.backoff_s(attempt, chance=random()))
                attempt += 1
            else:
                if attempt:
                    self._report(LoadState(ok=True, message=f"{self.what}: working again"))
                return answer

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.stop.wait(), seconds)
        except TimeoutError:
            return
        raise Stopped

    def _report(self, state: LoadState) -> None:
        if state != self._state:
            self._state = state
            self.on_state(state)
