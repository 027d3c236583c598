"""One blocking connection by TCP or a Unix socket, read by hiredis, without redis-py."""

from __future__ import annotations

import socket
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import hiredis

from skitter.frontier import problems
from skitter.frontier.addresses import check_database
from skitter.frontier.packing import pack

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
            raise problems.TimeoutError("Timeout connecting to server") from None
        except (OSError, UnicodeError) as error:  # UnicodeError: not a host name
            said = getattr(error, "strerror", None) or str(error)
            raise problems.ConnectionError(said) from error
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
            raise problems.TimeoutError("Timeout writing to socket") from None
        except OSError as error:
            raise problems.ConnectionError(f"Error while writing to socket. {error}") from error

    def read_response(self) -> Any:
        assert self._socket is not None
        try:
            while (answer := self._replies.gets()) is NOT_ENOUGH_DATA:
                if not (data := self._socket.recv(READ_BYTES)):
                    raise problems.ConnectionError("Connection closed by server.")
                self._replies.feed(data)
        except TimeoutError:
            raise problems.TimeoutError("Timeout reading from socket") from None
        except OSError as error:
            raise problems.ConnectionError(f"Error while reading from socket. {error}") from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def _reader() -> hiredis.Reader:
    return hiredis.Reader(
        protocolError=lambda text: problems.InvalidResponse(text),
        replyError=problems.answered_with,
        notEnoughData=NOT_ENOUGH_DATA,
    )
