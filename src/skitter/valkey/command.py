"""One command to the server, over its socket: importing redis-py would take longer than most of
what `skitter` does with an embedded server."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import hiredis

if TYPE_CHECKING:
    from skitter.valkey.home import EmbeddedServer

REPLY_TIMEOUT_S = 1.0
READ_BYTES = 65_536


def send(server: EmbeddedServer, *words: str) -> Any:
    """Its reply. Raises ReplyError with the server's own words; TimeoutError if it is silent; any
    other OSError if nobody is there."""
    reader = hiredis.Reader()
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(REPLY_TIMEOUT_S)
        link.connect(str(server.socket))
        if server.password:
            _ask(link, reader, ("AUTH", server.password))
        return _ask(link, reader, words)


def info(server: EmbeddedServer, *sections: str) -> dict[str, str]:
    """What INFO says. Raises as `send` does."""
    lines = send(server, "INFO", *sections).decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _ask(link: socket.socket, reader: hiredis.Reader, words: tuple[str, ...]) -> Any:
    link.sendall(hiredis.pack_command(words))  # type: ignore[arg-type] # it takes more than one
    while (reply := reader.gets()) is False:  # not all of it has arrived
        if not (data := link.recv(READ_BYTES)):
            raise ConnectionResetError
        reader.feed(data)
    if isinstance(reply, hiredis.ReplyError):
        raise reply
    return reply
