"""redis-py's asyncio client at a third of the cost, counting every connection it makes."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import redis.exceptions as problems
from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo

from skitter.frontier.transport.blocking import NOT_ENOUGH_DATA, pack, reply_reader
from skitter.frontier.transport.endpoints import (
    GIVEN,
    bad_address,
    check_database,
    cluster_nodes,
    is_cluster_url,
    is_sentinel,
    sentinel_client,
)

if TYPE_CHECKING:
    from skitter.frontier.transport.endpoints import ConnectionCount


def redis_client(
    url: str, connections: ConnectionCount, options: dict[str, Any]
) -> Redis | RedisCluster:
    """An asyncio client for any of our URLs."""
    scheme = url.partition("://")[0]
    once = Retry(NoBackoff(), 0)
    try:
        if is_cluster_url(url):
            first, others = cluster_nodes(url)
            nodes = [ClusterNode(host, port) for host, port in others]
            cluster = RedisCluster.from_url(first, startup_nodes=nodes or None, **options)
            return _watch_cluster(cluster, connections)
        if is_sentinel(url):
            master = sentinel_client(url, make=Sentinel, retry=once, **options)
            return OurRedis(master.connection_pool, connections)
        if scheme in ("redis", "rediss", "unix"):
            check_database(url)
            # Without it, each connection spends a millisecond looking up redis-py's version.
            options["driver_info"] = DriverInfo()
            return OurRedis(ConnectionPool.from_url(url, retry=once, **options), connections)
    except ValueError as error:
        raise bad_address(GIVEN, url, error) from None
    raise bad_address(GIVEN, url)


def _watch_cluster(client: RedisCluster, connections: ConnectionCount) -> RedisCluster:
    """Count the connections of its nodes: they use the class that the options name."""
    options = client.connection_kwargs
    options["connection_class"] = our_connection(options["connection_class"], connections)
    for node in client.nodes_manager.startup_nodes.values():
        node.connection_class = options["connection_class"]
    return client


class OurRedis(Redis):
    """Sends scripts, which are nearly all calls, on connections that it never returns to the pool:
    redis-py's overhead per command costs as much as the command."""

    def __init__(self, pool: ConnectionPool, connections: ConnectionCount) -> None:
        pool.connection_class = our_connection(pool.connection_class, connections)
        super().__init__(connection_pool=pool)
        self.auto_close_connection_pool = True
        self._free: list[Any] = []
        self._turns: asyncio.Semaphore | None = None

    def use_at_most(self, connections: int) -> None:
        """Calls wait for one of so many, which scripts and plain commands then share."""
        self._turns = asyncio.Semaphore(connections)

    def execute_command(self, *words: Any, **reading: Any) -> Any:
        if self._turns:
            return self._take_turn(self._turns, words, reading)
        if words[0] == "EVALSHA":
            return self._exchange(words)
        return super().execute_command(*words, **reading)  # type: ignore[no-untyped-call]

    async def _take_turn(
        self, turns: asyncio.Semaphore, words: tuple[Any, ...], reading: dict[str, Any]
    ) -> Any:
        async with turns:
            reply = await self._exchange(words)
        parse = self.response_callbacks.get(words[0])
        return parse(reply, **reading) if parse else reply

    async def _exchange(self, words: tuple[Any, ...]) -> Any:
        pool: Any = self.connection_pool
        connection = self._free.pop() if self._free else await pool.get_connection()
        try:
            if not connection.is_connected:
                await connection.connect()  # with a sentinel: to the current master
            return await connection.ask(pack(words))
        except problems.ReadOnlyError:  # it is no longer the master
            await connection.disconnect(nowait=True)
            raise
        except problems.ResponseError:
            raise
        except BaseException:  # the next call must not read the answer to this one
            await connection.disconnect(nowait=True)
            raise
        finally:
            self._free.append(connection)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Also when cancelled: redis-py closes each connection in a task, and a cancellation ends
        those before they begin. And those to sentinels, which redis-py leaves open."""
        pool: Any = self.connection_pool
        try:
            await super().aclose(close_connection_pool)
            if isinstance(pool, SentinelConnectionPool):
                for sentinel in pool.sentinel_manager.sentinels:
                    await sentinel.aclose()
        finally:
            for connection in (*pool._available_connections, *pool._in_use_connections):
                connection._close()


def our_connection(connection: type[Any], connections: ConnectionCount) -> type[Any]:
    """One of redis-py's connection classes, with our overrides."""
    return type(f"Our{connection.__name__}", (_Ours, connection), {"connections": connections})


