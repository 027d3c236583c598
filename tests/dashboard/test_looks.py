"""Pages stay in shape, whatever sites, machines and people call things."""

from __future__ import annotations

import asyncio
import time

import pytest
from msgspec.structs import replace
from playwright.async_api import Route, expect

from conftest import rude
from dashboard.conftest import Desk
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.connection import Server
from skitter.frontier.workers import Heartbeat, beat, log_lines, report_machine
from skitter.model import Failure, Request

pytestmark = pytest.mark.asyncio(loop_scope="module")

JOB = "a-job-with-a-name-of-considerable-length.and.dots-2026"
LONG = f"https://shop.example/{'a-long-part-of-a-path/' * 12}?q={'x' * 300}"
ARABIC = "مرحبا بالعالم — كتاب عن النسيج"
HOST = "host-{}.with-a-rather-long-subdomain-name.shop.example:8080"
#: A screen of 860 pixels shows seven of such rows.
TALLEST_PX = 120


async def seed_long_names(redis: Server) -> None:
    frontier = await create_job(redis, JOB, options=rude())
    hosts = [f"http://{HOST.format(number)}/p" for number in range(40)]
    await frontier.add([Request(LONG), *map(Request, hosts)])
    leases = (await frontier.lease(20)).leases
    errors = (f"timeout: {LONG}", f"handler failed: ValueError: {ARABIC} at books.py:31")
    await frontier.bury(
        [Failure(lease=lease, error=errors[at % 2]) for at, lease in enumerate(leases)]
    )
    await log_lines(frontier, "w-1", [("error", ARABIC, LONG), ("info", "a line", "")])
    now = time.time()
    worker = Heartbeat(
        name="machine-7.rack-12.datacenter.internal-12345-abcdef01",
        host="machine-7.rack-12.datacenter.internal",
        pid=12345,
        started_at=now - 300_000,
        at=now + 600,
        pages=123_456_789_012,
        note="a note that is long; " * 30,
    )
    await beat(frontier, worker)
    said = "it held 12 URLs; " * 20
    lost = replace(worker, name="lost", kind="supervisor", at=now - 90, note=said)
    await report_machine(frontier, lost)


@pytest.mark.parametrize("width", [1280, 390])
async def test_no_name_is_so_long_that_a_row_fills_the_screen_or_the_page_scrolls_sideways(
    desk: Desk, redis: Server, width: int
) -> None:
    await seed_long_names(redis)
    page = await desk.open(viewport={"width": width, "height": 860})

    for name in ("hosts", "workers", "dead", "log"):
        await page.goto(f"{desk.address}#/jobs/{JOB}/{name}")
        rows = page.locator(f"{name}-page .log-line, {name}-page tbody tr")
        await expect(rows.nth(1)).to_be_visible()
        heights = [
            (await row.bounding_box() or {"height": 0})["height"] for row in await rows.all()
        ]
        assert max(heights) <= TALLEST_PX, (name, heights)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name


async def test_who_goes_on_while_the_list_of_jobs_loads_is_not_sent_back(
    desk: Desk, redis: Server
) -> None:
    await create_job(redis, "slow-list", options=rude())
    page = await desk.open("static/icon.svg")
    went_on = asyncio.Event()

    async def hold(route: Route) -> None:
        await went_on.wait()
        await route.continue_()

    await page.route("**/api/jobs", hold)
    async with page.expect_request("**/api/jobs"):
        await page.goto(desk.address)
    await page.evaluate("location.hash = '#/jobs/slow-list/hosts'")
    went_on.set()

    await expect(page.get_by_role("option", name="slow-list")).to_be_attached()
    assert await page.locator("hosts-page").count() == 1
    assert page.url.endswith("#/jobs/slow-list/hosts")
