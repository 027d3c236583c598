"""A crawl in a storm: the processes of a scene on a server behind a wire."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from redis import Redis, RedisError

from chaos.rig import assert_clean
from disks import mount_disk, unmount_disk
from skitter.embedded import ServerOptions, start, stop
from skitter.frontier.dead import Filter, dead_letters, revive
from skitter.frontier.jobs import open_job
from skitter.frontier.transport.connection import connect
from skitter.frontier.transport.messages import open_record
from storm.processes import Kept, end_all, processes_of
from storm.scenes import OUT, Scene
from storm.wire import Wire, open_wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from storm.site import Site


@dataclass
class Crawl:
    """The processes of one crawl, and the server that they share."""

    folder: Path
    scene: Scene
    wire: Wire
    api_port: int
    mains: list[Kept] = field(default_factory=list)
    helpers: list[Kept] = field(default_factory=list)
    disks: list[Path] = field(default_factory=list)  # small ones, of the server and the output
    may_be_unwritten: bool = False  # the server's disk was full: its last answers may be in memory
    versions: list[str] = field(default_factory=list)  # of a spider that is deployed meanwhile
    has_rewritten: bool = False  # its file, since it started

    def prepare(self, site: Site) -> None:
        self.folder.mkdir()
        (self.folder / "spider.py").write_text(self.scene.spider(site))
        if self.scene.next_spider:
            self.versions = [self.scene.spider(site), self.scene.next_spider(site)]
            for name in self.scene.helpers:
                self.deploy(name, 0)
        for place in (self.server_directory, (self.folder / OUT).parent):
            if not mount_disk(place, size=self.scene.disk):  # it takes root
                self.disks.append(place)
        self.start_server()
        environment = self.environment | self.scene.environment(self.folder)
        self.mains, self.helpers = (
            [Kept(name, self._words(words), self.folder, environment) for name, words in of.items()]
            for of in (self.scene.mains, self.scene.helpers)
        )

    def deploy(self, name: str, version: int) -> None:
        (self.folder / f"{name}.py").write_text(self.versions[version])

    def _words(self, words: list[str]) -> list[str]:
        return [word.format(port=self.api_port) for word in words]

    @property
    def environment(self) -> dict[str, str]:
        return {"SKITTER_REDIS_URL": self.wire.url, "XDG_STATE_HOME": str(self.folder)}

    def tend(self) -> None:
        """Start all that is not running, and should."""
        for one in self.helpers:
            if not one.is_running:
                one.begin()
        for one in self.mains:
            if not one.is_running and not one.is_over:
                one.begin()

    @property
    def is_over(self) -> bool:
        return all(one.is_over for one in self.mains)

    def pids(self, word: str) -> list[int]:
        return processes_of(self.folder, word)

    # --- the server -------------------------------------------------------------------------------

    @property
    def server_directory(self) -> Path:
        return self.folder / "v"

    def server_pid(self) -> int:
        return int((self.server_directory / "valkey.pid").read_text())

    def start_server(self) -> None:
        """All that it answers is written, whatever else the disk has to do: see chaos/rig.py."""
        self.free_disk(self.server_directory)
        start(self.server_directory, ServerOptions(port=self.wire.server_port))
        self.has_rewritten = False
        with Redis(port=self.wire.server_port) as client:
            client.config_set("appendfsync", "no")

    def has_written(self) -> bool:
        """Whether all that it answered is in its file. The write that meets a full disk is answered
        and kept in memory until there is room, and the server gets to it."""
        if self.may_be_unwritten and not (self.server_directory / "filler").exists():
            with (
                suppress(RedisError),
                Redis(port=self.wire.server_port, socket_timeout=1) as client,
            ):
                status = client.info("persistence")["aof_last_write_status"]
                self.may_be_unwritten = status != "ok"
        return not self.may_be_unwritten

    async def waiting(self) -> set[str]:
        """The URLs that the server has, where no process takes any: read past the wire."""
        async with connect(f"redis://127.0.0.1:{self.wire.server_port}") as server:
            frontier = await open_job(server, "storm")
            records = [await shard.command("HVALS", "task") for shard in frontier.shards]
            return {open_record(one)[2].url for part in records for one in part}

    def rewrite_file(self) -> None:
        self.has_rewritten = True
        with suppress(RedisError), Redis(port=self.wire.server_port, socket_timeout=1) as client:
            client.bgrewriteaof()

    def limit_memory(self, most: int) -> None:
        with suppress(RedisError), Redis(port=self.wire.server_port) as client:
            used = int(client.info("memory")["used_memory"])
            client.config_set("maxmemory", used + most if most else 0)

    def free_disk(self, place: Path) -> None:
        (place / "filler").unlink(missing_ok=True)

    # --- what came of it --------------------------------------------------------------------------

    def rows(self) -> list[int]:
        with closing(sqlite3.connect(self.folder / OUT)) as database:
            return sorted(row[0] for row in database.execute("SELECT number FROM storm"))

    def ask(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "skitter", *words],
            cwd=self.folder,
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    async def wait_for_loader(self) -> None:
        async with connect(self.wire.url) as server:
            frontier = await open_job(server, "storm")
            while (await frontier.stats()).items:
                self.tend()
                await asyncio.sleep(0.1)

    async def revive_lost(self) -> int:
        """A page is dead if it was alone in two Scrapy nodes that were killed. That is meant for
        pages that kill, and these did not: an operator would bring them back."""
        async with connect(self.wire.url) as server:
            frontier = await open_job(server, "storm")
            lost = Filter(reason="its worker vanished")
            return await revive(frontier, [one async for one in dead_letters(frontier, lost)])

    async def check(self, site: Site) -> None:
        """Nothing given up but poison, for the reason foreseen; every URL accounted for."""
        async with connect(self.wire.url) as server:
            frontier = await open_job(server, "storm")
            letters = {one.url: one.reason async for one in dead_letters(frontier)}
            assert set(letters) == set(site.dead), letters
            for url, reason in site.dead.items():
                assert re.search(reason, letters[url]), (url, letters[url])
            stats = await frontier.stats()
            assert (stats.pending, stats.leased) == (0, 0), stats
            await assert_clean(frontier)

    def end(self) -> None:
        for pid in self.pids(""):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        end_all(self.folder)
        for one in [*self.mains, *self.helpers]:
            one.kill()
        stop(self.server_directory)
        for place in self.disks:
            unmount_disk(place)


@asynccontextmanager
async def open_crawl(
    folder: Path, scene: Scene, site: Site, ports: list[int]
) -> AsyncIterator[Crawl]:
    async with open_wire(ports[0]) as wire:
        crawl = Crawl(folder, scene, wire, ports[1])
        try:
            await asyncio.to_thread(crawl.prepare, site)
            crawl.tend()
            yield crawl
        finally:
            await asyncio.to_thread(crawl.end)
