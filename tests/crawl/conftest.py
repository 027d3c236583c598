"""Real crawls of the bookshop: `skitter` as its user calls it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bookshop import read_log, stored_items
from forks import Nursery
from shops import open_bookshop, silenced
from skitter.app import open_server
from skitter.demo import SPIDER
from skitter.demo.site import BookShop
from skitter.embedded import stop
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import open_job
from skitter.model import Stats
from skitter.settings import Settings
from waiting import PATIENCE_S
from waiting import until as until

T = TypeVar("T")
_numbers = count(1)


@dataclass
class Shop:
    """An open shop, and what to expect of a crawl."""

    url: str
    log_file: Path
    expected: BookShop

    def log(self):
        return read_log(self.log_file)

    def silent(self) -> AbstractContextManager[None]:
        """It answers nobody meanwhile, so that no crawl of it ends, however slow this machine is.
        Not for minutes: requests time out."""
        return silenced(self.url)


@dataclass
class Machine:
    """A folder with its own embedded server, and the processes started in it."""

    folder: Path
    shop: Shop
    environment: dict[str, str]
    nursery: Nursery
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "skitter", *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def call(self, *words: str, timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        """What ends by itself. It is a fork: what is to be found by its words is started."""
        return self.nursery.call(
            words, folder=self.folder, environment=self.environment, timeout_s=timeout_s
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """With one worker, unless the words say otherwise."""
        return self.call("run", str(SPIDER), "--workers", "1", *words)

    def ask(self, work: Callable[[Frontier], Coroutine[Any, Any, T]], job: str = "books") -> T:
        """Something about the crawl of the shop, without a process that asks."""
        url = self.environment.get("SKITTER_REDIS_URL")
        where = Settings(redis_url=url, directory=self.folder / ".skitter")

        async def opened() -> T:
            async with open_server(where) as server:
                return await work(await open_job(server, job))

        return asyncio.run(opened())

    def stats(self, job: str = "books") -> Stats:
        return self.ask(Frontier.stats, job)

    def rows(self) -> list[dict[str, Any]]:
        """What is in the database, as the spider yielded it."""
        return stored_items(self.folder / "books.db")

    def children(self, word: str) -> list[int]:
        """Processes of this machine's crawl whose command line has that word."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    line = (entry / "cmdline").read_bytes().split(b"\0")
                    folder = (entry / "cwd").readlink()
                except OSError:
                    continue
                if folder.is_relative_to(self.folder) and word.encode() in line:
                    found.append(int(entry.name))
        return found

    def server_pid(self) -> int | None:
        """The embedded Valkey of this folder."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    line = (entry / "cmdline").read_bytes()
                    folder = (entry / "cwd").readlink()
                except OSError:
                    continue
                if folder == self.folder / ".skitter" and b"valkey-server" in line:
                    return int(entry.name)
        return None

    def stop_all(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        kill(*self.children("work"), *self.children("load"))
        stop(self.folder / ".skitter")


def kill(*pids: int | None) -> None:
    """kill -9; one that has just ended by itself is as dead as the others."""
    for pid in pids:
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(name="until")
def until_fixture():
    return until


@pytest.fixture
def open_shop(tmp_path) -> Iterator[Callable[..., Shop]]:
    with ExitStack() as stack:

        def open_one(**options: Any) -> Shop:
            log_file = tmp_path / "access.log"
            opened = stack.enter_context(open_bookshop(log_file, **options))
            return Shop(opened.url, log_file, opened)

        yield open_one


@pytest.fixture
def make_machine(short_dir, nursery) -> Iterator[Callable[..., Machine]]:
    machines: list[Machine] = []

    def make(shop: Shop, **environment: str) -> Machine:
        folder = short_dir / f"m{next(_numbers)}"
        folder.mkdir()
        given = {**os.environ, "SKITTER_DEMO_URL": shop.url, **environment}
        machine = Machine(folder, shop, given, nursery)
        machine.environment.pop("SKITTER_DIR", None)
        machines.append(machine)
        return machine

    yield make
    for machine in machines:
        machine.stop_all()
