"""The names under which processes call the server."""

from __future__ import annotations

import os
import secrets
import socket

#: Where a supervisor tells its child the mark of its name, so as to know what a dead one held.
MARK = "SKITTER_MARK"


def client_name(*, pid: int | None = None, mark: str | None = None) -> str:
    """Names a client for people (host and process) and for the server (unique for ever)."""
    host = "".join(c for c in socket.gethostname() if c.isalnum() or c == "-")[:30]
    return f"{host}-{pid or os.getpid()}-{mark or new_mark()}"


def new_mark() -> str:
    return secrets.token_hex(4)
