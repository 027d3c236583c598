"""Connect to the server, repeat calls whose reply was lost, and check that the server is fit.

The client's own retries are off: `Server` repeats calls, and every script that writes recognises
a repeat by its number (lua/lib/once.lua).
"""

from __future__ import annotations

import random
import re
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.errors import ServerUnfit, ServerUnreachable, UsageError
from skitter.frontier.transport import redis_errors
from skitter.frontier.transport.blocking import (
    PlainConnection,
    SyncClient,
    blocking_client,
    plain_address,
)
from skitter.frontier.transport.endpoints import (
    GIVEN,
    ConnectionCount,
    bad_address,
    is_cluster_url,
    process_id,
)
from skitter.frontier.transport.failures import NO_NODE, away, is_temporary, our_errors
from skitter.frontier.transport.sync import call_replicated, has_loop, is_cluster, pause
from skitter.redact import redact
from skitter.settings.server import OLDEST_SERVERS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from skitter.frontier.transport.scripts import Script
    from skitter.frontier.transport.sync import Client

CONNECT_S, REPLY_S = 5.0, 30.0
#: Suffix of a key that never exists. While a slot moves, a cluster refuses a call if some of its
#: keys are missing (TRYAGAIN), so no script runs on half a shard, whatever keys it derives.
ABSENT = ":absent"


@asynccontextmanager
async def connect(
    url: str, *, password: str | None = None, reply_s: float = REPLY_S
) -> AsyncIterator[Server]:
    """Connect to a server, and check that it is fit for a frontier."""
    connections = ConnectionCount()
    with our_errors(redact(url)):  # some clients look up their nodes right away
        client = _client(url, password, connections, reply_s)
    server = Server(client, where=redact(url), connections=connections)
    try:
        for facts in await _first_look(server):
            check_fitness(facts)
        yield server
    finally:
        await server.client.aclose()


async def _first_look(server: Server) -> list[ServerFacts]:
    """If a server has just died that has a replica, wait until that takes over, as calls do."""
    give_up_at = time.monotonic() + server.patience_s
    while True:
        try:
            return await inspect(server)
        except ServerUnreachable as error:
            if time.monotonic() > give_up_at or not await _may_return(server, error):
                raise
        await pause(0.2)


async def _may_return(server: Server, error: ServerUnreachable) -> bool:
    """Whether a replica may take over: others of the cluster answer, or a sentinel has the name."""
    if server.is_cluster:
        return NO_NODE not in str(error)
    pool: Any = getattr(server.client, "connection_pool", None)
    for sentinel in getattr(getattr(pool, "sentinel_manager", None), "sentinels", ()):
        with suppress(*away()):
            masters = sentinel.sentinel_masters()
            masters = await masters if isawaitable(masters) else masters
            if pool.service_name in masters:
                return True
    return False


