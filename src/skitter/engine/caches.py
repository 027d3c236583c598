"""What a worker remembers of what the fleet shares: robots.txt, sessions."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skitter.domains import host_of, registrable_domain
from skitter.engine.verdict import Bury, Retry
from skitter.errors import NAMES_AWAY, NOT_FOUND, ServerFull
from skitter.fetch.robots import LOST_AFTER_S, TROUBLE_S, RobotsRules, fetch_robots, open_rules
from skitter.fetch.session import ROUTE, Session
from skitter.frontier.control import set_host
from skitter.frontier.sites.learned import KEEP_S, ask_robots, store_robots
from skitter.frontier.sites.sessions import Opened, Wanted, open_sessions
from skitter.settings import SessionPool

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from skitter.fetch.http.fetcher import Fetcher, Leave
    from skitter.fetch.http.guard import Guard
    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease, Request, Response


MAX_HOSTS: Final = 10_000
POLL_S: Final = 0.1
LONGEST_DELAY_S: Final = 3600.0
#: How long pages wait while robots.txt is answered with errors.
PATIENCE_S: Final = 3600.0
#: A host that did not answer at all is asked again soon, as its pages are retried soon too.
NO_ANSWER_S: Final = 5.0
#: A file of 500 KiB can take 2 s to parse and 0.3 s per URL: large ones are read in a thread, and
#: the links of a page are checked for no more than 60 ms.
LARGE_BYTES: Final = 8 * 1024
LINKS_TIMES_BYTES: Final = 100_000_000
#: Without the line: finding it takes time that other hosts would wait for.
DISALLOWED: Final = "robots.txt disallows it (`skitter why` with its URL shows the line)"


@dataclass(slots=True)
class RobotsCache:
    """The rules of the hosts this worker visits: fetched once per host for the whole fleet, and
    cached here for a while."""

    frontier: Frontier | None  # None: nobody to share them with
    fetcher: Fetcher
    guard: Guard
    user_agent: str
    log: Callable[[str, str], None] = lambda level, text: None  # level, text
    is_obeyed: bool = True
    _known: dict[str, tuple[RobotsRules, float]] = field(default_factory=dict)
    _asking: dict[str, asyncio.Task[RobotsRules]] = field(default_factory=dict)

    def known(self, host: str) -> RobotsRules | None:
        """The rules, if they are cached."""
        entry = self._known.get(host)
        return entry[0] if entry and entry[1] > time.monotonic() else None

    async def rules(self, url: str, host: str, *, leave: Leave | None = None) -> RobotsRules:
        """The rules of a URL's host. Concurrent callers share one answer.

        `leave`: the gate for the request to robots.txt, if we send it: it counts as a request.
        Raises AddressRefused if the URL itself may not be dialled.
        """
        if rules := self.known(host):
            return rules
        self.guard.check_url(url)  # bury it rather than wait for robots.txt
        task = self._asking.get(host)
        if task is None:
            task = asyncio.create_task(self._ask(url, host, leave))
            self._asking[host] = task
            task.add_done_callback(lambda _: self._asking.pop(host, None))
        return await asyncio.shield(task)

    async def may_fetch(self, rules: RobotsRules, url: str) -> bool:
        if len(rules.body) <= LARGE_BYTES:
            return rules.allows(url, self.user_agent)
        return await asyncio.to_thread(rules.allows, url, self.user_agent)

    def delay_s(self, rules: RobotsRules) -> float:
        """The delay it asks for, if longer than the job's. Fast once `may_fetch` has parsed it."""
        delay_s = min(self._wanted_s(rules), LONGEST_DELAY_S)
        usual_s = self.frontier.options.politeness.delay_s if self.frontier else 0.0
        return delay_s if delay_s > usual_s else 0.0

    def _wanted_s(self, rules: RobotsRules) -> float:
        return rules.crawl_delay_s(self.user_agent) or 0.0

    def split(self, links: list[Request]) -> tuple[list[Request], list[Request]]:
        """Links that may be fetched, by cached rules that are quick to check; and the others."""
        work = 0
        allowed: list[Request] = []
        disallowed: list[Request] = []
        for link in links:
            rules = self.known(host_of(link.url))
            work += len(rules.body) if rules else 0
            if rules is None or work > LINKS_TIMES_BYTES or rules.allows(link.url, self.user_agent):
                allowed.append(link)
            else:
                disallowed.append(link)
        return allowed, disallowed

    def verdict(self, rules: RobotsRules, url: str) -> Retry | Bury:
        """What becomes of a page that may not be fetched. If robots.txt is unavailable, the whole
        host rests until it is fetched again, so that its other pages do not use up their retries.
        After a while they are given up, or a crawl would wait for 30 days."""
        if rules.unreachable_since is None:
            return Bury(DISALLOWED)
        if rules.reason.startswith(NOT_FOUND):
            return Retry(rules.reason)
        why = rules.explain(url, self.user_agent)
        if not rules.status:
            return Retry(why)
        if rules.fetched_at - rules.unreachable_since >= PATIENCE_S:
            return Bury(f"{why} That has lasted for more than an hour: try again another day.")
        return Retry(why, after_s=rules.ttl_s, rest_s=rules.ttl_s)

    async def _ask(self, url: str, host: str, leave: Leave | None) -> RobotsRules:
        if self.frontier is None:
            rules = await self._fetch(url, None, leave)
            return self._remember(host, rules, _ttl_s(rules))
        return await self._ask_fleet(self.frontier, url, host, leave)

    async def _ask_fleet(
        self, frontier: Frontier, url: str, host: str, leave: Leave | None
    ) -> RobotsRules:
        while True:
            shared = await ask_robots(frontier, host)
            last = open_rules(shared.rules)
            if shared.is_known and last:
                return self._remember(host, last, shared.left_s)
            if shared.is_ours or shared.is_known:  # known, but unreadable
                rules = await self._fetch(url, last, leave)
                await self._share(frontier, host, rules, last)
                return self._remember(host, rules, _ttl_s(rules))
            await asyncio.sleep(POLL_S)  # somebody else is fetching it

    async def _fetch(
        self, url: str, before: RobotsRules | None, leave: Leave | None
    ) -> RobotsRules:
        return await fetch_robots(
            self.fetcher,
            self.guard,
            url,
            at=time.time(),
            unreachable_since=before.unreachable_since if before else None,
            leave=leave,
        )

    async def _share(
        self, frontier: Frontier, host: str, rules: RobotsRules, last: RobotsRules | None
    ) -> None:
        delay_s = await asyncio.to_thread(self.delay_s, rules)
        if delay_s or (last and await asyncio.to_thread(self.delay_s, last)):
            await set_host(frontier, host, crawl_delay_s=delay_s or None)
        if (wanted_s := self._wanted_s(rules)) > LONGEST_DELAY_S:
            self.log(
                "warning",
                f"{host}: robots.txt asks for {wanted_s:,.0f} s between requests; "
                f"{LONGEST_DELAY_S:,.0f} s is the longest delay allowed",
            )
        # Kept for longer: when the trouble began, or a delay that may end.
        keep_s = KEEP_S if delay_s or rules.unreachable_since is not None else 0.0
        with suppress(ServerFull):  # we have it, and others fetch it themselves
            await store_robots(frontier, host, rules.to_bytes(), ttl_s=_ttl_s(rules), keep_s=keep_s)

    def _remember(self, host: str, rules: RobotsRules, left_s: float) -> RobotsRules:
        while len(self._known) >= MAX_HOSTS:
            self._known.pop(next(iter(self._known)))
        self._known[host] = rules, time.monotonic() + left_s
        return rules


