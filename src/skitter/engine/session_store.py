"""The sessions of a worker, opened in batches: one call per shard.

No call at all until a site sets a cookie or somebody asks for a session.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skitter.domains import registrable_domain
from skitter.fetch.session import ROUTE, Session
from skitter.frontier.sessions import Opened, Wanted, open_sessions
from skitter.settings import SessionPool

if TYPE_CHECKING:
    from collections.abc import Collection

    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease, Request, Response

MAX_KNOWN: Final = 10_000


@dataclass(slots=True)
class SessionStore:
    """Opens them, and remembers what the server said last."""

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
