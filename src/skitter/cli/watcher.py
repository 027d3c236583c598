"""What `top` looks at, every second: the server is asked for what is new, and not for all again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from skitter.cli.display import Look
from skitter.errors import SkitterError
from skitter.frontier.admin.eta import Bound, slowest_host
from skitter.frontier.admin.jobs import list_jobs, open_job
from skitter.frontier.admin.log import Event, read_log
from skitter.frontier.admin.workers import live_workers
from skitter.frontier.connection import Server
from skitter.frontier.frontier import Frontier
from skitter.frontier.wire import side_by_side

#: The rate is that of the last seconds: a polite crawl does a page now and then.
WINDOW_S = 10.0
#: Looking for the slowest host takes a while when there are many.
BOUND_EVERY_S = 5.0
EVENTS_SHOWN = 100
EVENTS_SINCE_S = 3600.0
LOG_PAGE = 1000


@dataclass(slots=True)
class Watcher:
    """Looks at one job or all, and remembers what it saw in the last seconds."""

    server: Server
    job: str | None
    _looks: dict[str, deque[Look]] = field(default_factory=dict)
    _events: dict[str, tuple[str, deque[Event]]] = field(default_factory=dict)
    _bounds: dict[str, tuple[float, Bound | None]] = field(default_factory=dict)

    @property
    def before(self) -> dict[str, Look]:
        """The oldest look at each job that still counts."""
        return {job: looks[0] for job, looks in self._looks.items()}

    async def look(self) -> list[Look]:
        jobs = [self.job] if self.job else await list_jobs(self.server)
        found = await side_by_side(map(self._look_at, jobs))
        looks = [look for look in found if look]
        self._looks = {look.job: self._remembered(look) for look in looks}
        return looks

    def _remembered(self, look: Look) -> deque[Look]:
        looks = self._looks.get(look.job, deque())
        looks.append(look)
        while looks[0].at < look.at - WINDOW_S:
            looks.popleft()
        return looks

    async def _look_at(self, job: str) -> Look | None:
        try:
            return await self._look(await open_job(self.server, job))
        except (
            SkitterError
        ) as error:  # damaged, half purged or gone by now: show the others all the same
            if self.job or error.retryable:
                raise
            return None

    async def _look(self, frontier: Frontier) -> Look:
        stats = await frontier.stats()
        now = await frontier.server_time()
        return Look(
            at=now,
            stats=stats,
            crew=await live_workers(frontier),
            events=await self._read_events(frontier, now),
            bound=None if stats.finished else await self._bound(frontier, now),
        )

    async def _read_events(self, frontier: Frontier, now: float) -> list[Event]:
        first = f"{int((now - EVENTS_SINCE_S) * 1000)}-0"
        last, events = self._events.get(frontier.job, (first, deque(maxlen=EVENTS_SHOWN)))
        while page := await read_log(frontier, last, LOG_PAGE):
            events.extend(page)
            last = page[-1].id
        self._events[frontier.job] = last, events
        return list(events)

    async def _bound(self, frontier: Frontier, now: float) -> Bound | None:
        looked_at, bound = self._bounds.get(frontier.job, (0.0, None))
        if now - looked_at > BOUND_EVERY_S:
            bound = await slowest_host(frontier)
            self._bounds[frontier.job] = now, bound
        return bound
