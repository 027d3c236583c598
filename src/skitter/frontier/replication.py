"""A script call that counts only once a replica has it.

WAIT covers only writes on its own connection. So the call and WAIT go out together, on one
connection to one server: if it is gone, or has become a replica, both fail and both are repeated. A
repeated call writes too (lua/lib/answers.lua), or WAIT would have nothing to wait for.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from skitter.frontier import problems
from skitter.frontier.sync import SyncClient

if TYPE_CHECKING:
    from redis.asyncio import Redis, RedisCluster

    Client = Redis | RedisCluster | SyncClient

REPLICAS, WAIT_MS = 1, 1000
#: Begins like the server's own error when min-replicas-to-write is not met: failures.LATER
MISSING = (
    f"NOREPLICAS no replica has confirmed a call within {WAIT_MS / 1000:.0f} s; "
    'durability = "replicated" needs one'
)


async def call_replicated(client: Client, key: str, *words: Any) -> Any:
    """Send a command on a key, and wait until a replica has what it wrote."""
    commands = (words, ("WAIT", REPLICAS, WAIT_MS))
    send = _to_node if is_cluster(client) else _together
    answers = await send(client, key, commands)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    if answers[1] < REPLICAS:
        raise problems.ResponseError(MISSING)
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
    elsewhere = (problems.AskError, problems.ConnectionError, problems.TimeoutError)
    try:
        answers = await _together(client, key, commands)
        if isinstance(answers[0], elsewhere):
            raise answers[0]
    except elsewhere as error:
        await client.execute_command("EXISTS", key)  # makes the client learn where it is now
        raise problems.TryAgainError(str(error)) from error
    return answers
