"""The blocking client: redis-py's, and a connection of our own for the calls of a frontier.

Our own connection takes scripts and short reads to a plain TCP or Unix address, read by hiredis. A
call over it costs as much as over redis-py's; but it needs no redis-py, whose import takes longer
(90 ms of CPU) than `skitter status` takes as a whole.
"""

from __future__ import annotations

import socket
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import hiredis

from skitter.frontier.transport import redis_errors
from skitter.frontier.transport.endpoints import (
    SCHEMES,
    bad_address,
    check_database,
    cluster_nodes,
    is_cluster_url,
    is_sentinel,
    sentinel_client,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

#: The same as scrapy-redis.
PATIENCE = {"socket_timeout": 30, "socket_connect_timeout": 30}


def blocking_client(
    url: str | None = None, *, named: str = "url", retries: bool = True, **options: Any
) -> Any:
    """redis-py's client for any of our URLs; without one, with its own defaults. Connects on first
    use, except to a cluster, which is asked for its nodes."""
    import redis

    options = {**PATIENCE, **options}
    if url is None:
        return redis.Redis(**options)
    scheme = url.partition("://")[0]
    if not retries and not is_cluster_url(url):  # which retries what went to the wrong node
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        options["retry"] = Retry(NoBackoff(), 0)
    try:
        if is_sentinel(url):
            from redis.sentinel import Sentinel

            return sentinel_client(url, make=Sentinel, **options)
        if is_cluster_url(url):
            from redis.cluster import ClusterNode

            first, others = cluster_nodes(url)
            make: Any = ClusterNode  # which has no types
            nodes = [make(host, port) for host, port in others]
            return redis.RedisCluster.from_url(first, startup_nodes=nodes or None, **options)
        if scheme in SCHEMES:
            check_database(url)
            return redis.Redis.from_url(url, **options)
    except ValueError as error:
        raise bad_address(named, url, error) from None
    raise bad_address(named, url)


class SyncClient:
    """A blocking client with those methods of the asyncio client that a frontier uses.

    Scripts, which are nearly all calls, and plain reads go over one connection that it keeps: by
    redis-py's `execute_command` a call of `URLQueue` takes 30% more CPU time (ADR 107). The rest is
    left to redis-py's client, which is made when it is needed.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        *,
        is_cluster: bool = False,
        plain: PlainConnection | None = None,
    ) -> None:
        self._make = make
        self.is_cluster = is_cluster
        self._plain = plain
        self._connection: Any = plain  # None: one of redis-py's, for scripts only

    @cached_property
    def _client(self) -> Any:
        return self._make()

    async def execute_command(self, *words: Any, **reading: Any) -> Any:
        if words[0] == "EVALSHA" and not self.is_cluster:
            return self._exchange(pack(words))
        if self._plain and (read := READERS.get(words[0])) and "WITHSCORES" not in words:
            return read(self._exchange(pack(words)))
        return self._client.execute_command(*words, **reading)

    async def script_load(self, source: str) -> Any:
        return self._client.script_load(source)

    async def scan_iter(self, **options: Any) -> AsyncIterator[Any]:
        for key in self._client.scan_iter(**options):
            yield key

    async def together(self, key: str, commands: Sequence[Any]) -> list[Any]:
        """Send commands on one connection, to the server that has the key."""
        there = self._client
        if self.is_cluster:
            there = there.get_redis_connection(there.get_node_from_key(key))
        pipe = there.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        answers: list[Any] = pipe.execute(raise_on_error=False)
        return answers

    def get_nodes(self) -> Any:
        """Of a cluster."""
        return self._client.get_nodes()

    @property
    def connection_pool(self) -> Any:
        return self._client.connection_pool

    async def aclose(self) -> None:
        if self._connection:
            self._connection.disconnect()
        if "_client" not in vars(self):
            return
        self._client.close()
        pool = getattr(self._client, "connection_pool", None)
        for sentinel in getattr(getattr(pool, "sentinel_manager", None), "sentinels", ()):
            sentinel.close()

    def _exchange(self, packed: bytes) -> Any:
        if self._connection is None:
            self._connection = self._client.connection_pool.get_connection()
        try:
            if not self._connection.is_connected:
                self._connection.connect()  # with sentinels: to the current master
            self._connection.send_packed_command((packed,))
            return self._connection.read_response()
        except redis_errors.ResponseError:
            raise
        except BaseException:  # even Ctrl-C: the next call must not read the answer to this one
            self._connection.disconnect()
            raise


def pack(words: tuple[Any, ...]) -> bytes:
    """Pack a command, whose name may be of two words: CONFIG GET."""
    name = words[0].split() if isinstance(words[0], str) else (words[0],)
    packed: bytes = hiredis.pack_command((*name, *words[1:]))
    return packed


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
        self._replies = reply_reader()

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
        self._replies = reply_reader()
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


def reply_reader() -> hiredis.Reader:
    return hiredis.Reader(
        protocolError=lambda text: redis_errors.InvalidResponse(text),
        replyError=redis_errors.answered_with,
        notEnoughData=NOT_ENOUGH_DATA,
    )
