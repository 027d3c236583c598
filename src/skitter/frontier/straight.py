"""Coroutines that run straight through, for callers without an event loop.

A coroutine that awaits only what is there at once never waits: a single `send` runs it to its end.
So the frontier needs no second, synchronous edition. Where a loop runs, its coroutines wait for the
server as usual; where none does, their client blocks, and that is all the difference. A call then
costs a third of what it costs through a loop.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

import hiredis
import redis
import redis.exceptions as problems

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

T = TypeVar("T")


def has_loop() -> bool:
    """Whether an event loop runs here, which must not be blocked."""
    return asyncio._get_running_loop() is not None


def run_straight(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, where no loop runs."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    work.close()
    raise RuntimeError("this coroutine waits for an event loop")


async def pause(seconds: float) -> None:
    """Sleep."""
    if has_loop():
        await asyncio.sleep(seconds)
    else:
        time.sleep(seconds)  # noqa: ASYNC251  nobody else is held up


async def aside(function: Callable[..., T], *args: Any) -> T:
    """Call what blocks: in a thread, if there is a loop."""
    return await asyncio.to_thread(function, *args) if has_loop() else function(*args)


class StraightClient:
    """A blocking client of redis-py with the methods of the asyncio one that a frontier uses."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.is_cluster = isinstance(client, redis.RedisCluster)
        self._link: Any = None  # for scripts: nearly all calls, and nothing in them for the client

    async def execute_command(self, *words: Any, **reading: Any) -> Any:
        if words[0] == "EVALSHA" and not self.is_cluster:
            return self._exchange(words)
        return self._client.execute_command(*words, **reading)

    async def script_load(self, source: str) -> Any:
        return self._client.script_load(source)

    async def scan_iter(self, **options: Any) -> AsyncIterator[Any]:
        for key in self._client.scan_iter(**options):
            yield key

    async def together(self, key: str, commands: Sequence[Any]) -> list[Any]:
        """Several commands on one connection, to the server that has the key."""
        there = self._client
        if self.is_cluster:
            there = there.get_redis_connection(there.get_node_from_key(key))
        pipe = there.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        answers: list[Any] = pipe.execute(raise_on_error=False)
        return answers

    async def aclose(self) -> None:
        if self._link:
            self._link.disconnect()
        self._client.close()
        pool = getattr(self._client, "connection_pool", None)
        for sentinel in getattr(getattr(pool, "sentinel_manager", None), "sentinels", ()):
            sentinel.close()

    def _exchange(self, words: tuple[Any, ...]) -> Any:
        if self._link is None:
            self._link = self._client.connection_pool.get_connection()
        try:
            if not self._link.is_connected:
                self._link.connect()  # with a sentinel: to whoever is the master now
            self._link.send_packed_command((hiredis.pack_command(words),))
            return self._link.read_response()
        except problems.ResponseError:
            raise
        except BaseException:  # also Ctrl-C: an answer that nobody read is not that of the next
            self._link.disconnect()
            raise
