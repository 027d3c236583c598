"""Our own connection, for callers without a loop: as redis-py, only lighter."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Any

import pytest
from redis import Redis
from redis import exceptions as theirs

from skitter.embedded import hold
from skitter.errors import ServerRefused, ServerUnreachable
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.blocking import (
    READERS,
    PlainAddress,
    PlainConnection,
    plain_address,
)
from skitter.frontier.transport.connection import Server, connect
from skitter.frontier.transport.sync import run_sync
from skitter.model import Request

READS = [
    ("EXISTS", "h", "none"),
    ("GET", "s"),
    ("GET", "none"),
    ("HGET", "h", "a"),
    ("HGETALL", "h"),
    ("HGETALL", "none"),
    ("HKEYS", "h"),
    ("HLEN", "h"),
    ("HMGET", "h", "a", "none"),
    ("HSCAN", "h", 0, "COUNT", 500),
    ("LLEN", "l"),
    ("LRANGE", "l", 0, -1),
    ("ZRANGE", "z", "(1", "-inf", "BYSCORE", "REV", "LIMIT", 0, 1),
    ("ZRANGE", "z", 0, -1, "WITHSCORES"),  # by redis-py
    ("CONFIG GET", "appendfsync"),
]


async def ask(url: str, *commands: tuple[Any, ...]) -> list[Any]:
    async with connect(url) as server:
        return [await server.command(*words) for words in commands]


@pytest.fixture
def filled(server_url):
    with Redis.from_url(server_url, protocol=2) as client:
        client.set("s", b"\xff\n")
        client.hset("h", mapping={"a": "1", "b": b"\xff"})
        client.rpush("l", "x", "y")
        client.zadd("z", {"m": 0.5, "n": 2})
        yield client


def test_it_returns_what_redis_py_returns(server_url, filled):
    ours = run_sync(ask(server_url, *READS))

    assert ours == [filled.execute_command(*words) for words in READS]
    assert {words[0] for words in READS} | {"INFO", "TIME"} == READERS.keys()


def test_the_facts_of_a_server_and_its_time_are_numbers(server_url, filled):
    ours, (second, microsecond) = run_sync(ask(server_url, ("INFO",), ("TIME",)))
    redis = filled.info()

    same = ("redis_version", "process_id", "maxmemory", "maxmemory_policy", "aof_enabled")
    assert [ours[name] for name in same] == [redis[name] for name in same]
    assert abs(second - filled.time()[0]) <= 10
    assert 0 <= microsecond < 1_000_000


def test_an_error_of_the_server_is_of_the_same_class_and_the_connection_goes_on(server_url):
    address = plain_address(server_url, None)
    assert address is not None
    connection = PlainConnection(address, connect_s=5, reply_s=30)
    connection.connect()
    said = []
    for command in (b"EVALSHA aaaa 0", b"NONE", b"PING"):
        connection.send_packed_command((command + b"\r\n",))
        try:
            said.append(connection.read_response())
        except theirs.RedisError as error:
            said.append(type(error))
    connection.disconnect()

    assert said == [theirs.NoScriptError, theirs.ResponseError, b"PONG"]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://", PlainAddress("localhost", 6379, "", (), 0)),
        ("redis://host:1/3", PlainAddress("host", 1, "", (), 3)),
        ("redis://[::1]:7", PlainAddress("::1", 7, "", (), 0)),
        ("redis://:p%40ss@host", PlainAddress("host", 6379, "", ("p@ss",), 0)),
        ("redis://me:secret@host", PlainAddress("host", 6379, "", ("me", "secret"), 0)),
        ("redis://me@host", PlainAddress("host", 6379, "", ("me", "given"), 0)),
        ("unix:///tmp/a%20b.sock", PlainAddress("", 0, "/tmp/a b.sock", ("given",), 0)),
        ("rediss://host", None),
        ("redis://host?db=1", None),
        ("redis+sentinel://host/main", None),
        ("redis+cluster://host", None),
    ],
)
def test_it_reads_addresses_as_redis_py_does(url, address):
    password = "given" if address and address.login[-1:] == ("given",) else None

    assert plain_address(url, password) == address
    if address:
        theirs = Redis.from_url(url, **{"password": password} if password else {})
        known = theirs.connection_pool.connection_kwargs
        login = tuple(filter(None, (known.get("username"), known.get("password"))))
        place = (known.get("host") or "localhost", known.get("port") or 6379)
        assert (login, known.get("db", 0)) == (address.login, address.database)
        assert place == address[:2] or known["path"] == address.path


def test_a_login_is_sent_and_a_wrong_one_refused(server_url):
    """Beside the default user, who needs no password."""
    with Redis.from_url(server_url) as client:
        client.acl_setuser("me", enabled=True, passwords=["+right"], commands=["+@all"], keys=["*"])
        try:
            [who] = run_sync(ask(_as("me:right", server_url), ("ACL WHOAMI",)))
            with pytest.raises(ServerRefused, match="rejected our login"):
                run_sync(ask(_as("me:wrong", server_url)))
        finally:
            client.acl_deluser("me")
    assert who in (b"me", "me")


def test_a_connection_that_did_not_get_its_database_is_not_used(server_url):
    """The next call would go to database 0."""
    address = plain_address(server_url, None)
    assert address is not None
    connection = PlainConnection(address._replace(database=9999), connect_s=5, reply_s=30)

    with pytest.raises(theirs.ResponseError, match="DB index is out of range"):
        connection.connect()
    assert not connection.is_connected


def _as(login: str, url: str) -> str:
    return url.replace("://", f"://{login}@", 1)


def test_a_server_that_hangs_up_or_is_not_there_does_not_answer(tmp_path):
    path = str(tmp_path / "s.sock")
    with pytest.raises(ServerUnreachable, match="no such file or directory"):
        run_sync(ask(f"unix://{path}"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        caller = threading.Thread(target=lambda: server.accept()[0].close())
        caller.start()
        with pytest.raises(ServerUnreachable, match="does not answer"):
            run_sync(ask(f"unix://{path}"))
        caller.join()


def test_what_is_not_redis_is_told_so(tmp_path):
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()

        def serve() -> None:
            with server.accept()[0] as client:
                client.recv(1000)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                client.recv(1000)

        caller = threading.Thread(target=serve)
        caller.start()
        with pytest.raises(ServerUnreachable, match="does not answer like a Redis server"):
            run_sync(ask(f"unix://{path}"))
        caller.join()


async def received(server: Server) -> int:
    total: int = (await server.command("INFO", "stats"))["total_connections_received"]
    return total


def test_a_call_that_nobody_answers_is_given_up_and_not_repeated(short_dir):
    async def add() -> None:
        async with connect(embedded.url, password=embedded.password, reply_s=0.3) as server:
            server.patience_s = 0.1
            frontier = await create_job(server, "silent")
            before = await received(server)
            os.kill(pid, signal.SIGSTOP)
            try:
                with pytest.raises(ServerUnreachable, match="does not answer"):
                    await frontier.add([Request(url="https://a.test/")])
            finally:
                os.kill(pid, signal.SIGCONT)
            assert await received(server) == before + 1

    with hold(short_dir / "silent") as embedded:
        pid = int((embedded.directory / "valkey.pid").read_text())
        run_sync(add())