class _Ours:
    """Our overrides of redis-py's connections."""

    connections: ConnectionCount
    _answers: Answers | None = None

    async def _connect(self: Any) -> None:
        self.connections.made += 1
        await super()._connect()  # type: ignore[misc]

    async def disconnect(self: Any, nowait: bool = False, **facts: Any) -> None:
        """Also retrieve the connection's error: asyncio prints one that is never retrieved."""
        writer = self._writer
        await super().disconnect(nowait, **facts)  # type: ignore[misc]
        if nowait and writer:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    def ask(self: Any, packed: bytes) -> Any:
        """Send and read in one step, with one timeout: redis-py's layers would double the cost of a
        call."""
        if self._answers is None or self._answers.writer is not self._writer:
            self._answers = Answers(self._writer)
        return self._answers.to(packed, within_s=self.socket_timeout)

    def pack_command(self, *args: Any) -> list[bytes]:
        """Pack with hiredis, which halves the client's time for a batch. redis-py does so only in
        its blocking client."""
        return [pack(args)]

    async def send_packed_command(self: Any, command: Any, check_health: bool = True) -> None:
        """With a timeout, but not redis-py's `asyncio.wait_for`: in Python 3.11 that creates a task
        for each command and sometimes swallows a cancellation."""
        if not self.is_connected:
            await self.connect_check_health(check_health=False)
        if check_health:
            await self.check_health()
        try:
            async with asyncio.timeout(self.socket_timeout):
                await self._send_packed_command(command)
        except TimeoutError:
            await self.disconnect(nowait=True)
            raise problems.TimeoutError("Timeout writing to socket") from None
        except (OSError, RuntimeError) as error:  # RuntimeError: uvloop, if it was just closed
            await self.disconnect(nowait=True)
            raise problems.ConnectionError(f"Error while writing to socket. {error}") from error
        except BaseException:
            await self.disconnect(nowait=True)
            raise


class Answers(asyncio.Protocol):
    """Reads the answers to one call after the other, in place of asyncio's streams: their buffer
    and their coroutines cost a call more than parsing its answer. It also hangs up on an answer
    that nobody asked for, which the next call would take for its own."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer, self._replies = writer, reply_reader()
        self._transport: Any = writer.transport
        self._stream = self._transport.get_protocol()
        self._loop = asyncio.get_running_loop()
        self._waiter = self._loop.create_future()
        self._waiter.cancel()  # nobody waits yet
        self._due = 0.0  # by when the call must be answered
        self._watch: asyncio.TimerHandle | None = None
        self._transport.set_protocol(self)

    def to(self, packed: bytes, *, within_s: float) -> asyncio.Future[Any]:
        """The answer to a packed call."""
        if self._transport.is_closing():
            raise problems.ConnectionError("Connection closed by server.")
        waiter = self._waiter = self._loop.create_future()
        self._due = time.monotonic() + within_s
        if self._watch is None:
            self._watch_time()
        self._transport.write(packed)
        return waiter

    def _watch_time(self) -> None:
        """Hang up on a late answer. One timer serves many calls: to set and cancel one for each
        costs 2.5 us."""
        self._watch = None
        if self._waiter.done():
            return
        late_in_s = self._due - time.monotonic()
        if late_in_s <= 0:
            self._waiter.set_exception(problems.TimeoutError("Timeout reading from socket"))
            self._transport.abort()
        else:
            self._watch = self._loop.call_later(late_in_s, self._watch_time)

    def data_received(self, data: bytes) -> None:
        waiter, replies = self._waiter, self._replies
        replies.feed(data)
        is_asked = not waiter.done()
        if is_asked and (answer := replies.gets()) is not NOT_ENOUGH_DATA:
            if isinstance(answer, Exception):
                waiter.set_exception(answer)
            else:
                waiter.set_result(answer)
            is_asked = not replies.has_data()
        if not is_asked:  # the next call must not read it
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._waiter.done():
            says = str(exc or "Connection closed by server.")
            self._waiter.set_exception(problems.ConnectionError(says))
        self._stream.connection_lost(exc)

    def pause_writing(self) -> None:
        self._stream.pause_writing()

    def resume_writing(self) -> None:
        self._stream.resume_writing()
