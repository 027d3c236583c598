"""Real Celery workers on an embedded server, the bookshop beside them, and an app to call from."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest

from crawl.conftest import Shop
from forks import Fork, Nursery, Place
from shops import open_bookshop
from skitter.celery import CelerySettings, make_app
from skitter.celery.runtime import runtime_of
from skitter.embedded import EmbeddedServer, start, stop
from skitter.errors import JobMissing
from skitter.frontier.audit.auditor import audit
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job, open_job
from skitter.settings import JobOptions, Limits, Politeness, Retries, Settings
from waiting import PATIENCE_S, until

T = TypeVar("T")
HERE = Path(__file__).parent
_numbers = count(1)
RUDE = JobOptions(
    politeness=Politeness(delay_s=0, max_in_flight=1000),
    retries=Retries(max_retries=3, base_s=0.01, cap_s=0.02),
    limits=Limits(max_depth=0),
)


class Failing(ThreadingHTTPServer):
    """A site that answers 500, and knows how often; robots.txt excepted."""

    asked = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Failure)
        self.host = f"localhost:{self.server_port}"
        self.url = f"http://{self.host}/"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Failure(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Failing)
        self.server.asked += self.path == "/"
        self.send_response(500 if self.path == "/" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@dataclass
class Station:
    """A folder with an embedded server, a shop, and Celery workers as their user starts them."""

    folder: Path
    shop: Shop
    environment: dict[str, str]
    settings: CelerySettings
    failing: Failing
    nursery: Nursery | None = None
    started: list[subprocess.Popen[bytes] | Fork] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.app = make_app(self.settings)
        self.scrape, self.scrape_many, self.crawl, self.summarize = (
            self.app.tasks[f"skitter.{name}"]
            for name in ("scrape", "scrape_many", "crawl", "summarize")
        )

    # --- processes --------------------------------------------------------------------------------

    def worker(self, *words: str, **environment: str) -> subprocess.Popen[bytes] | Fork:
        """`celery -A skitter.celery worker`, when it is ready; a fork, if there is a nursery."""
        number = next(_numbers)
        log = self.folder / f"worker-{number}.log"
        quiet = ["--without-mingle", "--without-gossip", "-l", "INFO", "-n", f"w{number}@%h"]
        command = ["-A", "skitter.celery", "worker", *quiet, *words]
        process: subprocess.Popen[bytes] | Fork
        if self.nursery:
            process = self._fork(self.nursery, command, log, environment)
        else:
            process = self.start(sys.executable, "-m", "celery", *command, log=log, **environment)
        until(lambda: b" ready." in log.read_bytes() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        return process

    def _fork(
        self, nursery: Nursery, words: list[str], log: Path, environment: dict[str, str]
    ) -> Fork:
        with log.open("w") as file:
            place = Place(self.folder, {**self.environment, **environment}, file, file)
            fork = nursery.start(words, place)
        self.started.append(fork)
        return fork

    def start(self, *words: str, log: Path, **environment: str) -> subprocess.Popen[bytes]:
        with log.open("wb") as file:
            process = subprocess.Popen(
                words,
                cwd=self.folder,
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def skitter(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "skitter", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    @staticmethod
    def children_of(process: subprocess.Popen[bytes] | Fork) -> list[int]:
        """The processes that a worker forked for its tasks."""
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        return [int(pid) for pid in listed.split()]

    def end(self, process: subprocess.Popen[bytes] | Fork, number: int = signal.SIGTERM) -> None:
        if process.poll() is None:
            process.send_signal(number)
        process.wait(timeout=PATIENCE_S)

    def close(self) -> None:
        runtime_of(self.app).close()
        self.app.close()
        for process in self.started:
            with suppress(ProcessLookupError):  # children that a killed worker left behind
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        stop(self.folder / ".s")

    # --- the frontier -----------------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return runtime_of(self.app).run(work)

    def on_job(self, job: str, work: Callable[[Frontier], Coroutine[Any, Any, T]]) -> T:
        async def opened() -> T:
            return await work(await open_job(await runtime_of(self.app).server(), job))

        return self.run(opened())

    def make_job(self, job: str, options: JobOptions = RUDE) -> None:
        async def make() -> None:
            await create_job(await runtime_of(self.app).server(), job, options=options)

        self.run(make())

    def stats(self, job: str):
        return self.on_job(job, lambda frontier: frontier.stats())

    def done(self, job: str) -> int:
        """How many pages; none while the job is being made."""
        try:
            done: int = self.stats(job).done
        except JobMissing:
            return 0
        return done

    def audit(self, job: str):
        return self.on_job(job, audit)

    def page(self, path: str) -> str:
        return f"{self.shop.url.rstrip('/')}/{path.lstrip('/')}"

    def pages(self, number: int, mark: str) -> list[str]:
        """Different URLs of a page that is always there."""
        return [self.page(f"/about?{mark}={i}") for i in range(number)]


def open_station(
    folder: Path, nursery: Nursery | None = None, *, books: int = 80, latency_s: float = 0.0
) -> Iterator[Station]:
    folder.mkdir()
    log_file = folder / "access.log"
    with open_bookshop(log_file, books=books, latency_s=latency_s) as opened:
        yield from _open_around(folder, Shop(opened.url, log_file, opened), nursery)


def _open_around(folder: Path, shop: Shop, nursery: Nursery | None) -> Iterator[Station]:
    failing = Failing()
    hosts = (urlsplit(shop.url).netloc, failing.host)
    environment = {**os.environ, "SKITTER_DEMO_URL": shop.url}
    environment["SKITTER_ALLOW_HOSTS"] = ",".join(hosts)
    environment |= {"SKITTER_DIR": str(folder / ".s"), "PYTHONPATH": str(HERE.parent)}
    environment.pop("SKITTER_REDIS_URL", None)
    settings = CelerySettings(where=Settings(directory=folder / ".s"), allow_hosts=frozenset(hosts))
    station = Station(folder, shop, environment, settings, failing, nursery)
    start(folder / ".s")
    try:
        yield station
    finally:
        station.close()
        failing.shutdown()
        failing.server_close()


@pytest.fixture(scope="session")
def celery() -> Iterator[Nursery]:
    """For workers that need not begin with imports; tests/storm starts whole ones."""
    with closing(Nursery("celery")) as opened:
        yield opened


@pytest.fixture(scope="session")
def busy(short_dir, celery) -> Iterator[Station]:
    """A station with one worker of three processes, for all tests that harm nobody."""
    for station in open_station(short_dir / f"c{next(_numbers)}", celery):
        station.make_job("scrape")
        station.worker("-c", "3")
        yield station


@pytest.fixture
def station(short_dir, celery) -> Iterator[Station]:
    """A station of its own, without workers."""
    yield from open_station(short_dir / f"c{next(_numbers)}", celery)


@pytest.fixture
def slow_station(short_dir, celery) -> Iterator[Station]:
    """One whose shop takes its time, so that a crawl can be met in the middle."""
    yield from open_station(short_dir / f"c{next(_numbers)}", celery, latency_s=0.1)


@pytest.fixture
def elsewhere(station):
    """The same server by its address, as if it were anybody's: there is no secret in its folder."""
    url = EmbeddedServer(directory=station.folder / ".s").url
    station.environment |= {"SKITTER_REDIS_URL": url, "SKITTER_DIR": str(station.folder / "own")}
    runtime_of(station.app).close()
    station.app.close()
    station.settings = CelerySettings(
        where=Settings(redis_url=url, directory=station.folder / "own"), secret=None
    )
    station.__post_init__()
    yield station
    station.environment["SKITTER_DIR"] = str(station.folder / ".s")
    del station.environment["SKITTER_REDIS_URL"]
