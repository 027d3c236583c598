"""`skitter crawl --depth N` finds what a breadth-first search finds, whatever takes how long."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from crawl.conftest import Shop, kill
from skitter.demo.site import BookShop

pytestmark = pytest.mark.timeout(300)

DEPTH = 4
HOSTS, CHAIN = 3, 14


@dataclass
class Web:
    """Three hosts. On each a long way from page to page, every step of it quick, and shortcuts over
    pages that take their time: the long way is found first, the short one counts."""

    seed: int
    origins: list[str] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.links: dict[str, list[str]] = {}
        self.latency_s: dict[str, float] = {}
        self.servers = [self._serve() for _ in range(HOSTS)]
        self.origins = [f"http://127.0.0.1:{one.server_port}" for one in self.servers]
        self._grow()

    @property
    def seeds(self) -> list[str]:
        return [f"{origin}/0" for origin in self.origins]

    def within(self, depth: int) -> set[str]:
        """The oracle."""
        found, line = set(self.seeds), list(self.seeds)
        for _ in range(depth):
            line = [link for url in line for link in self.links[url]]
            found.update(line)
        return found

    def _grow(self) -> None:
        chains = [[f"{origin}/{n}" for n in range(CHAIN)] for origin in self.origins]
        chained = [url for chain in chains for url in chain]
        for chain in chains:
            for n, url in enumerate(chain):
                self.links[url] = chain[n + 1 : n + 2]
                self.latency_s[url] = self.chance.uniform(0, 0.01)
        for n in range(4 * HOSTS):
            slow = f"{self.chance.choice(self.origins)}/slow/{n}"
            self.links[slow] = self.chance.sample(chained, 2)
            self.links[self.chance.choice(chained[:: CHAIN // 2])].append(slow)
            self.latency_s[slow] = self.chance.uniform(0.3, 0.8)
        for url in chained:  # what hangs on a page, and goes missing with it
            leaves = [f"{url}/{n}" for n in range(3)]
            self.links[url] += leaves
            for leaf in leaves:
                self.links[leaf] = [self.chance.choice(chained)]
                self.latency_s[leaf] = self.chance.uniform(0, 0.2)

    def _serve(self) -> ThreadingHTTPServer:
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                url = f"http://127.0.0.1:{self.server.server_port}{self.path}"  # type: ignore[attr-defined]
                links = web.links.get(url)
                time.sleep(web.latency_s.get(url, 0))
                web.asked[url] += links is not None
                body = "".join(f"<a href={link}>x</a>" for link in links or ()).encode()
                self.send_response(404 if links is None else 200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


@pytest.fixture
def make_web():
    with ExitStack() as stack:

        def make(seed: int) -> Web:
            web = Web(seed)
            for server in web.servers:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                stack.callback(server.server_close)
                stack.callback(server.shutdown)
            return web

        yield make


def as_shop(web: Web, folder: Path) -> Shop:
    """What a machine wants to know of a site."""
    return Shop(web.seeds[0], folder, BookShop(books=50))


def words(web: Web, depth: int) -> list[str]:
    more = ["--depth", str(depth), "--rate", "none", "--workers", "2", "--out", "found.jsonl"]
    more += [
        "-s",
        "limits.shape_budget=none",
    ]  # a web of numbers and nothing else looks like a trap
    return ["crawl", *web.seeds, *more, "--job", "web", "--json"]


def pages_of(machine) -> list[str]:
    lines = (machine.folder / "found.jsonl").read_text().splitlines()
    return sorted(json.loads(line)["url"] for line in lines)


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.chaos) for n in (2, 3))])
def test_a_crawl_finds_every_page_within_its_depth_and_asks_for_each_once(
    make_web, make_machine, tmp_path, seed
):
    web = make_web(seed)
    machine = make_machine(as_shop(web, tmp_path))

    done = machine.call(*words(web, DEPTH))

    assert done.returncode == 0, done.stderr
    assert pages_of(machine) == sorted(web.within(DEPTH))
    assert web.asked == Counter(web.within(DEPTH))


def test_a_crawl_goes_on_deeper_where_it_ended_and_why_tells_what_is_beyond(
    make_web, make_machine, tmp_path
):
    web = make_web(4)
    machine = make_machine(as_shop(web, tmp_path))

    for depth in (1, DEPTH):
        done = machine.call(*words(web, depth))
        assert done.returncode == 0, done.stderr
        assert pages_of(machine) == sorted(web.within(depth))

    assert web.asked == Counter(web.within(DEPTH))
    beyond = sorted(web.within(DEPTH + 1) - web.within(DEPTH))[0]
    told = json.loads(machine.call("why", "web", beyond, "--json").stdout)
    assert (told["state"], told["depth"]) == ("refused", DEPTH + 1)
    assert beyond in web.links[told["found_on"]]
    assert any(f"--max-depth {DEPTH + 1}" in line for line in told["because"])


def test_workers_that_are_killed_lose_no_page_within_the_depth(
    make_web, make_machine, until, tmp_path
):
    web = make_web(5)
    machine = make_machine(as_shop(web, tmp_path))
    crawl = machine.start(*words(web, DEPTH))
    for pages in (10, 30, 60):
        until(lambda least=pages: web.asked.total() > least or crawl.poll() is not None)
        kill(*machine.children("work"))
    _, err = crawl.communicate(timeout=150)

    assert crawl.returncode == 0, err
    assert pages_of(machine) == sorted(web.within(DEPTH))
    audit = machine.call("audit", "web")
    assert audit.returncode == 0, audit.stdout