@dataclass(slots=True)
class Server:
    """A connected server: runs scripts and plain commands, and raises our own errors."""

    client: Client
    where: str = "the server"
    connections: ConnectionCount = field(default_factory=ConnectionCount)
    patience_s: float = 10.0  # how long to repeat a call while the server is unavailable
    on_away: Callable[[], Awaitable[object]] | None = None  # e.g. start it again
    pid: int = field(default_factory=process_id)
    directory: Path | None = None  # of an embedded one
    was_full: bool = False  # the disk of an embedded one, when it refused a call
    accepted: set[str] = field(default_factory=set)  # scripts and kinds of commands that it ran
    is_cluster: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_cluster = is_cluster(self.client)

    def use_at_most(self, connections: int) -> None:
        """For a process that is one of many. In a cluster each node has its own connections."""
        if not self.is_cluster:
            self.client.use_at_most(connections)  # type: ignore[union-attr]

    async def command(self, *words: Any, **reading: Any) -> Any:
        """Run a plain command. Only for commands that may run twice. `reading` goes to the client's
        reply parser."""
        send = partial(self.client.execute_command, *words, **reading)
        # ACLs give rights to commands and, by their prefix, to keys.
        name = " ".join(map(_prefix, words[:2]))
        return await self._answered(send, name=name, since=time.monotonic())

    async def call(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[object],
        *,
        replicated: bool = False,
    ) -> Any:
        """Call a script; those that write recognise a repeat. Replicated: repeat the call until a
        replica has it."""
        if self.is_cluster:
            keys = [*keys, keys[0] + ABSENT]
        words: tuple[Any, ...] = ("EVALSHA", script.sha, len(keys), *keys, *args)
        since = time.monotonic()
        if replicated:
            send = partial(call_replicated, self.client, keys[0], *words)
        else:
            check_process(self.pid)
            if self.was_full:
                await self._rewrite_file()
            try:  # the fast path, for nearly all calls
                reply = await self.client.execute_command(*words)
                self.accepted.add(script.sha)
                return reply
            except (redis_errors.RedisError, OSError, AttributeError) as error:
                self.was_full |= self.directory is not None and "MISCONF" in str(error)
                send = partial(self._again, [error], words)
        return await self._answered(
            partial(self._loaded, script, send), name=script.sha, since=since
        )

    async def _rewrite_file(self) -> None:
        """Once there is room again: if the disk fills up twice while the server writes to the same
        file, the second time cuts off what it has written since (embedded/process.py)."""
        with suppress(redis_errors.RedisError, OSError):
            info: Any = await self.client.execute_command("INFO", "persistence")
            if info["aof_last_write_status"] == "ok":
                self.was_full = False
                await self.client.execute_command("BGREWRITEAOF")  # refused: another one has asked

    async def _again(self, failed: list[Exception], words: tuple[Any, ...]) -> Any:
        """Raise the error of the fast path as the first attempt, then send."""
        if failed:
            raise failed.pop()
        return await self.client.execute_command(*words)

    async def _answered(
        self, send: Callable[[], Awaitable[Any]], *, name: str, since: float
    ) -> Any:
        """Repeat until there is an answer, or patience has run out when a call fails. A refusal of
        what was accepted before is a change of password or rights there: that can be undone, so we
        may wait."""
        check_process(self.pid)
        give_up_at = since + self.patience_s
        pause_s = 0.02
        with our_errors(self.where, self.directory, accepted=name in self.accepted):
            while True:
                try:
                    reply = await send()
                    self.accepted.add(name)
                    return reply
                except away(redis_errors.ResponseError, AttributeError) as error:
                    if not is_temporary(error) or time.monotonic() > give_up_at:
                        raise
                    if self.on_away and isinstance(error, away()):
                        await self.on_away()
                await pause(pause_s * (0.5 + random.random()))
                pause_s = min(1.0, pause_s * 2)

    async def _loaded(self, script: Script, send: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await send()
        except redis_errors.NoScriptError:
            # The server restarted, or this release is new to it. Nothing ran: this is not a repeat.
            await self.client.script_load(script.source)
            return await send()


def _prefix(word: object) -> str:
    return str(word).partition(":")[0]


def check_process(opened_in: int) -> None:
    """Refuse calls after a fork. A child has our socket, client name and call numbers: the server
    would take its calls for repeats of ours, and return our answers."""
    if process_id() != opened_in:
        raise UsageError("this queue was opened in another process: open one in each.")


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a server reports about itself, as far as it matters to a frontier."""

    name: str
    version: str
    uptime_s: int
    pid: int
    memory_bytes: int
    max_memory_bytes: int
    eviction: str
    append_only: bool
    append_fsync: str | None  # None: CONFIG is forbidden
    last_write_ok: bool


async def inspect(server: Server) -> list[ServerFacts]:
    """Query the server, or all nodes of a cluster that answer: INFO, and CONFIG where that is
    allowed."""
    with our_errors(server.where):
        infos = await _infos(server)
        try:
            config: Any = await server.client.execute_command("CONFIG GET", "appendfsync")
            fsync = config.get("appendfsync") if isinstance(config, dict) else None
        except redis_errors.ResponseError:  # many providers forbid it
            fsync = None
        except away():
            if not server.is_cluster:
                raise
            fsync = None  # of the node that was asked
    return [_facts(info, fsync) for info in infos]


async def _infos(server: Server) -> list[Any]:
    """A cluster goes on without a node, and so do those who come."""
    everybody = {"target_nodes": "all"} if server.is_cluster else {}
    try:
        answer: Any = await server.client.execute_command("INFO", **everybody)
        return [answer] if "redis_version" in answer else list(answer.values())
    except away():
        if not server.is_cluster:
            raise
        found, failed = [], None
        cluster: Any = server.client
        for node in cluster.get_nodes():
            try:
                found.append(await cluster.execute_command("INFO", target_nodes=node))
            except away() as error:
                failed = error
        if not found:
            raise failed or redis_errors.ConnectionError("no node answers") from None
        return found


async def can_write(server: Server) -> bool:
    """Whether the server's last write to disk succeeded. If not, it only serves reads."""
    return all(facts.last_write_ok for facts in await inspect(server))


def _facts(info: dict[str, Any], fsync: str | None) -> ServerFacts:
    name = str(info.get("server_name", "redis"))
    return ServerFacts(
        name=name,
        version=str(info.get("valkey_version" if name == "valkey" else "redis_version", "0")),
        uptime_s=int(info.get("uptime_in_seconds", 0)),
        pid=int(info.get("process_id", 0)),
        memory_bytes=int(info.get("used_memory", 0)),
        max_memory_bytes=int(info.get("maxmemory", 0)),
        eviction=str(info.get("maxmemory_policy", "noeviction")),
        append_only=bool(info.get("aof_enabled", 0)),
        append_fsync=fsync,
        last_write_ok=info.get("aof_last_write_status", "ok") == "ok",
    )


def check_fitness(facts: ServerFacts) -> None:
    """Refuse a server on which URLs would be lost."""
    oldest = OLDEST_SERVERS.get(facts.name, OLDEST_SERVERS["redis"])
    version = tuple(int(part) for part in re.findall(r"\d+", facts.version)[:2])
    if version < oldest:
        raise ServerUnfit(
            f"the server is {facts.name} {facts.version}, which is too old: "
            "use Redis 7.0 or Valkey 7.2, or newer."
        )
    if facts.eviction != "noeviction":
        raise ServerUnfit(
            f"the server may evict keys (maxmemory-policy {facts.eviction}), and so lose URLs: "
            "run `CONFIG SET maxmemory-policy noeviction` on it."
        )


def _client(
    url: str, password: str | None, connections: ConnectionCount, reply_s: float = REPLY_S
) -> Client:
    options: dict[str, Any] = {
        "socket_connect_timeout": CONNECT_S,
        "socket_timeout": reply_s,
        "protocol": 2,  # with 3, a missing password looks like a broken connection
    }
    if password is not None:
        options["password"] = password
    if not has_loop():
        return _sync_client(url, password, options)
    from skitter.frontier.transport.redis_client import redis_client

    return redis_client(url, connections, options)


def _sync_client(url: str, password: str | None, options: dict[str, Any]) -> SyncClient:
    def make() -> Any:
        return blocking_client(url, named=GIVEN, retries=False, **options)

    try:
        address = plain_address(url, password)
    except ValueError as error:
        raise bad_address(GIVEN, url, error) from None
    if address is None:
        client = make()  # at once: it checks the URL, and a cluster is asked for its nodes
        return SyncClient(lambda: client, is_cluster=is_cluster_url(url))
    plain = PlainConnection(address, connect_s=CONNECT_S, reply_s=options["socket_timeout"])
    return SyncClient(make, plain=plain)
