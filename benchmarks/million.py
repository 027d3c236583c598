"""million: `skitter run` on 1,000 hosts of 1,000 pages, while its processes are killed.

The site is nginx, which makes up its pages: page abc links to bc0 ... bc9, so that three steps lead
from any page to all others of its host. Each host is a loopback address of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
import time
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns
from benchmarks.site import find_nginx, free_ports, nginx, user_line
from benchmarks.suite import Suite
from skitter.errors import InfrastructureError
from skitter.frontier.jobs import open_job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

JOB: Final = "million"
WORKERS: Final = 2
LOOK_S: Final = 5.0
STEPS: Final = 10
PAGES_A_HOST: Final = 1000
RATE, KILLS = Figure("pages/s"), Figure("kills")
SERVER, WORKER, LOADER = Figure("MB"), Figure("MB"), Figure("MB")
SERVER_DISK, ROWS_DISK = Figure("MB"), Figure("MB")
_CONFIG: Final = """\
{user}
daemon off;
worker_processes 1;
worker_rlimit_nofile 32768;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    keepalive_requests 1000000;
    client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp;
    uwsgi_temp_path tmp; scgi_temp_path tmp;
    default_type text/html;
    server {{
        {listen}
        location ~ "^/p/[0-9](?<tail>[0-9][0-9])$" {{
            return 200 '<!doctype html><title>$host$uri</title>{links}';
        }}
        location / {{ return 404; }}
    }}
}}
"""
_SPIDER: Final = """\
from skitter import Page, Politeness, Spider

polite = Politeness(delay_s=0, max_in_flight=8)
spider = Spider("million", start={seeds!r}, politeness=polite)


@spider.page
def shelf(page: Page):
    yield {{"page": page.url, "title": page.css_first("title").text()}}
    yield from page.follow_all("a", shelf)
