"""State shared by all calls while the server runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skitter.crawl.watch import Watcher
from skitter.server.answers import Answers
from skitter.server.channels import Charts, Hub
from skitter.server.keyring import Keyring, OwnToken, own_token, session_key
from skitter.server.presence import Presence, Pushes

if TYPE_CHECKING:
    from skitter.frontier.transport.connection import Server
    from skitter.settings import Settings


@dataclass(slots=True)
class Site:
    """Nothing in it needs to survive a restart."""

    server: Server
    keyring: Keyring
    allowed_hosts: frozenset[str] = frozenset()  # besides IP addresses and localhost
    is_tls: bool = False
    where: Settings | None = None  # for the Celery app; None: no tasks here
    celery: Any = None  # the Celery app, created for the first call about a task
    charts: Charts = field(default_factory=Charts)
    figures: tuple[float | None, str] = (None, "")  # of /metrics: when they were read, the text
    watcher: Watcher = field(init=False)
    presence: Presence = field(init=False)
    events: Hub = field(init=False)
    pushes: Pushes = field(init=False)
    answers: Answers = field(init=False)

    def __post_init__(self) -> None:
        self.watcher = Watcher(self.server, names_folders=False)
        self.presence = Presence(self.server)
        self.events = Hub(self.watcher, self.presence, self.server.directory)
        self.pushes = Pushes(self.server, self.presence)
        self.answers = Answers(self.server)

    def close(self) -> None:
        """Close the Celery app: it holds the embedded server, which would outlive us."""
        if self.celery is not None:
            from skitter.celery.runtime import runtime_of

            runtime_of(self.celery).close()


async def open_site(
    server: Server,
    where: Settings,
    *,
    allowed_hosts: frozenset[str] = frozenset(),
    is_tls: bool = False,
) -> tuple[Site, OwnToken]:
    """Return the site and the operator's own token, created if there is none."""
    own = await own_token(server)
    keyring = Keyring(server, session_key(server), owner=own.id)
    return Site(server, keyring, allowed_hosts, is_tls, where), own
