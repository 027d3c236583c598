"""Walk large structures in small steps, so that other clients do not wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skitter.frontier.transport.keys import job_prefix
from skitter.frontier.transport.wire import batched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skitter.frontier.transport.connection import Server
    from skitter.frontier.transport.shard import Shard

STEP = 500


async def scan_names(
    shard: Shard, name: str, member: str | None = None
) -> AsyncIterator[list[str]]:
    """The fields of a hash, or the members of a set or zset. A name may come twice."""
    command = {"hash": "HSCAN", "zset": "ZSCAN", "set": "SSCAN"}[shard.keys.spec(name).type]
    width = 1 if command == "SSCAN" else 2
    cursor: Any = 0
    while True:
        key = shard.keys.key(name, member)
        cursor, flat = await shard.server.command(command, key, cursor, "COUNT", STEP)
        # redis-py turns the replies of HSCAN and ZSCAN into a dict or pairs.
        names = list(flat) if width == 1 or isinstance(flat, dict) else [pair[0] for pair in flat]
        if names:
            yield [name.decode("utf-8", "backslashreplace") for name in names]
        if int(cursor) == 0:
            return


def scan_keys(shard: Shard) -> AsyncIterator[list[str]]:
    """All keys of the shard, in batches. A key may come twice."""
    return _scan(shard.server, shard.keys.prefix)


def scan_job(shard: Shard) -> AsyncIterator[list[str]]:
    """All keys of all shards of its job, even of shards that should not exist."""
    return _scan(shard.server, job_prefix(shard.keys.job))


async def _scan(server: Server, prefix: str) -> AsyncIterator[list[str]]:
    async for keys in batched(server.client.scan_iter(match=f"{prefix}*", count=STEP), STEP):
        yield [
            key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else key
            for key in keys
        ]
