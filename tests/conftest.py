"""One real server per test process, empty for every file; every test has a job of its own on it."""

from __future__ import annotations

import gc
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from redis import Redis

from forks import Nursery
from needs import refuse_unknown_programs
from skitter.embedded import hold
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.connection import Server, connect
from skitter.settings import JobOptions, Layout, Limits, Politeness, Retries

_numbers = count(1)

CHAOS_LIMIT_S = 900

sys.addaudithook(refuse_unknown_programs)
# A shell that starts tests in the background has them ignore Ctrl-C, and all that they start too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# On a busy machine everything is slow, also the making of examples.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(scope="session")
def short_dir() -> Iterator[Path]:
    """A directory whose path is short enough for a unix socket."""
    path = Path(tempfile.mkdtemp(prefix="skt", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def running_server(short_dir: Path) -> Iterator[str]:
    with hold(short_dir / "v") as server:
        yield server.url


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """For commands that tests call as processes, and that need not begin with imports."""
    with closing(Nursery("skitter")) as opened:
        yield opened


@pytest.fixture(scope="module")
def server_url(running_server: str) -> str:
    """Without what earlier files left: damaged jobs, and hundreds of sound ones."""
    with Redis.from_url(running_server) as client:
        client.flushall()
    return running_server


@pytest.fixture
async def server(server_url: str) -> AsyncIterator[Server]:
    async with connect(server_url) as connected:
        yield connected


@pytest.fixture
def job() -> str:
    return f"job-{next(_numbers)}"


@pytest.fixture
def dead_pid() -> int:
    """Of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@dataclass
class ManualClock:
    """Server milliseconds that move when a test says so."""

    now_ms: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def rude(**limits: Any) -> JobOptions:
    """Options without politeness, for tests that are about something else."""
    return JobOptions(
        politeness=Politeness(delay_s=0, max_in_flight=100_000),
        retries=Retries(max_retries=3, max_losses=3),
        limits=Limits(**limits),
    )


@pytest.fixture
async def frontier(server: Server, job: str, clock: ManualClock) -> Frontier:
    """A job that hands out everything at once, on a clock that the test moves."""
    return await create_job(server, job, options=rude(), clock=clock)


@pytest.fixture
def make_frontier(server: Server, job: str, clock: ManualClock):
    """A job with options of the test's choice; call it again for a second client."""

    async def make(options: JobOptions | None = None, layout: Layout | None = None) -> Frontier:
        return await create_job(server, job, options=options, layout=layout, clock=clock)

    return make


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files without a slow test, when those are wanted: importing all takes a minute a process."""
    if config.option.markexpr == "chaos" and collection_path.suffix == ".py":
        return True if "chaos" not in collection_path.read_text() else None
    return None


def pytest_collectstart() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    """The garbage collector leaves alone what was imported and collected: a look at all of it takes
    half a second. So it looks more often, soon after the test that left something open."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What may take longest begins first, or one process would still be at it when the others have
    ended: of the slow proof by tests, otherwise by files (`--no-loadscope-reorder`). The slow proof
    has time: what it proves has to hold on a busy machine too."""
    slow = {item for item in items if item.get_closest_marker("chaos")}
    may_take: Counter[Path] = Counter()
    for item in items:
        may_take[item.path] += round(limit_of(item)) or 1
    items.sort(
        key=lambda item: (
            -limit_of(item) if item in slow else 0,
            -may_take[item.path],
            item.path,
        )
    )
    for item in slow:
        if limit_of(item) < CHAOS_LIMIT_S:
            item.add_marker(pytest.mark.timeout(CHAOS_LIMIT_S), append=False)


def limit_of(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker else 0.0


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What crawls went through, in one table: tests/storm."""
    total: Counter[str] = Counter()
    reports = [one for kind in terminalreporter.stats.values() for one in kind]
    for report in [one for one in reports if getattr(one, "when", "") == "call"]:
        for name, counts in report.user_properties:
            total += Counter(counts) if name == "storm" else Counter()
    if total:
        _write_storms(terminalreporter, total)


def _write_storms(terminal: Any, total: Counter[str]) -> None:
    begun, ended, urls, lost, doubled = (
        total.pop(name, 0) for name in ("begun", "ended", "URLs", "lost", "doubled")
    )
    terminal.section("storms")
    for fault, times in total.most_common():
        terminal.line(f"{times:>9,}  {fault}")
    terminal.line(f"{total.total():>9,}  faults in {begun:,} crawls")
    terminal.line(f"{begun - ended:>9,}  crawls without a result")
    terminal.line(f"{urls:>9,}  URLs in the results of the other {ended:,}:")
    terminal.line(f"{lost:>9,}  lost")
    terminal.line(f"{doubled:>9,}  twice in the database")
