"""A blocking connection without redis-py, and commands and replies as bytes.

Commands and script calls as bytes.

Replies to plain reads, as redis-py returns them.

Only commands that a short read of a job sends: redis-py knows all others.

One blocking connection by TCP or a Unix socket, read by hiredis, without redis-py.
"""

from __future__ import annotations

import socket
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import hiredis

from skitter.frontier.transport import redis_errors
from skitter.frontier.transport.endpoints import check_database

if TYPE_CHECKING:
    from collections.abc import Callable


def pack(words: tuple[Any, ...]) -> bytes:
    """Pack a command, whose name may be of two words: CONFIG GET."""
    name = words[0].split() if isinstance(words[0], str) else (words[0],)
    packed: bytes = hiredis.pack_command((*name, *words[1:]))
    return packed


def pack_script(words: tuple[Any, ...]) -> bytes:
    """Pack `EVALSHA sha n keys... arguments...`. Up to the arguments it is the same at every call
    of a script on a shard, and most of the work."""
    fixed = 3 + words[2]
    return b"*%d\r\n%b%b" % (len(words), _packed_head(words[:fixed]), _packed(words[fixed:]))


@lru_cache(maxsize=1024)
def _packed_head(words: tuple[Any, ...]) -> bytes:
    return _packed(words)


def _packed(words: tuple[Any, ...]) -> bytes:
    """The words without their number, which hiredis puts in front."""
    packed: bytes = hiredis.pack_command(words)
    return packed[packed.index(b"\n") + 1 :]


def _as_sent(reply: Any) -> Any:
    return reply


def _pairs(reply: list[Any]) -> dict[Any, Any]:
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _texts(reply: list[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in _pairs(reply).items()}


def _info(reply: bytes) -> dict[str, int | str]:
    """`name:value` a line, with numbers where they are whole."""
    lines = (line.partition(":") for line in reply.decode("utf-8", "replace").splitlines())
    return {
        name: int(value) if value.isdecimal() else value for name, colon, value in lines if colon
    }


READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("EXISTS", "GET", "HGET", "HKEYS", "HLEN", "HMGET", "LLEN", "LRANGE", "ZRANGE"), _as_sent
    ),
    "CONFIG GET": _texts,
    "HGETALL": _pairs,
    "HSCAN": lambda reply: (int(reply[0]), _pairs(reply[1])),
    "INFO": _info,
    "TIME": lambda reply: (int(reply[0]), int(reply[1])),
}


NOT_ENOUGH_DATA = object()
READ_BYTES = 65_536


class PlainAddress(NamedTuple):
    """What a URL says, if it needs neither TLS, nor a lookup of nodes, nor options of redis-py."""

    host: str
    port: int
    path: str  # of a Unix socket; empty: TCP
    login: tuple[str, ...]  # the arguments of AUTH
    database: int


def plain_address(url: str, password: str | None) -> PlainAddress | None:
    """None: only redis-py can connect there. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "unix") or "?" in url or "#" in url:
        return None
    check_database(url)
    user, secret = unquote(parts.username or ""), unquote(parts.password or "") or password
    login = (user, secret or "") if user else (secret,) if secret else ()
    if parts.scheme == "unix":
        return PlainAddress("", 0, unquote(parts.path), login, 0)
    database = int(parts.path.strip("/") or 0)
    return PlainAddress(
        unquote(parts.hostname or "localhost"), parts.port or 6379, "", login, database
    )


class PlainConnection:
    """Those parts of redis-py's connections that `SyncClient` uses, with the same errors."""

    def __init__(self, address: PlainAddress, *, connect_s: float, reply_s: float) -> None:
        self._address, self._connect_s, self._reply_s = address, connect_s, reply_s
        self._socket: socket.socket | None = None
        self._replies = _reader()

    @property
    def is_connected(self) -> bool:
        return self._socket is not None

    def connect(self) -> None:
        try:
            self._socket = self._open()
        except TimeoutError:
            raise redis_errors.TimeoutError("Timeout connecting to server") from None
        except (OSError, UnicodeError) as error:  # UnicodeError: not a host name
            said = getattr(error, "strerror", None) or str(error)
            raise redis_errors.ConnectionError(said) from error
        self._replies = _reader()
        try:
            if self._address.login:
                self._ask("AUTH", *self._address.login)
            if self._address.database:
                self._ask("SELECT", self._address.database)
        except BaseException:  # a later call must not use another database
            self.disconnect()
            raise

    def _ask(self, *words: str | int) -> None:
        self.send_packed_command((pack(words),))
        self.read_response()

    def _open(self) -> socket.socket:
        host, port, path, *_ = self._address
        if not path:
            made = socket.create_connection((host, port), self._connect_s)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        else:
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(self._connect_s)
            try:
                made.connect(path)
            except BaseException:
                made.close()
                raise
        made.settimeout(self._reply_s)
        return made

    def send_packed_command(self, packed: tuple[bytes]) -> None:
        assert self._socket is not None
        try:
            self._socket.sendall(packed[0])
        except TimeoutError:
            raise redis_errors.TimeoutError("Timeout writing to socket") from None
        except OSError as error:
            raise redis_errors.ConnectionError(f"Error while writing to socket. {error}") from error

    def read_response(self) -> Any:
        assert self._socket is not None
        try:
            while (answer := self._replies.gets()) is NOT_ENOUGH_DATA:
                if not (data := self._socket.recv(READ_BYTES)):
                    raise redis_errors.ConnectionError("Connection closed by server.")
                self._replies.feed(data)
        except TimeoutError:
            raise redis_errors.TimeoutError("Timeout reading from socket") from None
        except OSError as error:
            raise redis_errors.ConnectionError(
                f"Error while reading from socket. {error}"
            ) from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def _reader() -> hiredis.Reader:
    return hiredis.Reader(
        protocolError=lambda text: redis_errors.InvalidResponse(text),
        replyError=redis_errors.answered_with,
        notEnoughData=NOT_ENOUGH_DATA,
    )
