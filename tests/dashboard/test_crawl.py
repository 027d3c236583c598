"""The dashboard on a real crawl: processes, an embedded Valkey, `skitter serve`, and kill -9."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, expect

from crawl.conftest import Machine, Shop
from dashboard.conftest import Desk
from forks import Nursery
from shops import open_bookshop
from skitter.demo import SPIDER
from waiting import until_async

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


async def until(condition: Callable[[], Any]) -> Any:
    """Wait for a condition, without holding up the loop of the browser."""
    return await until_async(partial(asyncio.to_thread, condition))


class Crawl:
    """A crawl of the shop that stays, and the server in front of it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        words = ("run", str(SPIDER), "--workers", "1", "-c", "2", "--keep-alive")
        self.run = self.start(*words)
        self.port = 0
        self.serve = self.start_server()

    def start(self, *words: str) -> subprocess.Popen[str]:
        return self.machine.start(*words)

    def start_server(self) -> subprocess.Popen[str]:
        """The same port again, after it was killed."""
        process = self.start("serve", "--port", str(self.port))
        assert process.stdout
        self.port = int(process.stdout.readline().split(":")[2].split("/")[0])
        return process

    @property
    def token(self) -> str:
        return (self.machine.folder / ".skitter" / "http-token").read_text().strip()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.machine.call("status", "books", "--json").stdout)
        return found | {"kept_out": sum(found["kept_out"].values())}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crawl(short_dir: Path, nursery: Nursery) -> AsyncIterator[Crawl]:
    folder = short_dir / "dashboard"
    folder.mkdir()
    with open_bookshop(folder / "access.log", books=1500, latency_s=0.2) as opened:
        shop = Shop(opened.url, folder / "access.log", opened)
        environment = {**os.environ, "SKITTER_DEMO_URL": shop.url}
        machine = Machine(folder, shop, environment, nursery)
        machine.environment.pop("SKITTER_DIR", None)
        try:
            yield await asyncio.to_thread(Crawl, machine)
        finally:
            await asyncio.to_thread(machine.stop_all)


@pytest_asyncio.fixture(loop_scope="module")
async def desk(chromium: Browser, crawl: Crawl, usual: BrowserContext) -> AsyncIterator[Desk]:
    desk = Desk(chromium, f"http://127.0.0.1:{crawl.port}/", crawl.token, [], usual)
    yield desk
    await desk.leave()


async def shown(page: Page) -> dict[str, int]:
    """All counts of the overview, by their names in `skitter status --json`."""
    read = "all => all.map(one => [one.dataset.field, Number(one.textContent.replaceAll(',', ''))])"
    return dict(await page.locator("main dl.facts dd[data-field]").evaluate_all(read))


def workers_of(machine: Machine) -> int:
    return len(machine.children("work"))


async def test_the_number_of_workers_is_previewed_and_makes_processes_come_and_go(
    desk: Desk, crawl: Crawl
) -> None:
    page = await desk.open("#/jobs/books/pipeline")
    await expect(page.get_by_label("Workers wanted")).to_have_value("1")

    for _ in range(2):
        await page.get_by_role("button", name="One worker more").click()
    await expect(page.locator(".scale .effect")).to_contain_text("2 start on")
    assert workers_of(crawl.machine) == 1
    await page.get_by_role("button", name="Apply").click()
    await until(lambda: workers_of(crawl.machine) == 3)
    await expect(page.locator(".scale .now")).to_have_text("3 workers running")
    await expect(page.locator(".crew span")).to_have_count(3)

    await page.get_by_role("button", name="One worker fewer").click()
    await expect(page.locator(".scale .effect")).to_contain_text("1 stops on")
    boxes = [await one.bounding_box() for one in await page.locator(".scale .plan button").all()]
    assert len({box["y"] for box in boxes if box}) == 1  # side by side, and nothing on top of them
    await expect(page.get_by_role("tooltip")).to_be_hidden()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_label("Workers wanted")).to_have_value("3")

    await page.get_by_label("Workers wanted").fill("1")
    await page.get_by_label("Workers wanted").press("Enter")
    await until(lambda: workers_of(crawl.machine) == 1)
    await expect(page.locator(".scale .now")).to_have_text("1 worker running")


async def test_a_paused_crawl_shows_what_status_says(desk: Desk, crawl: Crawl) -> None:
    page = await desk.open("#/jobs/books/overview")
    await expect(page.locator("dd[data-field=done]")).not_to_have_text("0")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator(".head .pill")).to_have_text("paused")
    await expect(page.locator("dd[data-field=leased]")).to_have_text("0")

    async def agree() -> bool:
        said, now = await asyncio.to_thread(crawl.status), await shown(page)
        return {name: said[name] for name in now} == now

    await until_async(agree)  # the last items are being loaded
    assert (await shown(page))["seen"] > 1

    await page.get_by_role("button", name="Resume").click()
    await expect(page.locator(".head .pill")).not_to_have_text("paused")


async def test_a_killed_server_is_noticed_and_forgiven(desk: Desk, crawl: Crawl) -> None:
    page = await desk.open("#/jobs/books/pipeline")
    await expect(page.locator(".link-state")).to_have_text("Live")
    flow = page.locator(".flow svg").last
    moves = "svg => svg.getAnimations().map(one => one.playState)"

    crawl.serve.kill()
    crawl.serve.communicate()
    banner = page.get_by_role("alert").filter(has_text="The server does not answer")
    await expect(banner).to_be_visible()
    await expect(page.locator("#content")).to_have_class("is-stale")
    assert await flow.evaluate(moves) == ["paused"]  # whatever the rate was

    crawl.serve = await asyncio.to_thread(crawl.start_server)
    await expect(page.locator(".link-state")).to_have_text("Live")
    await expect(banner).to_be_hidden()
    await expect(page.get_by_role("button", name="Pause")).to_be_enabled()


async def test_a_server_that_hangs_is_noticed_by_its_silence(desk: Desk, crawl: Crawl) -> None:
    page = await desk.open("#/jobs/books/overview")
    await expect(page.locator(".link-state")).to_have_text("Live")

    crawl.serve.send_signal(signal.SIGSTOP)
    try:
        await expect(page.locator(".link-state")).to_have_text("The server does not answer")
    finally:
        crawl.serve.send_signal(signal.SIGCONT)
    await expect(page.locator(".link-state")).to_have_text("Live")


async def test_redis_that_is_away_is_noticed_and_one_that_was_killed_comes_back(
    desk: Desk, crawl: Crawl
) -> None:
    page = await desk.open("#/jobs/books/overview")
    await expect(page.locator(".link-state")).to_have_text("Live")
    pid = await until(crawl.machine.server_pid)

    os.kill(pid, signal.SIGSTOP)
    try:
        for one in (page, await desk.open("#/jobs/books/pipeline")):
            await expect(one.locator(".link-state")).to_have_text("Redis does not answer")
    finally:
        os.kill(pid, signal.SIGCONT)
    await expect(page.locator(".link-state")).to_have_text("Live")

    os.kill(pid, signal.SIGKILL)
    await until(lambda: crawl.machine.server_pid() not in (None, pid))
    await expect(page.locator(".link-state")).to_have_text("Live")
    await page.reload()
    await expect(page.locator("dd[data-field=done]")).not_to_have_text("0")
