"""redis-py's asyncio client, counting every connection it makes."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import redis.exceptions as problems
from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo

from skitter.frontier.transport.blocking import pack
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
    """With a limit on calls at a time, and an end that leaves no connection open."""

    def __init__(self, pool: ConnectionPool, connections: ConnectionCount) -> None:
        pool.connection_class = our_connection(pool.connection_class, connections)
        super().__init__(connection_pool=pool)
        self.auto_close_connection_pool = True
        self._turns: asyncio.Semaphore | None = None

    def use_at_most(self, connections: int) -> None:
        """Calls wait for one of so many."""
        self._turns = asyncio.Semaphore(connections)

    async def execute_command(self, *words: Any, **reading: Any) -> Any:
        async with self._turns or nullcontext():
            return await super().execute_command(*words, **reading)  # type: ignore[no-untyped-call]

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

    async def read_response(self: Any, *how: Any, **more: Any) -> Any:
        try:
            return await super().read_response(*how, **more)  # type: ignore[misc]
        except problems.ReadOnlyError:  # it is no longer the master
            await self.disconnect(nowait=True)
            raise
