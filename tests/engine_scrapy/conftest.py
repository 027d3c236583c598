"""Real `scrapy` processes of the example project, on the demo shop and the shared server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from scrapy import version_info as scrapy_version
from scrapy.utils.reactor import install_reactor

from bookshop import expected_items, read_log
from forks import Fork, Nursery, Place
from shops import open_bookshop
from skitter.demo.site import BookShop, Entry
from skitter.frontier.audit.auditor import audit
from skitter.frontier.control import set_state
from skitter.frontier.dead import dead_letters
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job, open_job
from skitter.frontier.records.health import read_quality
from skitter.frontier.transport.connection import connect
from skitter.model import State, Stats
from skitter.observe.quality import total
from skitter.scrapy.inside.refused import CLOSES_QUIETLY
from waiting import PATIENCE_S, until

PROJECT = Path(__file__).parents[2] / "examples" / "scrapy"
#: Importing all of an older one chooses a reactor.
CAN_FORK = scrapy_version >= (2, 14)
if not CAN_FORK:  # Scrapy 2.13 asks which reactor a crawler is to have before there is one
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
ODD = Path(__file__).parent / "odd.py.txt"


@pytest.fixture(name="until")
def until_fixture():
    return until


@dataclass
class Shop:
    """An open shop, and what to expect of a crawl."""

    url: str
    log_file: Path
    expected: BookShop

    def log(self) -> list[Entry]:
        return [one for one in read_log(self.log_file) if one.page != "/robots.txt"]

    def pages(self) -> list[str]:
        return [one.page for one in self.log()]

    def books(self, count: int) -> list[str]:
        """Addresses of books that behave well."""
        return [
            self.url.rstrip("/") + book.path for book in self.expected.catalogue.books[50:][:count]
        ]


@dataclass
class Node:
    """One scrapy process."""

    process: Fork | subprocess.Popen[str]
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def finish(self, *, code: int = 0) -> str:
        """Wait for its end; why the spider was closed."""
        assert self.wait() == code, self.log
        assert "ScrapyDeprecationWarning" not in self.log, self.log
        assert "Unhandled" not in self.log, self.log
        assert "internal error" not in self.log, self.log
        found = re.search(r"Spider closed \((\w+)\)", self.log)
        return found[1] if found else "never opened"

    def refusal(self) -> list[str]:
        """The errors of a crawl that did not begin. Releases of Scrapy before 2.18 can only be told
        by an exception, which they log with its stack trace."""
        if not CLOSES_QUIETLY:
            assert self.wait() == 1, self.log
            return [self.log]
        assert self.finish(code=1) == "skitter_refused"
        assert "Traceback" not in self.log
        return [one for one in self.log.splitlines() if "ERROR" in one]

    def wait(self) -> int | None:
        try:
            return self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def stat(self, name: str) -> int:
        found = re.search(rf"'{re.escape(name)}': (\d+)", self.log)
        return int(found[1]) if found else 0


@dataclass
class Cluster:
    """Nodes of one job."""

    job: str
    server_url: str
    folder: Path
    shop: Shop
    nursery: Nursery
    commands: Nursery
    nodes: list[Node] = field(default_factory=list)

    def start(self, *words: str, **settings: object) -> Node:
        """`scrapy crawl books`, or whatever the words say."""
        if not CAN_FORK:
            return self.start_whole(*words, **settings)
        with self._next_log().open("w") as log:
            place = Place(PROJECT, self._environment(), log, log)
            process = self.nursery.start(self._words(words, settings), place)
        return self._listed(process)

    def start_whole(self, *given: str, **settings: object) -> Node:
        """The same as its user starts it: a process with all its imports."""
        words = [sys.executable, "-m", "scrapy", *self._words(given, settings)]
        with self._next_log().open("w") as log:
            process = subprocess.Popen(
                words,
                cwd=PROJECT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
            )
        return self._listed(process)

    def _words(self, words: tuple[str, ...], settings: dict[str, object]) -> list[str]:
        given = {
            "SKITTER_JOB": self.job,
            "REDIS_ITEMS_KEY": f"{self.job}:items",
            "REDIS_START_URLS_KEY": f"{self.job}:start_urls",
            "LOG_LEVEL": "INFO",
            "SKITTER_ALLOW_HOSTS": "localhost",
            **settings,
        }
        options = [part for name, value in given.items() for part in ("-s", f"{name}={value}")]
        return [*(words or ("crawl", "books")), *options]

    def _environment(self) -> dict[str, str]:
        ours = {"SKITTER_REDIS_URL": self.server_url, "SKITTER_DEMO_URL": self.shop.url}
        return {**os.environ, **ours}

    def _next_log(self) -> Path:
        return self.folder / f"node-{len(self.nodes)}.log"

    def _listed(self, process: Fork | subprocess.Popen[str]) -> Node:
        self.nodes.append(Node(process, self._next_log()))
        return self.nodes[-1]

    def run_odd(self, spider: str, **settings: object) -> Node:
        """A spider of odd.py.txt that does what spiders should not, or rarely do."""
        return self.start("runspider", self.write_odd(spider), **settings)

    def write_odd(self, spider: str) -> str:
        file = self.folder / f"{spider}.py"
        if not file.exists():  # another node may be reading it
            text = ODD.read_text()
            file.write_text(text[: text.index("# --- ")] + _part(text, spider))
        return str(file)

    def command(self, *words: Any) -> Any:
        async def send() -> Any:
            async with connect(self.server_url) as server:
                return await server.command(*words)

        return asyncio.run(send())

    def ask(self, work: Callable[[Frontier], Awaitable[Any]]) -> Any:
        """Something of the frontier, as the commands of `skitter` ask it."""

        async def open_and_ask() -> Any:
            async with connect(self.server_url) as server:
                return await work(await open_job(server, self.job))

        return asyncio.run(open_and_ask())

    def create_paused(self) -> None:
        """A job in which nobody begins before all are there."""

        async def create() -> None:
            async with connect(self.server_url) as server:
                await set_state(await create_job(server, self.job), State.PAUSED)

        asyncio.run(create())

    def stats(self) -> Stats:
        found: Stats = self.ask(lambda frontier: frontier.stats())
        return found

    def kill_at_work(self, node: Node) -> None:
        """Kill a node that has leases. Between two calls it may have none: it is stopped first."""

        def is_stopped_at_work() -> bool:
            node.process.send_signal(signal.SIGSTOP)
            if self.stats().leased:
                return True
            node.process.send_signal(signal.SIGCONT)
            return False

        until(is_stopped_at_work)
        node.kill()

    def set_state(self, state: State) -> None:
        self.ask(lambda frontier: set_state(frontier, state))

    def skitter(self, *words: str) -> subprocess.CompletedProcess[str]:
        words = (*words, "--redis", self.server_url)
        return self.commands.call(words, folder=Path.cwd(), environment={**os.environ})

    def json(self, *words: str) -> Any:
        done = self.skitter(*words, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def push(self, *messages: str, kind: str = "list") -> None:
        key = f"{self.job}:start_urls"
        if kind == "list":
            self.command("LPUSH", key, *messages)
        elif kind == "set":
            self.command("SADD", key, *messages)
        else:
            self.command(
                "ZADD", key, *(part for i, one in enumerate(messages) for part in (i, one))
            )

    def items(self) -> list[dict[str, Any]]:
        raw = self.command("LRANGE", f"{self.job}:items", 0, -1)
        return sorted((json.loads(one) for one in raw), key=lambda item: item.get("upc", ""))

    def dead(self) -> dict[str, str]:
        """url -> reason"""

        async def read(frontier: Frontier) -> dict[str, str]:
            return {one.url: one.reason async for one in dead_letters(frontier)}

        found: dict[str, str] = self.ask(read)
        return found

    def assert_complete(self) -> None:
        """Every book once, every URL accounted for."""
        expected = sorted(expected_items(self.shop.expected), key=lambda item: item["upc"])
        assert self.items() == expected
        self.assert_accounted_for()

    def assert_owned(self) -> None:
        """Every item of the spider `owners` was stored with the page it is from."""
        items = self.items()
        assert items
        assert [item for item in items if {item["made"], item["owner"]} != {item["page"]}] == []

    def assert_counted(self) -> None:
        """Each item counts for the quality of its page, so it was stored with one."""
        counted = sum(total(one.windows).items for one in self.ask(read_quality))
        assert counted == len(self.items())

    def assert_accounted_for(self) -> None:
        report = self.ask(audit)
        assert report.problems == set()


def _part(text: str, spider: str) -> str:
    start = text.index(f"# --- {spider} ")
    end = text.find("# --- ", start + 5)
    return text[start : end if end > 0 else len(text)]


@pytest.fixture
def open_shop(tmp_path) -> Iterator[Callable[..., Shop]]:
    numbers = count()
    with ExitStack() as stack:

        def open_one(**options: Any) -> Shop:
            log_file = tmp_path / f"access-{next(numbers)}.log"
            opened = stack.enter_context(open_bookshop(log_file, **options))
            return Shop(opened.url, log_file, opened)

        yield open_one


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nursery]:
    with closing(Nursery("scrapy")) as opened:
        yield opened


@pytest.fixture
def make_cluster(server_url, job, tmp_path, nodes, nursery) -> Iterator[Callable[..., Cluster]]:
    clusters: list[Cluster] = []

    def make(shop: Shop, *, url: str | None = None) -> Cluster:
        folder = tmp_path / f"cluster-{len(clusters)}"
        folder.mkdir()
        name = f"scrapy-{job}-{len(clusters)}"
        clusters.append(Cluster(name, url or server_url, folder, shop, nodes, nursery))
        return clusters[-1]

    yield make
    for cluster in clusters:
        for node in cluster.nodes:
            if node.process.poll() is None:
                node.kill()