def _ttl_s(rules: RobotsRules) -> float:
    """An answer's own TTL; after silence, ask again when it has lasted twice as long."""
    if rules.reason == NAMES_AWAY:  # no fault of the host's
        return NO_ANSWER_S
    lasted_s = rules.fetched_at - (rules.unreachable_since or rules.fetched_at)
    if rules.status or lasted_s >= LOST_AFTER_S:
        return rules.ttl_s
    return min(TROUBLE_S, max(NO_ANSWER_S, lasted_s))


MAX_KNOWN: Final = 10_000


@dataclass(slots=True)
class SessionStore:
    """Opens sessions, with one call per shard, and remembers what the server said last.

    No call at all until a site sets a cookie or somebody asks for a session.
    """

    frontier: Frontier | None  # None: nobody to share them with
    options: SessionPool = field(default_factory=SessionPool)
    #: Sites with a log-in have a session from the first request on.
    sites: Collection[str] = ()
    _known: OrderedDict[str, Opened] = field(default_factory=OrderedDict)
    _own: dict[str, Session] = field(default_factory=dict)  # without a frontier
    _waiting: list[Wanted] = field(default_factory=list)
    _opening: asyncio.Task[list[Opened]] | None = None

    async def open(self, lease: Lease) -> Session | None:
        """The session of a request; None: it has none, and needs none until a cookie comes."""
        if not self.options.cookies:
            return None
        if self.frontier is None:
            return self.begin(lease)
        request = lease.request
        if not (self._makes(request) or self.frontier.has_sessions(lease.host)):
            return None
        name = name_of(request)
        opened = await self._ask(
            Wanted(lease.host, name, self._makes(request), self._version(name))
        )
        if not opened.number:
            return None
        return self._remember(name, opened)

    def begin(self, lease: Lease) -> Session:
        """An empty session, for the first cookie of a site."""
        name = name_of(lease.request)
        return Session(name) if self.frontier else self._own.setdefault(name, Session(name))

    def take(
        self, session: Session | None, lease: Lease, response: Response, *, now: float
    ) -> Session | None:
        """Keep the cookies of a response."""
        names = [name for name, _ in response.headers]
        if "set-cookie" not in names or not self.options.cookies:
            return session
        session = session or self.begin(lease)
        if not session.route and (route := ROUTE.get()):
            session.go_by(route)
        session.take(response, now=now)
        return session

    def forget(self, name: str) -> None:
        """The session changed: drop our copy."""
        self._known.pop(name, None)

    def _makes(self, request: Request) -> bool:
        if request.session or self.options.size > 1:
            return True
        return bool(self.sites) and site_of(request) in self.sites

    def _version(self, name: str) -> str:
        known = self._known.get(name)
        return f"{known.number} {known.version}" if known else ""

    def _remember(self, name: str, opened: Opened) -> Session:
        known = self._known.get(name)
        if known and not opened.fields and known[:2] == opened[:2]:
            opened = known._replace(errors=opened.errors)
        self._known[name] = opened
        self._known.move_to_end(name)
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return Session.of(name, opened.number, opened.errors, opened.fields)

    async def _ask(self, wanted: Wanted) -> Opened:
        """Callers in the same turn of the event loop share a call."""
        number = len(self._waiting)
        self._waiting.append(wanted)
        if self._opening is None:
            self._opening = asyncio.create_task(self._open_all())
        return (await asyncio.shield(self._opening))[number]

    async def _open_all(self) -> list[Opened]:
        await asyncio.sleep(0)
        wanted, self._waiting, self._opening = self._waiting, [], None
        assert self.frontier is not None
        return await open_sessions(self.frontier, wanted, self.options)


def name_of(request: Request) -> str:
    """The name of its pool: the site, and the session that the request names."""
    return f"{site_of(request)}/{request.session}"


def site_of(request: Request) -> str:
    """The registrable domain of a URL in the form that `identify` gives it."""
    return registrable_domain(request.url.split("/", 3)[2])
