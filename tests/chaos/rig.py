"""The rig: private servers that can be killed, fleets of real processes, waits on conditions."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from inspect import isawaitable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec
import pytest
from redis import Redis

from chaos.oracle import Oracle
from chaos.worker import Orders
from forks import Fork, Nursery, Place
from skitter.embedded import EmbeddedServer, ServerOptions, process, start, stop
from skitter.frontier.audit.auditor import audit
from skitter.frontier.delays import open_host
from skitter.frontier.items import read_items
from skitter.frontier.transport.messages import decode
from skitter.frontier.transport.shard import scan_keys
from skitter.settings import JobOptions, Politeness, Retries
from skitter.trust import make_ours
from waiting import PATIENCE_S

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.shard import Shard

TESTS = Path(__file__).parents[1]
LOOK_EVERY_S = 0.02
Process = Fork | subprocess.Popen[bytes]


async def until(condition: Callable[[], Any], *, what: str, within_s: float = PATIENCE_S) -> None:
    """Look again and again, until it is so."""
    give_up_at = time.monotonic() + within_s
    while True:
        found = condition()
        if await found if isawaitable(found) else found:
            return
        if time.monotonic() > give_up_at:
            pytest.fail(f"waited {within_s:.0f} s in vain until {what}")
        await asyncio.sleep(LOOK_EVERY_S)


class PrivateServer:
    """An embedded server of one test, which may kill it."""

    def __init__(self, options: ServerOptions | None = None) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="skc", dir="/tmp"))  # short: a socket's path
        self.options = options or ServerOptions()
        self.home = EmbeddedServer(directory=self.base / "v")

    @property
    def url(self) -> str:
        return self.home.url

    @property
    def append_only_file(self) -> Path:
        """The part that grows."""
        [file] = (self.home.directory / "appendonlydir").glob("*.incr.aof")
        return file

    def start(self) -> None:
        """All that is answered is written, whatever else the disk has to do.

        With `everysec` the server puts off its writes for up to two seconds while a sync takes
        long, and answers all the same: a kill then takes answers with it. Tests of that cut the
        file off themselves.
        """
        start(self.home.directory, self.options)
        with Redis.from_url(self.url) as client:
            client.config_set("appendfsync", "no")

    def kill(self) -> None:
        """kill -9, by the pid that the server itself wrote; it is ours, and nobody else's child."""
        os.kill(int((self.home.directory / "valkey.pid").read_text()), signal.SIGKILL)

    @property
    def alive(self) -> bool:
        return process.is_alive(self.home)

    async def restart(self, *, cut_to: int | None = None) -> None:
        """Kill it, cut the end of its file off if told to, and start it again once it is gone."""
        self.kill()
        await until(lambda: not self.alive, what="the killed server is gone", within_s=10)
        if cut_to is not None:
            os.truncate(self.append_only_file, cut_to)
        await asyncio.to_thread(self.start)

    def copy(self) -> PrivateServer:
        """A second server on a copy of the first one's data. Only the data: no locks, no pid."""
        other = PrivateServer(self.options)
        make_ours(other.home.directory)
        source = self.home.directory / "appendonlydir"
        shutil.copytree(source, other.home.directory / "appendonlydir")
        return other

    def close(self) -> None:
        try:
            stop(self.home.directory)
        finally:
            if self.alive:
                self.kill()
            shutil.rmtree(self.base)


class Fleet:
    """Processes of one test: started, stopped, killed by their own pid, never left behind."""

    def __init__(self, directory: Path, nursery: Nursery) -> None:
        self.oracle = Oracle(directory / "oracle")
        self._directory, self._nursery = directory, nursery
        self._processes: list[Process] = []
        self.killed: set[int] = set()

    def start(
        self, role: str, server: str, job: str, *, env: dict[str, str] | None = None, **orders: Any
    ) -> Process:
        """A fork, unless its environment has to be there when it begins."""
        given = Orders(server=server, job=job, oracle=str(self.oracle.path), **orders)
        words = [role, msgspec.json.encode(given).decode()]
        started: Process
        with self._errors(len(self._processes)).open("w") as errors:
            if env:
                started = _begin(words, env, errors)
            else:
                place = Place(self._directory, {**os.environ}, errors, errors)
                started = self._nursery.start(words, place)
        self._processes.append(started)
        return started

    @property
    def living(self) -> list[Process]:
        return [one for one in self._processes if one.poll() is None]

    async def ready(self, count: int) -> None:
        """Until so many have ever connected."""
        await until(
            lambda: self.oracle.count("ready") >= count or self.complaints(),
            what=f"{count} processes are ready",
        )
        assert not self.complaints()

    def kill(self, one: Process) -> None:
        self.killed.add(one.pid)
        _end(one)

    async def stop(self, one: Process) -> None:
        """SIGSTOP, and wait until it does nothing more."""
        os.kill(one.pid, signal.SIGSTOP)
        stat = Path(f"/proc/{one.pid}/stat")
        await until(lambda: stat.read_text().rpartition(") ")[2][0] == "T", what="it stands still")

    async def ended(self, ones: list[Process] | None = None) -> None:
        """Until all of them left by themselves, without a complaint."""
        waited = self._processes if ones is None else ones
        await until(lambda: all(one.poll() is not None for one in waited), what="processes end")
        assert not self.complaints()
        assert {one.returncode for one in waited if one.pid not in self.killed} <= {0}

    async def dismiss(self) -> None:
        """Ask all workers to stop between two leases; those who died of an error have said why."""
        for one in self.living:
            one.terminate()
        await self.ended()

    def complaints(self) -> str:
        """What processes that ended in an error have said."""
        return "\n".join(
            self._errors(number).read_text()
            for number, one in enumerate(self._processes)
            if one.poll() not in (None, 0) and one.pid not in self.killed
        )

    def close(self) -> None:
        for one in self._processes:
            _end(one)

    def _errors(self, number: int) -> Path:
        return self._directory / f"process-{number}"


