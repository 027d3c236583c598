"""A script call that counts only when a replica has it.

WAIT knows what was written on its own connection and nowhere else. So the call and WAIT go out
together, on one connection to one server: if that is gone, or has become a replica, both fail, and
both are repeated. A repeated call writes too (lua/lib/answers.lua), or WAIT would have nothing to
wait for.
"""

from __future__ import annotations

from typing import Any

import redis.exceptions as problems
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import PipelineCommand

REPLICAS, WAIT_MS = 1, 1000
#: Begins as the server's own answer does when min-replicas-to-write is not met: failures.LATER
MISSING = (
    f"NOREPLICAS no replica has confirmed a call within {WAIT_MS / 1000:.0f} s; "
    'durability = "replicated" needs one'
)
#: The key is, or seems to be, on another node.
ELSEWHERE = (problems.AskError, problems.ConnectionError, problems.TimeoutError)


async def call_replicated(client: Redis | RedisCluster, key: str, *words: Any) -> Any:
    """Send a command on a key, and wait until a replica has what it wrote."""
    commands = (words, ("WAIT", REPLICAS, WAIT_MS))
    if isinstance(client, RedisCluster):
        answers = await _to_node(client, key, commands)
    else:
        pipe = client.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        answers = await pipe.execute(raise_on_error=False)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    if answers[1] < REPLICAS:
        raise problems.ResponseError(MISSING)
    return answers[0]


async def _to_node(client: RedisCluster, key: str, commands: Any) -> list[Any]:
    """Not by the client's own pipeline: it follows MOVED command by command, and would leave WAIT
    with the old node."""
    sent = [PipelineCommand(at, *command) for at, command in enumerate(commands)]
    try:
        node: Any = client.get_node_from_key(key)
        await node.execute_pipeline(sent)
        if isinstance(sent[0].result, ELSEWHERE):
            raise sent[0].result
    except ELSEWHERE as error:
        await client.exists(key)  # by which the client learns where the key is now
        raise problems.TryAgainError(str(error)) from error
    return [one.result for one in sent]
