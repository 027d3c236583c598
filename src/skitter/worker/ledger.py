"""The worker's copy of what the fleet knows about routes, and what it has yet to report."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

import msgspec

from skitter.engine.pulse import cancel_all
from skitter.errors import SkitterError
from skitter.fetch.bandit import Arms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from skitter.frontier.routes import FleetRoutes, Known, Settled

MAX_DOMAINS: Final = 10_000
#: How old the copy of a domain may get while no request there is settled.
FRESH_S: Final = 5.0
BATCH: Final = 100
#: How long results wait for a batch; those that hold a place others may need do not wait.
LINGER_S: Final = 0.5
ASK_MS: Final = 1000.0
LONGEST_PAUSE_S: Final = 5.0


@dataclass(slots=True)
class Ledger:
    """Use it as `async with`: it reports to the fleet in batches how requests went."""

    fleet: FleetRoutes
    log: Callable[[str, str], None]  # level, text
    routes: Collection[str] = ()  # ours; others are not logged
    _arms: dict[str, tuple[Arms, float]] = field(default_factory=dict)  # by domain, with time read
    _rests: dict[str, float] = field(default_factory=dict)  # until when, in the server's ms
    _ahead_ms: float = 0.0  # how far the server's clock is ahead of ours
    _waiting: list[Settled] = field(default_factory=list)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _some: asyncio.Event = field(default_factory=asyncio.Event)
    _hurry: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._task:
            await cancel_all([self._task])
        with suppress(SkitterError):
            await self._flush()

    @property
    def now_ms(self) -> float:
        """The server's clock."""
        return 1000 * time.monotonic() + self._ahead_ms

    def rests_s(self, route: str) -> float:
        """How long the route rests because its proxy does not work; 0: it is usable."""
        return max(0.0, self.rests_until(route) - self.now_ms) / 1000

    def rests_until(self, route: str) -> float:
        """In the server's ms."""
        return self._rests.get(route, 0.0)

    async def known(self, domain: str) -> Arms:
        """How routes did at a domain; while the server is away, as far as we know."""
        if not self._is_fresh(domain):
            async with self._asking:  # concurrent callers share one answer
                if not self._is_fresh(domain):
                    with suppress(SkitterError):
                        self._take_in(await self.fleet.settle(domain=domain))
        return self._arms.setdefault(domain, (Arms(), time.monotonic()))[0]

    def _is_fresh(self, domain: str) -> bool:
        _, read_at = self._arms.get(domain, (None, -FRESH_S))
        return time.monotonic() - read_at < FRESH_S

    def add(self, settled: Settled) -> None:
        """Count it here at once, and in the fleet soon."""
        self._learn(settled)
        self._waiting.append(settled)
        self._some.set()
        if settled.verdict == "fault":  # until the fleet says whether it rests
            self._rests[settled.route] = max(self.rests_until(settled.route), self.now_ms + ASK_MS)
        if settled.place or settled.verdict == "fault" or len(self._waiting) >= BATCH:
            self._hurry.set()

    def _learn(self, settled: Settled) -> None:
        if settled.verdict in ("good", "ban") and settled.domain in self._arms:
            self._arms[settled.domain][0].learn(
                settled.route,
                is_good=settled.verdict == "good",
                seconds=settled.seconds,
                mb=settled.cost.bytes / 2**20,
                now_ms=self.now_ms,
            )

    async def _run(self) -> None:
        pause_s = LINGER_S
        while True:
            await self._some.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._hurry.wait()
            try:
                await self._flush()
                pause_s = LINGER_S
            except SkitterError as error:
                if pause_s == LINGER_S:
                    self.log("warning", f"cannot report routes to the fleet: {error}")
                pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)
                self._hurry.clear()

    async def _flush(self) -> None:
        while batch := self._waiting[:BATCH]:
            known = await self.fleet.settle(batch)
            del self._waiting[: len(batch)]
            self._take_in(known)
        self._some.clear()
        self._hurry.clear()

    def _take_in(self, known: Known) -> None:
        """Replace our numbers by the fleet's, plus what we have not sent yet."""
        self._ahead_ms = known.now_ms - 1000 * time.monotonic()
        for domain, packed in known.domains.items():
            while len(self._arms) >= MAX_DOMAINS:
                del self._arms[next(iter(self._arms))]
            self._arms[domain] = _open(packed), time.monotonic()
        for settled in self._waiting:
            if settled.domain in known.domains:
                self._learn(settled)
        for route, counts in known.routes.items():
            self._note_rest(route, counts.get("rests", 0.0))

    def _note_rest(self, route: str, until_ms: float) -> None:
        if route in self.routes and until_ms > max(self.now_ms, self.rests_until(route)):
            rest_s = (until_ms - self.now_ms) / 1000
            self.log("error", f"proxy {route} does not work: it is paused for {rest_s:.0f} s")
        self._rests[route] = until_ms


def _open(packed: bytes) -> Arms:
    """Anybody may have written it: if it cannot be decoded, nothing is known."""
    try:
        return msgspec.msgpack.decode(packed, type=Arms)
    except ValueError:  # msgspec's errors are ValueErrors
        return Arms()
