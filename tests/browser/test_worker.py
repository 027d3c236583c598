"""A crawl whose pages a browser makes, and a browser that is killed in the middle of one."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from browser.web import LATE, html
from conftest import rude
from fetch.site import Exchange, redirect, reply, serve
from needs import need
from skitter import Page, Render, Request, Spider
from skitter.engine.assembly import open_worker
from skitter.engine.parts import WorkerOptions
from skitter.errors import BrowserMissing
from skitter.fetch.browser.chromium import check_browser, missing
from skitter.frontier.dead import dead_letters
from skitter.frontier.items import read_items
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.connection import Server
from skitter.settings import BrowserOptions, FetchOptions, Retries, WorkerConfig

pytestmark = pytest.mark.timeout(300)


def marked(mark: str) -> set[int]:
    """Processes that run with this word in their environment, ours excepted."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found - {os.getpid()}


async def test_a_crawl_in_a_browser_survives_its_death(
    server: Server, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed by kill -9 in mid-page: the page is tried again, and no process is left. Pages that
    end out of scope or where robots.txt forbids are not handled."""
    need("chromium")
    mark = uuid4().hex
    monkeypatch.setenv("THE_BROWSER_OF", mark)
    killed: list[int] = []

    async def deadly(exchange: Exchange) -> None:
        if not killed:
            killed.extend(leaders(marked(mark)))
            os.kill(killed[0], signal.SIGKILL)
        await exchange.send(html(LATE))

    async with serve({}) as site, serve({"/": html(LATE)}) as outside:
        site.pages = {
            "/": html(
                "<a href=/late>1</a><a href=/deadly>2</a><a href=/out>3</a><a href=/no>4</a>"
            ),
            "/late": html(LATE),
            "/deadly": deadly,
            "/out": redirect(outside.url()),
            "/no": redirect("/private"),
            "/private": html(LATE),
            "/robots.txt": reply(b"User-agent: *\nDisallow: /private\n"),
        }
        spider = Spider("shop", [site.url()])

        @spider.page
        def listing(page: Page):
            yield from page.follow_all("a", product)

        @spider.page(render=Render(wait_for=".price", screenshot=True))
        def product(page: Page):
            assert page.screenshot
            yield {"price": page.css_first(".price").text(), "url": page.url}

        quick = replace(rude(), retries=Retries(base_s=0.1, cap_s=0.2))
        frontier = await create_job(server, job, options=quick)
        await frontier.add([Request(url=site.url())])
        config = WorkerConfig(
            browser=BrowserOptions(concurrency=2),
            fetch=FetchOptions(allow_hosts=(f"127.0.0.1:{outside.port}",)),
        )
        options = WorkerOptions.of(config, watch_signals=False)
        async with open_worker(frontier, spider, config, options=options) as worker:
            await worker.run()
    assert killed
    items = [one.item async for results in read_items(frontier) for one in results]
    assert {item["url"] for item in items} == {site.url("/late"), site.url("/deadly")}
    assert {item["price"] for item in items} == {"12"}
    assert site.paths.count("/deadly") >= 2
    reasons = {one.url: one.reason async for one in dead_letters(frontier)}
    assert "out of scope" in reasons[site.url("/out")]
    assert "robots.txt" in reasons[site.url("/no")]
    assert not {one for one in marked(mark) if not is_zombie(one)}


def leaders(processes: set[int]) -> list[int]:
    """The browser leads its group, and was started by its driver."""
    return [
        one
        for one in processes
        if os.getpgid(one) == one and b"--remote-debugging-pipe" in words_of(one)
    ]


def words_of(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


def is_zombie(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


def test_what_is_missing_comes_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrowserMissing, match="Chromium was not found: apt-get install chromium"):
        check_browser(BrowserOptions())
    absent = BrowserOptions(executable=tmp_path / "chrome")
    assert missing(absent) == f"{tmp_path}/chrome is not a program: correct browser.executable"
    other = missing(BrowserOptions(provider="patchright"))
    assert other == "patchright is not installed: pip install patchright"
    assert missing(BrowserOptions(cdp_url="http://127.0.0.1:9222")) is None
