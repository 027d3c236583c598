"""What all calls share, for as long as the server runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skitter.watch import Watcher

if TYPE_CHECKING:
    from skitter.frontier.connection import Server


@dataclass(slots=True)
class Site:
    """The server of the frontier. Nothing is kept here that a restart must not lose."""

    server: Server
    allowed_hosts: frozenset[str] = frozenset()  # beside addresses and localhost
    watcher: Watcher = field(init=False)

    def __post_init__(self) -> None:
        self.watcher = Watcher(self.server)
