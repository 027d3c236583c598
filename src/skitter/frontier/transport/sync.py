"""Calls without an event loop, and calls that count once a replica has them."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from skitter.frontier.transport import redis_errors
from skitter.frontier.transport.blocking import SyncClient

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from redis.asyncio import Redis, RedisCluster


T = TypeVar("T")


def has_loop() -> bool:
    """Whether an event loop runs in this thread, which must not be blocked. Does not import asyncio
    to find out: no loop runs before somebody has."""
    running = getattr(sys.modules.get("asyncio.events"), "_get_running_loop", None)
    return running is not None and running() is not None


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end without a loop, for synchronous callers.

    A coroutine that never suspends runs to its end with a single `send`. So the frontier needs no
    second, synchronous version: with a loop, its coroutines wait for the server as usual; without
    one, their client blocks. That is the only difference, and a call then costs a third of what it
    costs through a loop.
    """
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
        import asyncio

        await asyncio.sleep(seconds)
    else:
        time.sleep(seconds)  # noqa: ASYNC251  blocks nobody else


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Call a blocking function; in a thread, if a loop runs."""
    if not has_loop():
        return function(*args)
    import asyncio

    return await asyncio.to_thread(function, *args)


def turnstile(at_once: int = 1) -> AbstractAsyncContextManager[None]:
    """Lets that many tasks in at a time. Without a loop there are no tasks."""
    if not has_loop():
        return nullcontext()
    import asyncio

    return asyncio.Lock() if at_once == 1 else asyncio.Semaphore(at_once)


if TYPE_CHECKING:
    Client = Redis | RedisCluster | SyncClient

REPLICAS, WAIT_MS = 1, 1000
#: Begins like the server's own error when min-replicas-to-write is not met: failures.LATER
MISSING = (
    f"NOREPLICAS no replica has confirmed a call within {WAIT_MS / 1000:.0f} s; "
    'durability = "replicated" needs one'
)


async def call_replicated(client: Client, key: str, *words: Any) -> Any:
    """Send a command on a key, and wait until a replica has what it wrote.

    WAIT covers only writes on its own connection. So the call and WAIT go out together, on one
    connection to one server: if it is gone, or has become a replica, both fail and both are
    repeated. A repeated call writes too (lua/lib/answers.lua), or WAIT would have nothing to wait
    for.
    """
    commands = (words, ("WAIT", REPLICAS, WAIT_MS))
    send = _to_node if is_cluster(client) else _together
    answers = await send(client, key, commands)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    if answers[1] < REPLICAS:
        raise redis_errors.ResponseError(MISSING)
    return answers[0]


def is_cluster(client: Client) -> bool:
    if isinstance(client, SyncClient):
        return client.is_cluster
    return _is_cluster_class(type(client))


@cache
def _is_cluster_class(kind: type) -> bool:
    """Cached, as every call needs it, and issubclass is slow for a class with abstract bases."""
    from redis.asyncio import RedisCluster

    return issubclass(kind, RedisCluster)


async def _together(client: Any, key: str, commands: Any) -> list[Any]:
    """Send commands on one connection. Not by the cluster client's pipeline, which follows MOVED
    per command and would leave WAIT with the old node."""
    if isinstance(client, SyncClient):
        return await client.together(key, commands)
    if is_cluster(client):
        from redis.asyncio.cluster import PipelineCommand

        sent = [PipelineCommand(at, *command) for at, command in enumerate(commands)]
        await client.get_node_from_key(key).execute_pipeline(sent)
        return [one.result for one in sent]
    pipe = client.pipeline(transaction=False)
    for command in commands:
        pipe.execute_command(*command)
    answers: list[Any] = await pipe.execute(raise_on_error=False)
    return answers


async def _to_node(client: Client, key: str, commands: Any) -> list[Any]:
    """As `_together`, on a cluster, where the key may have moved."""
    elsewhere = (redis_errors.AskError, redis_errors.ConnectionError, redis_errors.TimeoutError)
    try:
        answers = await _together(client, key, commands)
        if isinstance(answers[0], elsewhere):
            raise answers[0]
    except elsewhere as error:
        await client.execute_command("EXISTS", key)  # makes the client learn where it is now
        raise redis_errors.TryAgainError(str(error)) from error
    return answers
