"""Whether a page may be fetched: by the patterns of the job, and by robots.txt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from skitter.domains import host_of
from skitter.engine.departures import PATIENCE_AFTER_ROBOTS_S, TooEarly
from skitter.engine.leases import exclude
from skitter.engine.stages.stage import Stage
from skitter.engine.visit import Buried
from skitter.errors import NAMES_AWAY, NamesUnavailable

if TYPE_CHECKING:
    from skitter.engine.parts import Parts
    from skitter.engine.visit import Outcome, Visit


class Excluded(Stage):
    """Sets pages aside that the job's patterns exclude by now."""

    async def before(self, visit: Visit) -> Outcome | None:
        limits = self.parts.limits()
        if not (limits.exclude or limits.include):
            return None
        excluded = exclude(visit.lease, limits)
        return Buried(excluded) if excluded else None

    def tell(self, visit: Visit) -> str:
        excluded = exclude(visit.lease, self.parts.limits())
        return excluded.error if excluded else "no pattern excludes it"


class Robots(Stage):
    """Asks robots.txt, which is fetched once per host for the whole fleet."""

    needs = "--obey-robots"

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        return cls(parts) if parts.robots.is_obeyed else None

    async def before(self, visit: Visit) -> Outcome | None:
        lease, cache = visit.lease, self.parts.robots
        host = host_of(lease.url)  # not the lease's, which may stand for several
        was_known = rules = cache.known(host)
        if rules is None:
            rules = await cache.rules(lease.url, host, leave=visit.leave)
            visit.arrive("/robots.txt")
        if rules.reason == NAMES_AWAY:
            raise NamesUnavailable(lease.url)
        if not await cache.may_fetch(rules, lease.url):
            self.parts.figures.count("fetch.robots")
            return visit.ended(cache.verdict(rules, lease.url))
        if not was_known and lease.pace is None and cache.delay_s(rules):
            self._give_back(visit)
        if visit.gate and visit.gate.was_used:
            visit.gate.patience_s = PATIENCE_AFTER_ROBOTS_S
        visit.by_robots = rules.usage(lease.url, cache.user_agent)
        return None

    def _give_back(self, visit: Visit) -> None:
        """It got its turn before the delay of its host was known."""
        if departures := self.parts.departures:
            departures.note_now(visit.lease)
            raise TooEarly

    def tell(self, visit: Visit) -> str:
        url, cache = visit.lease.url, self.parts.robots
        rules = cache.known(host_of(url))
        said = rules.explain(url, cache.user_agent) if rules else "not known"
        return said.removeprefix("robots.txt: ").removesuffix(".")
