"""What robots.txt allows: asked once per host for the whole fleet, remembered here for a while."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skitter.fetch.robots import RobotsRules, fetch_robots
from skitter.frontier.control import set_host
from skitter.frontier.robots import claim_robots, read_robots, store_robots
from skitter.worker.verdict import Bury, Retry

if TYPE_CHECKING:
    from skitter.fetch.client import Fetcher
    from skitter.fetch.guard import Guard
    from skitter.frontier.frontier import Frontier

MAX_HOSTS = 10_000
POLL_S = 0.1
#: A host that did not answer at all is asked again soon: its pages are tried again, too.
NO_ANSWER_S = 5.0
#: To find the line takes time that other hosts would wait for.
DISALLOWED = "robots.txt disallows it (`skitter fetch` with its URL shows the line)"


@dataclass(slots=True)
class RobotsBook:
    """The rules of the hosts that this worker meets."""

    frontier: Frontier
    fetcher: Fetcher
    guard: Guard
    user_agent: str
    _known: dict[str, tuple[RobotsRules, float]] = field(default_factory=dict)
    _asking: dict[str, asyncio.Task[RobotsRules]] = field(default_factory=dict)

    def known(self, host: str) -> RobotsRules | None:
        """The rules, if they are here; asks nobody."""
        entry = self._known.get(host)
        return entry[0] if entry and entry[1] > time.monotonic() else None

    async def rules(self, url: str, host: str) -> RobotsRules:
        """The rules of a URL's host. Many who ask at once wait for one answer."""
        if rules := self.known(host):
            return rules
        task = self._asking.get(host)
        if task is None:
            task = asyncio.create_task(self._ask(url, host))
            self._asking[host] = task
            task.add_done_callback(lambda _: self._asking.pop(host, None))
        return await asyncio.shield(task)

    def allows(self, rules: RobotsRules, url: str) -> bool:
        return rules.allows(url, self.user_agent)

    def verdict(self, rules: RobotsRules, url: str) -> Retry | Bury:
        """What becomes of a page that may not be fetched: in trouble, not for now."""
        if rules.unreachable_since is None:
            return Bury(DISALLOWED)
        after_s = rules.ttl_s if rules.status else None
        return Retry(rules.explain(url, self.user_agent), after_s=after_s)

    async def _ask(self, url: str, host: str) -> RobotsRules:
        while True:
            raw = await read_robots(self.frontier, host)
            if raw:
                return self._remember(host, RobotsRules.from_bytes(raw))
            if raw is None and await claim_robots(self.frontier, host):
                return self._remember(host, await self._fetch(url, host))
            await asyncio.sleep(POLL_S)  # somebody else is fetching it

    async def _fetch(self, url: str, host: str) -> RobotsRules:
        rules = await fetch_robots(self.fetcher, self.guard, url, at=time.time())
        delay_s = rules.crawl_delay_s(self.user_agent)
        if delay_s and delay_s > self.frontier.options.politeness.delay_s:
            await set_host(self.frontier, host, delay_s=min(delay_s, 3600.0))
        await store_robots(self.frontier, host, rules.to_bytes(), ttl_s=_ttl_s(rules))
        return rules

    def _remember(self, host: str, rules: RobotsRules) -> RobotsRules:
        while len(self._known) >= MAX_HOSTS:
            self._known.pop(next(iter(self._known)))
        self._known[host] = rules, time.monotonic() + _ttl_s(rules)
        return rules


def _ttl_s(rules: RobotsRules) -> float:
    return NO_ANSWER_S if rules.status == 0 else rules.ttl_s
