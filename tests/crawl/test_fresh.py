"""--fresh begins with an empty output of the job, purge removes its store, reports count rows."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import signal
import sqlite3
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skitter import Page, Politeness, Spider
from skitter.errors import SkitterError
from skitter.frontier.jobs import list_jobs, open_job
from web import Answer, Asked, serve_web

TESTS = str(Path(__file__).parents[1])
pytestmark = pytest.mark.timeout(60)

#: Dies where a fresh crawl removes the rows: before or after it did.
KILLED = """
import asyncio, os, signal, sys
from crawl.test_fresh import make_spider
from skitter.sinks.destination import Destination

at, url, job, out, redis = sys.argv[1:]
clear = Destination.clear

async def killed(self):
    if at == "after":
        await clear(self)
    os.kill(os.getpid(), signal.SIGKILL)

Destination.clear = killed
make_spider(job, url).run_sync(out, redis=redis, fresh=True)
"""


SPIDER = """
from crawl.test_fresh import make_spider

spider = make_spider("{job}", "{url}")
"""


def make_spider(job: str, url: str, **options: Any) -> Spider:
    spider = Spider(job, [url], politeness=Politeness(delay_s=0), **options)

    @spider.page
    async def page(page: Page):
        for one in page.css("li"):
            yield {"title": one.text()}

    return spider


class Shelf:
    """A page with titles."""

    def __init__(self, *titles: str) -> None:
        self.titles = titles

    def __call__(self, asked: Asked) -> Answer:
        return Answer("".join(f"<li>{one}</li>" for one in self.titles))


def rows(out: Path, job: str) -> list[str]:
    if out.suffix == ".jsonl":
        return sorted(json.loads(line)["title"] for line in out.read_bytes().splitlines())
    if out.suffix == ".csv":
        return sorted(row["title"] for row in csv.DictReader(out.read_text().splitlines()))
    with closing(sqlite3.connect(out)) as database:
        return sorted(row[0] for row in database.execute(f'SELECT title FROM "{table(job)}"'))


def table(job: str) -> str:
    return job.replace("-", "_").lower()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["one.db", "one.csv"])
async def test_fresh_begins_with_an_empty_output(server_url, job, here, name):
    out, shelf = here / name, Shelf("a", "b", "c")
    async with serve_web(shelf) as web:
        spider = make_spider(job, web.url(host="127.0.0.1"))
        first = await spider.run(str(out), redis=server_url)
        shelf.titles = ("d", "e")
        if out.suffix == ".csv":
            out.unlink()  # its rows are in the store
        fresh = await spider.run(str(out), redis=server_url, fresh=True)
        assert rows(out, job) == ["d", "e"]
        shelf.titles = ("f",)
        kept = await spider.run(str(out), redis=server_url, fresh=True, keep_rows=True)
    assert rows(out, job) == ["e", "f"]
    assert [(one.items, one.updated) for one in (first, fresh, kept)] == [(3, 0), (2, 0), (2, 1)]
    store = f".skitter/stores/{job}.db" if out.suffix == ".csv" else None
    assert (first.store, first.rows) == (store, 3)


@pytest.mark.parametrize(("name", "at"), [("one.jsonl", "before"), ("one.csv", "after")])
async def test_a_fresh_crawl_that_is_killed_leaves_no_mix(server, server_url, job, here, name, at):
    out, shelf = here / name, Shelf("a", "b", "c")
    env = {**os.environ, "PYTHONPATH": TESTS}
    async with serve_web(shelf) as web:
        url = web.url(host="127.0.0.1")
        spider = make_spider(job, url)
        await spider.run(str(out), redis=server_url)
        shelf.titles = ("d",)
        words = [sys.executable, "-c", KILLED, at, url, job, str(out), server_url]
        child = await asyncio.create_subprocess_exec(*words, env=env)
        assert await child.wait() == -signal.SIGKILL

        assert rows(out, job) == ["a", "b", "c"]  # also a file that is written at the end
        assert job in await list_jobs(server)
        with pytest.raises(SkitterError, match=r"half purged.*--fresh to start over"):
            await spider.run(str(out), redis=server_url)
        await spider.run(str(out), redis=server_url, fresh=True)
    assert rows(out, job) == ["d"]
    assert (await (await open_job(server, job)).stats()).seen == 1


async def test_fresh_asks_only_if_something_is_lost_and_says_what(server_url, job, here):
    env = {**os.environ, "SKITTER_REDIS_URL": server_url, "PYTHONPATH": TESTS}

    async def skitter(*words: str) -> str:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "skitter", *words), env=env, stdin=DEVNULL, stdout=PIPE,
            stderr=STDOUT,
        )  # fmt: skip
        return (await child.communicate())[0].decode()

    run = ["run", "one.py", "--workers", "1", "--fresh", "--out"]
    store = f".skitter/stores/{job}.db"
    async with serve_web(Shelf("a", "b")) as web:
        (here / "one.py").write_text(SPIDER.format(job=job, url=web.url(host="127.0.0.1")))
        said = await skitter(*run, "one.csv")  # there is nothing to discard
        assert f"items    2 in one.csv\nstore    {store}, which one.csv is written from" in said
        said = await skitter(*run, "one.csv")
        assert f"--fresh discards the earlier crawl of 1 URL and 2 rows in {store}" in said
        said = await skitter(*run, "one.csv", "--keep-rows")
        assert "--fresh discards the earlier crawl of 1 URL, and there is no terminal" in said

        said = await skitter("purge", job, "--yes")
        assert said.startswith(f"{job}: removed, and the store {store}. Files written from it stay")
        assert not list((here / ".skitter/stores").iterdir())
        assert rows(here / "one.csv", job) == ["a", "b"]  # it is the user's

        await skitter(*run, "one.db")
        assert await skitter("purge", job, "--yes") == f"{job}: removed. Its rows stay in one.db.\n"
        run.remove("--fresh")
        said = await skitter(*run, "one.db")
        assert "one.db has 2 rows of an earlier crawl: they stay" in said
        assert "items    2 in one.db (2 updated)\n" in said
