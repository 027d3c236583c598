"""Peers: what people would use instead, each installed once into its own environment."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.processes import last_line, run_to_end
from skitter.errors import InfrastructureError

if TYPE_CHECKING:
    from benchmarks.processes import Figures

#: As resolved by pip in November 2026. hiredis is a gift: scrapy-redis does not require it, and is
#: slower without.
SCRAPY_REDIS: Final = ("scrapy-redis==0.9.1", "Scrapy==2.19.0", "redis==8.1.0", "hiredis==3.5.0")
CRAWLEE: Final = ("crawlee[parsel]==1.11.0", "parsel==1.12.1", "impit==0.15.1", "lxml==6.1.3")
CELERY: Final = (
    "celery[redis]==5.7.0",
    "kombu==5.7.0",
    "redis==8.1.0",
    "hiredis==3.5.0",
    "aiohttp==3.14.5",
    "httpx==0.28.1",
    "selectolax==1.0.2",
    "packaging==26.3",  # kombu imports it without requiring it
)
FASTAPI_PINS: Final = (
    "fastapi==0.162.4",
    "uvicorn==0.54.0",
    "httptools==0.9.0",
    "uvloop==0.23.0",
    "redis==8.1.0",
    "hiredis==3.5.0",
)
CONCURRENT: Final = 64
PROCESSES: Final = 2
RIVALS: Final = Path(__file__).parent / "rivals"
INSTALL_S: Final = 600
LIMIT_S: Final = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A script in rivals/, the environment it runs in, and its task."""

    title: str
    script: str
    home: str = ""  # of the environment; "": ours
    requirements: tuple[str, ...] = ()
    task: tuple[tuple[str, object], ...] = ()
    least_ratio: float | None = None  # how many times as fast as it we want to be

    @property
    def versions(self) -> str:
        return " ".join(self.requirements).replace("==", " ")

    @property
    def python(self) -> Path:
        return _python_of(self.home) if self.home else Path(sys.executable)

    def install(self) -> None:
        """Install it unless present. Raises InfrastructureError, saying what failed."""
        if self.home:
            environment(self.home, self.requirements)

    async def run(self, *, limit_s: float = LIMIT_S, **task: object) -> Figures:
        """Pass the script a task as JSON, return its figures."""
        argument = msgspec.json.encode({**dict(self.task), **task}).decode()
        words = [str(self.python), str(RIVALS / self.script), argument]
        return await run_to_end(words, name=self.title, limit_s=limit_s)

    async def crawl(self, seed: str, *, pages: int, socket: Path) -> Figures:
        """All pages of a site, from the first."""
        figures = await self.run(seed=seed, pages=pages, socket=str(socket))
        if figures["pages"] < pages:  # Scrapy and scrapy-redis fetch their seed twice
            raise AssertionError(f"{self.title}: {figures['pages']:,} of {pages:,} pages")
        return figures


def peers_directory() -> Path:
    """Where peers are kept: SKITTER_BENCH_DIR, or the user's cache."""
    if chosen := os.environ.get("SKITTER_BENCH_DIR"):
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "skitter" / "bench"


def environment(name: str, requirements: tuple[str, ...]) -> Path:
    """The Python of an environment with exactly these requirements; created once, even if several
    processes ask for it at the same time."""
    python = _python_of(name)
    home = python.parents[1]
    done = home / "installed.txt"
    wanted = "\n".join((sys.version, *requirements))
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with home.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (done.is_file() and done.read_text() == wanted):
                shutil.rmtree(home, ignore_errors=True)
                _quietly(sys.executable, "-m", "venv", home)
                _quietly(
                    python, "-m", "pip", "install", "--disable-pip-version-check", *requirements
                )
                done.write_text(wanted)
    except (OSError, subprocess.SubprocessError) as error:
        raise InfrastructureError(
            f"cannot install {' '.join(requirements)} into {home} ({_why(error)}): check the "
            "package index, choose another directory with SKITTER_BENCH_DIR, or leave the "
            "peers out with --no-peers."
        ) from error
    return python


def _python_of(home: str) -> Path:
    return peers_directory().absolute() / home / "bin" / "python"


def _quietly(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)


def _why(error: OSError | subprocess.SubprocessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return last_line(error.stderr) or f"exit status {error.returncode}"
    return str(error)


SCHEDULER: Final = Peer(
    title="scrapy-redis",
    script="queue_scrapy_redis.py",
    home="scrapy-redis",
    requirements=SCRAPY_REDIS,
)
SCRAPY_REDIS_CRAWL: Final = Peer(
    title=f"scrapy-redis 0.9.1, {CONCURRENT} concurrent",
    script="crawl_scrapy.py",
    home="scrapy-redis",
    requirements=SCRAPY_REDIS,
    task=(("engine", "scrapy-redis"), ("concurrency", CONCURRENT)),
    least_ratio=30.0,
)
SCRAPY_CRAWL: Final = Peer(
    title=f"plain Scrapy 2.19 in memory, {CONCURRENT} concurrent",
    script="crawl_scrapy.py",
    home="scrapy-redis",
    requirements=SCRAPY_REDIS,
    task=(("engine", "plain"), ("concurrency", CONCURRENT)),
    least_ratio=10.0,
)
CRAWLEE_CRAWL: Final = Peer(
    title=f"Crawlee 1.11 in memory, {CONCURRENT} concurrent",
    script="crawl_crawlee.py",
    home="crawlee",
    requirements=CRAWLEE,
    # Faster than with BeautifulSoup.
    task=(("concurrency", CONCURRENT), ("parser", "parsel")),
    least_ratio=10.0,
)
SCRAPY_CATALOGUE: Final = replace(
    SCRAPY_CRAWL, script="catalogue_scrapy.py", task=(("concurrency", CONCURRENT),), least_ratio=5.0
)
CRAWLEE_CATALOGUE: Final = replace(
    CRAWLEE_CRAWL,
    script="catalogue_crawlee.py",
    task=(("concurrency", CONCURRENT),),
    least_ratio=8.0,
)
FASTAPI: Final = Peer(
    title="FastAPI, pydantic, a redis-py pipeline",
    script="push_fastapi.py",
    home="fastapi",
    requirements=FASTAPI_PINS,
)
CELERY_PLAIN: Final = Peer(
    title=f"Celery, {PROCESSES} processes, httpx.get and a SADD a link",
    script="crawl_celery.py",
    home="celery",
    requirements=CELERY,
    task=(("processes", PROCESSES), ("way", "plain")),
    least_ratio=20.0,
)
CELERY_TUNED: Final = Peer(
    title=f"Celery, {PROCESSES} processes, httpx.Client kept open and one pipeline a page",
    script="crawl_celery.py",
    home="celery",
    requirements=CELERY,
    task=(("processes", PROCESSES), ("way", "tuned")),
)
CELERY_RECORD: Final = Peer(
    title=f"Celery, {PROCESSES} processes, one task a URL, httpx.Client kept open",
    script="crawl_celery.py",
    home="celery",
    requirements=CELERY,
    task=(("processes", PROCESSES), ("way", "record")),
    least_ratio=2.0,
)
CELERY_BATCH: Final = Peer(
    title=f"Celery, {PROCESSES} processes, 100 URLs a task, fetched at once by aiohttp",
    script="crawl_celery.py",
    home="celery",
    requirements=CELERY,
    task=(("processes", PROCESSES), ("way", "batch")),
)
