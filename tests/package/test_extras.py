"""Every extra alone, in an environment that has nothing else: the first thing that its user does
works. An environment with everything hides what an extra forgets to ask for."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from needs import need
from scripts.package import ROOT, build, install
from shops import open_bookshop
from waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]
#: For us, not for users.
OURS = {"dev", "docs"}
NODE = """
import scrapy

class Shop(scrapy.Spider):
    name = "shop"
    custom_settings = {
        "SCHEDULER": "skitter.scrapy.Scheduler",
        "DUPEFILTER_CLASS": "skitter.scrapy.RFPDupeFilter",
        "ITEM_PIPELINES": {"skitter.scrapy.RedisPipeline": 300},
        "SKITTER_DIR": ".skitter",
        "SCHEDULER_PERSIST": True,
    }

    def __init__(self, url):
        self.start_urls = [url]

    def parse(self, response):
        yield {"title": response.css("title::text").get()}
"""


@dataclass
class Installed:
    """An environment with one extra, a folder to work in, and a shop to crawl."""

    bin: Path
    home: Path
    shop: str

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": os.defpath, "TERM": "dumb"}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.bin / words[0], *words[1:]],
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    @contextmanager
    def running(self, *words: str, says: str) -> Iterator[None]:
        """While this lasts, once it has said that."""
        log = self.home / f"{words[0]}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [self.bin / words[0], *words[1:]],
                cwd=self.home,
                env=self.environment,
                stdout=file,
                stderr=file,
            )
        try:
            until(lambda: says in log.read_text() or process.poll() is not None)
            assert says in log.read_text(), log.read_text()
            yield
        finally:
            process.terminate()
            process.wait()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dist"))[1]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with open_bookshop(tmp_path_factory.mktemp("shop") / "access.log", books=60) as opened:
        yield opened.url


def start_a_worker(installed: Installed) -> None:
    with installed.running("skitter", "celery", "worker", "-c1", "-lINFO", says=" ready."):
        pass


def run_a_node(installed: Installed) -> None:
    (installed.home / "node.py").write_text(NODE)
    done = installed.run("scrapy", "runspider", "node.py", "-a", f"url={installed.shop}")
    assert "'item_scraped_count': 1" in done.stderr, done.stderr


def render_a_page(installed: Installed) -> None:
    assert "200" in told(installed.run("skitter", "fetch", "--render", installed.shop))


def crawl_with_it(installed: Installed) -> None:
    words = ("--max-pages", "3", "--rate", "none", "-s", "fetch.client=aiohttp")
    assert "3 pages" in told(installed.run("skitter", "crawl", installed.shop, *words))


def crawl_as_usual(installed: Installed) -> None:
    words = ("--max-pages", "3", "--rate", "none")
    assert "3 pages" in told(installed.run("skitter", "crawl", installed.shop, *words))


def serve(installed: Installed) -> None:
    with installed.running("skitter", "serve", "--port", "0", says="http://"):
        pass


def crawl_into_a_database_that_is_away(scheme: str, installed: Installed) -> None:
    words = ("--max-pages", "1", "--out", f"{scheme}://127.0.0.1:1/shop")
    done = installed.run("skitter", "crawl", installed.shop, *words)
    assert done.returncode == 3
    assert "Connection refused" in done.stderr, done.stderr


def crawl_into(out: str, installed: Installed) -> None:
    out = out.format(home=installed.home)
    words = ("--max-pages", "3", "--rate", "none", "--out", out)
    assert f"3 in {out}" in told(installed.run("skitter", "crawl", installed.shop, *words))


def keep_pages(installed: Installed) -> None:
    words = ("--max-pages", "3", "--rate", "none", "--archive")
    assert "3 pages" in told(installed.run("skitter", "crawl", installed.shop, *words))
    assert "3 pages" in told(installed.run("skitter", "archive", "list"))


def keep_the_text_of_files(installed: Installed) -> None:
    words = ("--max-pages", "3", "--rate", "none", "--files", "pdf", "--files-text")
    assert "3 pages" in told(installed.run("skitter", "crawl", installed.shop, *words))


def print_markdown(installed: Installed) -> None:
    assert "# " in told(installed.run("skitter", "fetch", "--markdown", installed.shop))


FIRST: dict[str, Callable[[Installed], None]] = {
    "celery": start_a_worker,
    "scrapy": run_a_node,
    "browser": render_a_page,
    "aiohttp": crawl_with_it,
    "server": serve,
    "otel": crawl_as_usual,
    "postgres": partial(crawl_into_a_database_that_is_away, "postgresql"),
    "mysql": partial(crawl_into_a_database_that_is_away, "mysql"),
    "parquet": partial(crawl_into, "pages.parquet"),
    "xlsx": partial(crawl_into, "pages.xlsx"),
    "objects": partial(crawl_into, "file://{home}/parts/"),
    "archive": keep_pages,
    "content": print_markdown,
    "pdf": keep_the_text_of_files,
}


def told(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_no_extra_is_left_out():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(declared["optional-dependencies"]) - OURS == FIRST.keys()


@pytest.mark.parametrize("extra", FIRST)
def test_an_extra_alone_is_all_that_its_first_command_needs(wheel, shop, short_dir, extra):
    if extra == "browser":
        need("chromium")
    home = short_dir / extra
    home.mkdir()
    skitter = install(f"{wheel}[{extra}]", home / "venv")

    FIRST[extra](Installed(skitter.parent, home, shop))
