"""A crawl in a storm: `skitter run` on a server behind a wire, and what may happen to them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from redis import Redis, RedisError

from skitter.valkey import ServerOptions, start, stop
from storm.wire import Wire, open_wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from storm.site import Site

#: `max_retries` is high: the site is unwell on purpose, and so is everything else.
SPIDER = """
from skitter import Page, Politeness, Retries, Spider

spider = Spider(
    "storm",
    start={start!r},
    politeness=Politeness(delay_s=0, max_in_flight=8),
    retries=Retries(max_retries=1000, max_losses=1000, base_s=0.05, cap_s=1.0),
)

@spider.page
def page(page: Page):
    yield {{"number": int(page.css_first("h1").text())}}
    yield from page.follow_all()
"""
UNREACHABLE = 3
LEASE_S = 5  # a process that is stopped for longer has lost what it held


@dataclass
class Crawl:
    """The processes of one crawl, and the server that they share."""

    folder: Path
    wire: Wire
    run: subprocess.Popen[bytes] | None = None
    runs: int = 0

    def prepare(self, site: Site) -> None:
        self.folder.mkdir()
        (self.folder / "spider.py").write_text(SPIDER.format(start=site.seeds))
        self.start_server()

    def begin(self) -> None:
        """Start it, or start it again."""
        words = ["run", "spider.py", "--workers", "2", "--out", "rows.db", "--json"]
        words += ["-s", f"workers.lease_s={LEASE_S}", "-s", "workers.concurrency=16"]
        program = [sys.executable, "-m", "skitter", *words]
        self.runs += 1
        environment = os.environ | {"SKITTER_REDIS_URL": f"redis://127.0.0.1:{self.wire.port}"}
        with (self.folder / f"run-{self.runs}").open("wb") as output:
            self.run = subprocess.Popen(
                program,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def is_over(self) -> bool:
        """Whether it ended well. One that ended otherwise, and was not killed, is a failure; but
        who cannot reach the server at the very start says so, and is started again."""
        assert self.run
        code, said = self.run.poll(), self.last_words()
        if code in (None, -signal.SIGKILL) or (code == UNREACHABLE and said.count("\n") == 1):
            return False
        assert code == 0, said
        return True

    @property
    def is_running(self) -> bool:
        return self.run is not None and self.run.poll() is None

    def last_words(self) -> str:
        return (self.folder / f"run-{self.runs}").read_text()[-2000:]

    def children(self, role: str) -> list[int]:
        """The pids of its workers (`work`), or of its loader (`load`), whoever started them."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                line = (entry / "cmdline").read_bytes().split(b"\0")
                is_ours = (entry / "cwd").readlink() == self.folder
                if is_ours and role.encode() in line and b"--parent" in line:
                    found.append(int(entry.name))
        return found

    @property
    def server_directory(self) -> Path:
        return self.folder / "v"

    def server_pid(self) -> int:
        return int((self.server_directory / "valkey.pid").read_text())

    def start_server(self) -> None:
        start(self.server_directory, ServerOptions(port=self.wire.server_port))

    def limit_memory(self, most: int) -> None:
        with suppress(RedisError), Redis(port=self.wire.server_port) as client:
            used = int(client.info("memory")["used_memory"])
            client.config_set("maxmemory", used + most if most else 0)

    def rows(self) -> list[int]:
        with closing(sqlite3.connect(self.folder / "rows.db")) as database:
            return sorted(row[0] for row in database.execute("SELECT number FROM storm"))

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "skitter", *words],
            cwd=self.folder,
            env=os.environ | {"SKITTER_REDIS_URL": f"redis://127.0.0.1:{self.wire.port}"},
            capture_output=True,
            text=True,
            check=False,
        )

    async def check(self, site: Site) -> None:
        """Every page once in the database, nothing given up, every URL accounted for."""
        rows = self.rows()
        assert rows == list(range(site.pages)), (len(rows), len(set(rows)), site.pages)
        status = await asyncio.to_thread(self.ask, "status", "storm", "--json")
        found = json.loads(status.stdout)
        assert (found["done"], found["dead"], found["leased"]) == (site.pages, 0, 0), found
        audit = await asyncio.to_thread(self.ask, "audit", "storm")
        assert audit.returncode == 0, audit.stdout + audit.stderr

    def end(self) -> None:
        pids = [*self.children("work"), *self.children("load")]
        if self.run and self.run.poll() is None:
            self.run.kill()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)
        if self.run:
            self.run.wait()
        stop(self.server_directory)


@asynccontextmanager
async def open_crawl(folder: Path, site: Site, port: int) -> AsyncIterator[Crawl]:
    async with open_wire(port) as wire:
        crawl = Crawl(folder, wire)
        await asyncio.to_thread(crawl.prepare, site)
        try:
            crawl.begin()
            yield crawl
        finally:
            await asyncio.to_thread(crawl.end)
