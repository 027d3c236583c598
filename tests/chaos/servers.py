"""Servers that are not the embedded one: Debian's Redis, and a cluster of Valkey nodes."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as NoConnection
from redis.retry import Retry

from chaos.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from skitter.frontier.frontier import Frontier

SLOTS = 16384


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, nor on those 10,000 above, which cluster nodes use as well.

    Below those that the system gives to clients, or one of them might come first.
    """
    tried = (random.randrange(12_000, 21_000) for _ in range(10_000))
    return list(islice((port for port in tried if _is_free(port, port + 10_000)), count))


def _is_free(*ports: int) -> bool:
    try:
        for port in ports:
            socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


class Node:
    """One server on a port of this machine, a child of the test."""

    def __init__(self, binary: str | Path, directory: Path, **options: str) -> None:
        [self.port] = free_ports(1)
        self.password = options.get("requirepass")
        self._directory = directory
        words = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(directory), "save": ""}
        given = [(f"--{name}", value) for name, value in (words | options).items()]
        self._program = [str(binary), *(part for pair in given for part in pair)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._directory.mkdir(exist_ok=True)
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._program, stdout=log, stderr=log, start_new_session=True
            )

    def send(self, number: signal.Signals) -> None:
        if self._process:
            self._process.send_signal(number)

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()

    def ask(self, *words: Any) -> Any:
        once = Retry(NoBackoff(), 0)
        with Redis(port=self.port, password=self.password, retry=once) as client:
            return client.execute_command(*words)

    def answers(self) -> bool:
        try:
            return bool(self.ask("PING"))
        except NoConnection:
            return False


class Sentinel(Node):
    """Watches one master, and needs nobody's consent to make a replica the next."""

    def __init__(self, binary: str | Path, directory: Path, *, service: str, master: Node) -> None:
        super().__init__(binary, directory)
        self._service, self._master = service, master
        self._program = [str(binary), str(directory / "sentinel.conf"), "--sentinel"]

    def start(self) -> None:
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self._directory}",
            f"sentinel monitor {self._service} 127.0.0.1 {self._master.port} 1",
            f"sentinel down-after-milliseconds {self._service} 500",
            f"sentinel failover-timeout {self._service} 3000",
        ]
        if self._master.password:
            lines.append(f"sentinel auth-pass {self._service} {self._master.password}")
        self._directory.mkdir(exist_ok=True)
        (self._directory / "sentinel.conf").write_text("\n".join(lines) + "\n")
        super().start()

    def knows_a_replica(self) -> bool:
        return bool(self.ask("SENTINEL", "REPLICAS", self._service))


@contextmanager
def running(nodes: list[Node]) -> Iterator[list[Node]]:
    try:
        for one in nodes:
            one.start()
        yield nodes
    finally:
        for one in nodes:
            one.kill()


def in_step(primary: Node, replica: Node) -> bool:
    """Whether the replica has all that the primary has written. WAIT would not tell: on a
    connection that has written nothing, it waits for nothing."""
    sent, got = (one.ask("INFO", "replication") for one in (primary, replica))
    return bool(sent["master_repl_offset"] == got["slave_repl_offset"])


async def join(nodes: list[Node]) -> None:
    """Make one cluster of them, each with its share of the slots."""
    for number, one in enumerate(nodes):
        await until(one.answers, what="a node answers", within_s=30)
        first, last = (SLOTS * at // len(nodes) for at in (number, number + 1))
        one.ask("CLUSTER", "ADDSLOTSRANGE", first, last - 1)
        one.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
    for one in nodes[1:]:
        nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", one.port)
    wanted = {"cluster_state:ok", f"cluster_known_nodes:{len(nodes)}"}
    await until(lambda: all(wanted <= cluster_facts(one) for one in nodes), what="they have met")


async def follow(replica: Node, primary: Node) -> None:
    """Make an empty node of the cluster a replica of another."""
    await meet(replica, primary)
    replica.ask("CLUSTER", "REPLICATE", node_id(primary))
    await until(
        lambda: replica.ask("INFO", "replication").get("master_link_status") == "up",
        what="the replica has its primary",
    )


async def meet(newcomer: Node, member: Node) -> None:
    """Until each of them knows the other."""
    await until(newcomer.answers, what="a node answers", within_s=30)
    member.ask("CLUSTER", "MEET", "127.0.0.1", newcomer.port)
    await until(
        lambda: all(
            node_id(one) in other.ask("CLUSTER", "NODES")
            for one, other in ((newcomer, member), (member, newcomer))
        ),
        what="they have met",
    )


def node_id(one: Node) -> bytes:
    return bytes(one.ask("CLUSTER", "MYID"))


def slots_on(frontier: Frontier, one: Node) -> list[int]:
    """The slots of a job's shards that a node has."""
    keys = [shard.keys.key("control") for shard in frontier.shards]
    slots = {one.ask("CLUSTER", "KEYSLOT", key) for key in keys}
    mine = [
        range(first, last + 1)
        for first, last, primary, *_ in one.ask("CLUSTER", "SLOTS")
        if primary[1] == one.port
    ]
    return sorted(slot for slot in slots if any(slot in some for some in mine))


def move_slot(slot: int, source: Node, target: Node, others: list[Node]) -> None:
    """As `valkey-cli --cluster reshard` does it, key by key."""
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(source))
    source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(target))
    where = ("127.0.0.1", target.port, "", 0, 10_000)
    while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 10):
        source.ask("MIGRATE", *where, "KEYS", *keys)
    for one in (target, source, *others):
        one.ask("CLUSTER", "SETSLOT", slot, "NODE", node_id(target))


def cluster_facts(one: Node) -> set[str]:
    """What a node thinks of its cluster: `cluster_state:ok` and so on."""
    return set(one.ask("CLUSTER", "INFO").decode().split())
