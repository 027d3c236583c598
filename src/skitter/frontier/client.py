"""The names that processes use on the server, and how often they connected."""

from __future__ import annotations

import os
import socket
from functools import cache

import msgspec

#: Passes the mark of its name to a child, so that the supervisor knows what a dead one held.
MARK = "SKITTER_MARK"


@cache
def process_id() -> int:
    """As os.getpid, which asks the system every time: that takes as long as checking a URL."""
    return os.getpid()


os.register_at_fork(after_in_child=process_id.cache_clear)


def client_name(*, pid: int | None = None, mark: str | None = None) -> str:
    """A name that is readable for people (host and process) and never used again (mark)."""
    return f"{name_of_host(socket.gethostname())}-{pid or os.getpid()}-{mark or new_mark()}"


def name_of_host(host: str) -> str:
    """The host in the names of its processes."""
    return "".join(c for c in host if c.isalnum() or c == "-")[:30]


def new_mark() -> str:
    return os.urandom(4).hex()


class ConnectionCount(msgspec.Struct):
    """Counts the connections made. redis-py reconnects silently, and a new connection may lead to a
    server that has restarted and lost data."""

    made: int = 0
