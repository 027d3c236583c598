"""Connections that break at the worst moment: an error that is told once, in our words."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import redis.exceptions
import uvloop

from skitter.frontier.transport.connection import _client, connect
from skitter.frontier.transport.endpoints import ConnectionCount, cluster_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PING = b"*1\r\n$4\r\nPING\r\n"


@asynccontextmanager
async def open_connection(url: str) -> AsyncIterator[Any]:
    client: Any = _client(url, None, ConnectionCount())
    connection = client.connection_pool.make_connection()
    await connection._connect()
    connection._parser.on_connect(connection)
    try:
        yield connection
    finally:
        await connection.disconnect(nowait=True)
        await client.aclose()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readexactly(1)  # what else has come is not read: that is an error to the client
    writer.transport.abort()


async def test_a_connection_that_breaks_leaves_no_error_that_nobody_asked_for():
    listener = await asyncio.start_server(hang_up, "127.0.0.1", 0, limit=1)
    host, port = listener.sockets[0].getsockname()
    async with listener, open_connection(f"redis://{host}:{port}") as connection:
        ended = connection._writer._protocol._closed
        await connection.send_command("PING")
        with pytest.raises(redis.exceptions.ConnectionError):
            await connection.read_response()
        assert ended.done()
        assert not ended._log_traceback  # otherwise the garbage collector prints it


def test_a_write_to_a_connection_that_was_closed_a_moment_ago_is_a_lost_connection(server_url):
    async def write() -> None:
        async with open_connection(server_url) as connection:
            connection._writer.transport.abort()
            with pytest.raises(redis.exceptions.ConnectionError):
                await connection.send_packed_command([PING])

    uvloop.run(write())


@pytest.mark.parametrize("steps", range(12))
async def test_a_cancellation_is_obeyed_at_every_step_of_a_command(server, steps):
    async def ask() -> None:
        while True:
            await server.command("PING")

    await server.command("PING")
    asking = asyncio.create_task(ask())
    for _ in range(steps):
        await asyncio.sleep(0)
    asking.cancel()
    done, _ = await asyncio.wait([asking], timeout=10)
    asking.cancel()
    assert done


@pytest.mark.parametrize("steps", range(8))
async def test_a_cancellation_while_closing_leaves_no_connection_open(server_url, steps):
    async def open_and_close() -> None:
        async with connect(server_url) as server:
            client: Any = server.client
            opened.extend(client.connection_pool._available_connections)
            closing.set()

    opened: list[Any] = []
    closing = asyncio.Event()
    task = asyncio.create_task(open_and_close())
    await closing.wait()
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])

    assert [connection.is_connected for connection in opened] == [False]


@pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 12, 9) or (3, 13) <= sys.version_info < (3, 13, 2),
    reason="asyncio never waits for a reader: CVE-2024-12254",
)
async def test_a_server_that_reads_nothing_is_a_timeout():
    async def read_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.transport.abort()

    ended = asyncio.Event()
    listener = await asyncio.start_server(read_nothing, "127.0.0.1", 0, limit=1)
    host, port = listener.sockets[0].getsockname()
    async with listener, open_connection(f"redis://{host}:{port}") as connection:
        connection.socket_timeout = 0.1
        with pytest.raises(redis.exceptions.TimeoutError):
            await connection.send_command("ECHO", b"x" * 2**25, check_health=False)
        ended.set()


async def answer_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.mark.parametrize(
    ("does", "error"),
    [
        (answer_nothing, redis.exceptions.TimeoutError),
        (hang_up, redis.exceptions.ConnectionError),
    ],
)
def test_a_script_that_is_never_answered_is_a_lost_call(does, error):
    async def ask() -> None:
        listener = await asyncio.start_server(does, "127.0.0.1", 0)
        host, port = listener.sockets[0].getsockname()
        async with listener, open_connection(f"redis://{host}:{port}") as connection:
            connection.socket_timeout = 0.1 if does is answer_nothing else 60
            await connection.send_packed_command([PING])
            with pytest.raises(error):
                await connection.read_response()
            assert not connection.is_connected

    uvloop.run(ask())
    asyncio.run(ask())


def answers_scripts(said: bytes, met: list[asyncio.StreamWriter]) -> Any:
    """A server that says OK to all but a script."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.append(writer)
        while b"EVALSHA" not in (words := await reader.read(4096)):
            if not words:
                return
            writer.write(b"+OK\r\n" * words.count(b"*"))
        writer.write(said)
        await reader.read()
        writer.close()

    return asyncio.start_server(answer, "127.0.0.1", 0)


async def test_an_answer_that_nobody_asked_for_is_not_taken_for_the_next_one():
    met: list[asyncio.StreamWriter] = []
    async with await answers_scripts(b":1\r\n:2\r\n", met) as listener:
        host, port = listener.sockets[0].getsockname()
        client: Any = _client(f"redis://{host}:{port}", None, ConnectionCount())
        for _ in range(2):
            assert await client.execute_command("EVALSHA", "0" * 40, 0) == 1
        await client.aclose()
    assert len(met) == 2


async def test_a_master_that_became_a_replica_is_asked_no_more_on_that_connection():
    met: list[asyncio.StreamWriter] = []
    said = b"-READONLY You can't write against a read only replica.\r\n"
    async with await answers_scripts(said, met) as listener:
        host, port = listener.sockets[0].getsockname()
        client: Any = _client(f"redis://{host}:{port}", None, ConnectionCount())
        for _ in range(2):
            with pytest.raises(redis.exceptions.ReadOnlyError):
                await client.execute_command("EVALSHA", "0" * 40, 0)
        await client.aclose()
    assert len(met) == 2


def test_the_nodes_of_a_cluster_are_a_list():
    url = "redis+cluster://ann:s%2Fecret@a:7000,b,[::1]:7002?ssl=1"

    assert cluster_nodes(url) == (
        "redis://ann:s%2Fecret@a:7000?ssl=1",
        [("b", 6379), ("::1", 7002)],
    )
    assert cluster_nodes("redis+cluster://a:7000") == ("redis://a:7000", [])
