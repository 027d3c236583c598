"""A cluster of nodes on this machine, for the duration of a measurement."""

from __future__ import annotations

import asyncio
import random
import socket
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from redis.asyncio import Redis
from redis.crc import key_slot
from redis.exceptions import ConnectionError as NoConnection

from benchmarks.processes import started
from skitter.embedded import server_binary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

SLOTS = 16384
BUS = 10_000  # a node's second port is this much above its first


@asynccontextmanager
async def open_cluster(
    directory: Path, *, nodes: int, keys: Sequence[str]
) -> AsyncIterator[list[Redis]]:
    """Clients of nodes that write no files. Each node gets the same number of these keys' slots: by
    hash alone, three nodes would get 6, 4 and 2 of 12."""
    async with AsyncExitStack() as stack:
        opened: list[Redis] = []
        for number in range(nodes):
            place = directory / f"node-{nodes}-{number}"
            place.mkdir()
            port = _free_port()
            await stack.enter_async_context(started(_words(port, place)))
            node = await stack.enter_async_context(Redis(port=port))
            await _until_it_answers(node)
            opened.append(node)
        await _join(opened, sorted(key_slot(key.encode()) for key in keys))
        yield opened


def port_of(node: Redis) -> int:
    return int(node.connection_pool.connection_kwargs["port"])


def _words(port: int, place: Path) -> list[str]:
    options = {"port": str(port), "bind": "127.0.0.1", "dir": str(place), "save": ""}
    options |= {"cluster-enabled": "yes", "logfile": str(place / "log")}
    return [
        str(server_binary()),
        *(word for name, value in options.items() for word in (f"--{name}", value)),
    ]


def _free_port() -> int:
    while True:
        port = random.randrange(12_000, 21_000)  # below the ephemeral ports
        with suppress(OSError):
            for one in (port, port + BUS):
                socket.create_server(("127.0.0.1", one)).close()
            return port


async def _until_it_answers(node: Redis) -> None:
    while True:
        with suppress(NoConnection):
            await node.ping()
            return
        await asyncio.sleep(0.05)


async def _join(nodes: Sequence[Any], slots: list[int]) -> None:
    ends = [slots[len(slots) * at // len(nodes) - 1] for at in range(1, len(nodes))]
    for number, node in enumerate(nodes):
        first, last = ([-1, *ends][number] + 1, [*ends, SLOTS - 1][number])
        await node.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
        await node.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        await nodes[0].execute_command("CLUSTER MEET", "127.0.0.1", port_of(node))
    for node in nodes:
        await _until_it_is_whole(node, len(nodes))


async def _until_it_is_whole(node: Any, nodes: int) -> None:
    while True:
        info = await node.execute_command("CLUSTER INFO")
        if info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == nodes:
            return
        await asyncio.sleep(0.05)
