"""A spider runs from a script, with the report that `skitter run --json` prints."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from skitter import Page, Politeness, Spider
from skitter.errors import SpiderError, UsageError
from skitter.frontier.jobs import create_job, list_jobs, open_job
from skitter.frontier.transport.keys import feed_key
from skitter.settings import Layout
from waiting import until

pytestmark = pytest.mark.timeout(300)
PAGES = 30


class _Handler(BaseHTTPRequestHandler):
    """/0 links to /1 ... /29."""

    def do_GET(self) -> None:
        if self.path == "/robots.txt":
            self.send_error(404)
            return
        links = "".join(f'<a href="/{n}">{n}</a>' for n in range(PAGES))
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(f"<h1>{self.path}</h1>{links}".encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def site():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def make_spider(name: str, site: str, *, delay_s: float = 0) -> Spider:
    polite = Politeness(delay_s=delay_s, max_in_flight=4)
    spider = Spider(name, start=[f"{site}/0"], politeness=polite)

    @spider.page
    async def page(page: Page):
        yield {"title": page.css_first("h1").text()}
        for request in page.follow_all():
            yield request

    @spider.transform
    def shout(item):
        return {"title": item["title"] + "!"}

    return spider


def titles(path, job: str) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return sorted(
            row[0] for row in database.execute(f"SELECT title FROM {job.replace('-', '_')}")
        )


async def test_it_runs_in_an_event_loop_of_the_user_and_resumes(site, server_url, job, tmp_path):
    out = str(tmp_path / "items.db")
    spider = make_spider(job, site)
    ends: list[object] = []
    spider.on_finish(ends.append)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    first = await spider.run(out, redis=server_url, settings={"limits.max_pages": 10})
    second = await spider.run(out, redis=server_url)

    assert (first.pages, first.finished, first.exit_code) == (10, True, 0)
    assert (second.pages, second.pages_now, second.items) == (PAGES, PAGES - 10, PAGES)
    assert titles(out, job) == sorted(f"/{n}!" for n in range(PAGES))
    assert len(ends) == 2
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


async def test_fresh_starts_over_and_another_job_is_another_crawl(site, server_url, job, tmp_path):
    spider = make_spider("spider", site)
    settings = {"limits.max_pages": 2}

    for fresh in (False, True):
        report = await spider.run(
            str(tmp_path / "items.jsonl"), job=job, redis=server_url, fresh=fresh, settings=settings
        )
        assert (report.job, report.pages) == (job, 2)


async def test_a_job_keeps_the_shards_that_it_was_created_with(
    site, server_url, server, job, tmp_path
):
    await create_job(server, job, layout=Layout(shards=3))
    spider = make_spider(job, site)

    for fresh in (False, True):
        report = await spider.run(str(tmp_path / "items.jsonl"), redis=server_url, fresh=fresh)
        assert report.pages == PAGES
        assert len((await open_job(server, job)).shards) == 3


async def test_a_task_that_is_cancelled_returns_what_it_holds(
    site, server_url, server, job, tmp_path
):
    spider = make_spider(job, site, delay_s=0.05)
    begun, forever = asyncio.Event(), asyncio.Event()

    @spider.on_item
    async def hang(item, page):
        begun.set()
        await forever.wait()

    crawl = asyncio.create_task(spider.run(str(tmp_path / "items.db"), redis=server_url))
    async with asyncio.timeout(60):
        await begun.wait()
        crawl.cancel()
        with pytest.raises(asyncio.CancelledError):
            await crawl

    stats = await (await open_job(server, job)).stats()
    assert (stats.leased, stats.lost, stats.pending) == (0, 0, 1)


async def test_a_setting_that_does_not_exist_is_told(site, server_url, job):
    spider = make_spider(job, site)

    with pytest.raises(UsageError, match=r"did you mean limits\.max_pages"):
        await spider.run(redis=server_url, settings={"limits.max_page": 1})
    with pytest.raises(UsageError, match="a whole number"):
        await spider.run(redis=server_url, settings={"limits.max_pages": "x"})
    with pytest.raises(SpiderError, match=r"use .await"):
        spider.run_sync(redis=server_url)


SCRIPT = """
import dataclasses, json, sys
from test_script import make_spider

spider = make_spider("scripted", sys.argv[1], delay_s=float(sys.argv[2]))
report = spider.run_sync("items.db", settings={"politeness.max_in_flight": 1})
print(json.dumps(dataclasses.asdict(report)))
"""


def test_ctrl_c_stops_a_script_in_order_and_it_resumes(site, short_dir):
    folder = short_dir / f"script{os.getpid()}"
    folder.mkdir()
    (folder / "crawl.py").write_text(SCRIPT)
    path = os.pathsep.join([os.path.dirname(__file__), os.path.dirname(os.path.dirname(__file__))])  # noqa: PTH120
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SKITTER_")}
    environment |= {"PYTHONPATH": os.pathsep.join([path, os.environ.get("PYTHONPATH", "")])}

    def start(delay_s: str) -> subprocess.Popen[str]:
        words = [sys.executable, "crawl.py", site, delay_s]
        return subprocess.Popen(
            words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
        )

    def stored() -> int:
        try:
            return len(titles(folder / "items.db", "scripted"))
        except sqlite3.OperationalError:
            return 0

    first = start("0.3")
    until(lambda: stored() > 2)
    first.send_signal(signal.SIGINT)
    stopped = json.loads(first.communicate()[0])
    second = json.loads(start("0").communicate()[0])

    assert first.returncode == 0  # the script decides what to do with the report
    assert (stopped["finished"], stopped["exit_code"]) == (False, 130)
    assert 2 < stopped["pages"] < PAGES
    assert (second["finished"], second["pages"], second["items"]) == (True, PAGES, PAGES)
    assert second["pages_now"] == PAGES - stopped["pages"]


async def test_a_spider_without_start_urls_crawls_what_others_have_put_into_the_feed(
    site, server_url, server, job, tmp_path
):
    """Even before there is a job."""
    spider = make_spider(job, site)
    spider.start = []
    out = tmp_path / "items.db"
    with pytest.raises(SpiderError, match="has no start URL"):
        await spider.run(str(out), redis=server_url)
    assert job not in await list_jobs(server)
    assert not out.exists()

    await server.command("LPUSH", feed_key(job), f"{site}/0")
    settings = {"limits.max_pages": 2, "fetch.allow_hosts": [site.removeprefix("http://")]}
    report = await spider.run(str(out), redis=server_url, settings=settings)
    assert report.pages == 2