def _begin(words: list[str], env: dict[str, str], errors: IO[str]) -> Process:
    paths = {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "chaos.worker", *words],
        env=os.environ | paths | env,
        stdin=subprocess.DEVNULL,
        stdout=errors,
        stderr=errors,
        start_new_session=True,  # Ctrl-C is for the test, which then ends them
    )


def _end(one: Process) -> None:
    one.kill()
    one.wait()
    for left in ("faketime_shm_", "sem.faketime_sem_"):  # by a process with libfaketime
        Path(f"/dev/shm/{left}{one.pid}").unlink(missing_ok=True)


def slow(*values: Any) -> Any:
    """Parameters of a long version, run by `make chaos`."""
    return pytest.param(*values, marks=pytest.mark.chaos)


def rude(*, max_in_flight: int = 1000, max_losses: int = 1000) -> JobOptions:
    """No politeness, and workers may vanish as often as they like."""
    return JobOptions(
        politeness=Politeness(delay_s=0, max_in_flight=max_in_flight),
        retries=Retries(max_retries=3, max_losses=max_losses),
    )


async def finished(frontier: Frontier, fleet: Fleet | None = None) -> bool:
    """Whether nothing is left to do. Workers that die of an error are not waited for in vain."""
    complaints = fleet.complaints() if fleet else ""
    assert not complaints, complaints
    return (await frontier.stats()).crawled


async def progress(frontier: Frontier, fleet: Fleet, *, by: int) -> None:
    """Until so many more are done, or all of them: a moment that a seed can choose."""
    goal = fleet.oracle.count("done") + by

    async def reached() -> bool:
        return fleet.oracle.count("done") >= goal or await finished(frontier, fleet)

    await until(reached, what=f"{goal} are done")


async def results(frontier: Frontier) -> Counter[str]:
    """How many results of each URL are to be seen."""
    pages = [page async for page in read_items(frontier)]
    return Counter(result.url for page in pages for result in page)


def once(urls: list[str]) -> Counter[str]:
    return Counter(dict.fromkeys(urls, 1))


async def assert_clean(frontier: Frontier) -> None:
    report = await audit(frontier)
    assert report.clean, sorted(report.problems)[:20]
    assert report.exact


READERS = {
    "hash": ("HGETALL",),
    "zset": ("ZRANGE", 0, -1, "WITHSCORES"),
    "set": ("SMEMBERS",),
    "stream": ("XRANGE", "-", "+"),
    "string": ("GET",),
    "list": ("LRANGE", 0, -1),
}


#: Of a Lua table that is packed the order means nothing.
OPENERS: dict[str, Callable[[bytes], Any]] = {"hosts": open_host, "trouble": decode}


async def snapshot(shard: Shard) -> dict[str, Any]:
    """All keys of a shard and what they hold; not who asked last, nor when things came to be."""
    found = {}
    for key in [one async for keys in scan_keys(shard) for one in keys]:
        name, member = shard.keys.name_of(key) or ("", key)
        if name != "recent":
            command, *more = READERS[shard.keys.spec(name).type]
            value = await shard.server.command(command, key, *more)
            if command == "XRANGE":
                value = [fields for _, fields in value]
            if name in OPENERS:
                value = {field: OPENERS[name](packed) for field, packed in value.items()}
            if name == "control":
                value = {field: held for field, held in value.items() if field != b"born"}
            found[f"{name} {member}"] = value
    return found