"""


@dataclass(frozen=True, kw_only=True)
class Million(Part):
    """Once: it must be complete and exact, whatever is killed."""

    name: ClassVar[str] = "million"
    hosts: int = 1000
    kill_s: float = 10.0

    async def measure(self, ground: Ground) -> list[Row]:
        crawl = Contender("run", partial(self._crawl, ground))
        await take_turns(ground, [crawl], part=self.name, rounds=1)
        pages = self.hosts * PAGES_A_HOST
        whole = Goal("every URL one row, and a clean audit", least=0.0, of="measured")
        return [
            Row(
                what=f"`skitter run`, {pages:,} pages of {self.hosts:,} hosts, {WORKERS} workers, "
                f"a loader into SQLite, a kill every {self.kill_s:g} s: all of it, "
                "from start to end",
                figure=RATE,
                ours=crawl,
                goal=whole,
            ),
            *(
                Row(what=what, figure=figure, ours=crawl, beside=over_time(crawl.series[figure]))
                for what, figure in (
                    ("processes killed: worker, worker, loader in turn", KILLS),
                    ("memory of the server, at its largest", SERVER),
                    ("memory of a worker, the largest", WORKER),
                    ("memory of the loader, at its largest", LOADER),
                    ("the server's files, at their largest", SERVER_DISK),
                    ("the database's files, at their largest", ROWS_DISK),
                )
                if crawl.series[figure]  # else it was over before the first look
            ),
        ]

    async def _crawl(self, ground: Ground) -> Sample:
        async with made_up_site(ground.directory / "million", self.hosts) as origins:
            home = ground.directory / "home"
            home.mkdir()
            began = time.perf_counter()
            seen = await _run(ground, home, origins, kill_s=self.kill_s)
            seconds = time.perf_counter() - began
            await _check(ground, home, origins)
        return seen | {RATE: [self.hosts * PAGES_A_HOST / seconds]}


def over_time(sizes: list[float]) -> str:
    """How it went, in ten steps."""
    if len(sizes) < STEPS:
        return ""
    ends = [sizes[len(sizes) * step // STEPS - 1] for step in range(1, STEPS + 1)]
    return f"after each tenth of the time: {', '.join(f'{size:.0f}' for size in ends)}"


@asynccontextmanager
async def made_up_site(directory: Path, hosts: int) -> AsyncIterator[list[str]]:
    """The origins of its hosts."""
    directory.mkdir()  # noqa: ASYNC240  at once
    [port] = free_ports(1)
    places = [f"127.0.{1 + n // 250}.{1 + n % 250}:{port}" for n in range(hosts)]
    listen = "\n".join(f"listen {place};" for place in [f"127.0.0.1:{port}", *places])
    links = "".join(f'<a href="/p/${{tail}}{n}">{n}</a>' for n in range(10))
    config = _CONFIG.format(user=user_line(), listen=listen, links=links)
    async with nginx(directory, config, port):
        yield [f"http://{place}" for place in places]


async def _run(ground: Ground, home: Path, origins: list[str], *, kill_s: float) -> Sample:
    """The command, its killer and its watcher."""
    seeds = [f"{origin}/p/000" for origin in origins]
    (home / "million.py").write_text(_SPIDER.format(seeds=seeds))
    words = [sys.executable, "-m", "skitter", "run", "million.py", "--workers", str(WORKERS)]
    words += ["--shape-budget", "none", "--redis", f"unix://{ground.socket}"]
    with (home / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *words, cwd=home, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )
    watch = Watch(ground, home, process.pid, len(origins) * PAGES_A_HOST)
    tasks = [
        asyncio.create_task(work()) for work in (watch.look_on, partial(watch.kill_on, kill_s))
    ]
    try:
        await process.wait()
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        if process.returncode is None:
            process.terminate()
            await process.wait()
    for error in ended:
        if isinstance(error, Exception):
            raise error
    if process.returncode:
        said = (home / "log").read_text(errors="replace")[-2000:]
        raise InfrastructureError(f"skitter run ended with {process.returncode}: {said}")
    return watch.sample | {KILLS: [float(watch.kills)]}


@dataclass(slots=True)
class Watch:
    """Notes sizes over time, and kills."""

    ground: Ground
    home: Path
    pid: int  # of the supervisor
    pages: int
    kills: int = 0
    sample: Sample = field(default_factory=dict)

    async def look_on(self) -> None:
        info = await self.ground.server.command("INFO", "server")
        server = int(info["process_id"])
        while True:
            await asyncio.sleep(LOOK_S)
            self._note(SERVER, _rss_mb(server))
            for pid, words in children(self.pid):
                self._note(LOADER if "load" in words else WORKER, _rss_mb(pid))
            self._note(SERVER_DISK, _size_mb(self.ground.directory / "server"))
            self._note(ROWS_DISK, sum(_size_mb(one) for one in self.home.glob(f"{JOB}.db*")))
            with suppress(Exception):  # there is no job yet
                done = (await (await open_job(self.ground.server, JOB)).stats()).done
                self.ground.progress(
                    f"million: {done:,} of {self.pages:,} pages, {self.kills} kills, server "
                    f"{self.sample[SERVER][-1]:.0f} MB, load {os.getloadavg()[0]:.1f}"
                )

    async def kill_on(self, every_s: float) -> None:
        for is_loader in cycle((False, False, True)):
            await asyncio.sleep(every_s)
            found = [pid for pid, words in children(self.pid) if ("load" in words) == is_loader]
            if found:
                with suppress(ProcessLookupError):
                    os.kill(found[0], signal.SIGKILL)
                    self.kills += 1

    def _note(self, figure: Figure, value: float) -> None:
        self.sample.setdefault(figure, []).append(round(value, 1))


def children(pid: int) -> Iterator[tuple[int, list[str]]]:
    """Its child processes with their words: oldest first."""
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(OSError):
                words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
                yield int(child), words


def _rss_mb(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _size_mb(place: Path) -> float:
    """Of a file, or of all files in a folder."""
    total = 0
    for one in [place] if place.is_file() else place.rglob("*"):
        with suppress(OSError):
            total += one.stat().st_size
    return total / 1e6


async def _check(ground: Ground, home: Path, origins: list[str]) -> None:
    """Reject a crawl that missed a page, stored one twice, or does not add up."""
    wanted = {f"{origin}/p/{n:03}" for origin in origins for n in range(PAGES_A_HOST)}
    with closing(sqlite3.connect(home / f"{JOB}.db")) as opened:
        rows = [row[0] for row in opened.execute(f"SELECT page FROM {JOB}")]
    stats = await (await open_job(ground.server, JOB)).stats()
    if len(rows) != len(wanted) or set(rows) != wanted or stats.done != len(wanted) or stats.dead:
        raise AssertionError(
            f"{len(rows):,} rows of {len(set(rows)):,} pages, {len(set(rows) - wanted):,} of them "
            f"unknown; {stats.done:,} of {len(wanted):,} done, {stats.dead:,} dead"
        )
    words = ["-m", "skitter", "audit", JOB, "--redis", f"unix://{ground.socket}"]
    audit = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=home, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await audit.communicate()
    if audit.returncode:
        raise AssertionError(f"the audit found: {said.decode(errors='replace')}")


MILLION = Suite(
    about=__doc__, full=(Million(),), quick=(Million(hosts=50, kill_s=1.0),), check=find_nginx
)
