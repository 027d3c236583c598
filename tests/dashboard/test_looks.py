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
from skitter.frontier.quotas import set_tenant
from skitter.frontier.records.agents import Agent, Offer, report_agent
from skitter.frontier.transport.connection import Server
from skitter.frontier.workers import Heartbeat, beat, log_lines, report_machine
from skitter.model import Failure, Request

pytestmark = pytest.mark.asyncio(loop_scope="module")

JOB = "a-job-with-a-name-of-considerable-length.and.dots-2026"
LONG = f"https://shop.example/{'a-long-part-of-a-path/' * 12}?q={'x' * 300}"
ARABIC = "مرحبا بالعالم — كتاب عن النسيج"
HOST = "host-{}.with-a-rather-long-subdomain-name.shop.example:8080"
#: A screen of 860 pixels shows seven rows of 120. A host has two lines: its site is the second.
TALLEST_PX = {"hosts": 60, "workers": 120, "dead": 120, "log": 130}


async def seed_long_names(redis: Server) -> None:
    frontier = await create_job(redis, JOB, options=rude())
    hosts = [f"http://{HOST.format(number)}/p" for number in range(40)]
    await frontier.add([Request(LONG), *map(Request, hosts)])
    leases = (await frontier.lease(20)).leases
    errors = (f"timeout: {LONG}", f"handler failed: ValueError: {ARABIC} at books.py:31")
    await frontier.bury(
        [Failure(lease=lease, error=errors[at % 2]) for at, lease in enumerate(leases)]
    )
    lines = [("error", ARABIC, LONG), ("info", "a line", ""), ("warning", "word " * 200, "")]
    await log_lines(frontier, "w-1", lines * 30)
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

    for name, tallest_px in [*TALLEST_PX.items()]:
        await page.goto(f"{desk.address}#/jobs/{JOB}/{name}")
        rows = page.locator(f"{name}-page .log-line, {name}-page tbody tr")
        await expect(rows.nth(1)).to_be_visible()
        heights = [
            (await row.bounding_box() or {"height": 0})["height"] for row in await rows.all()
        ]
        assert max(heights) <= tallest_px, (name, heights)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name


@pytest.mark.parametrize("width", [1280, 390])
async def test_a_long_log_scrolls_in_its_card_and_a_long_line_unfolds(
    desk: Desk, redis: Server, width: int
) -> None:
    """Words for screen readers in lines that are out of sight made the page as long as the log."""
    await seed_long_names(redis)
    page = await desk.open(f"#/jobs/{JOB}/log", viewport={"width": width, "height": 860})
    line = page.locator(".log-line", has_text="word word").last
    await expect(line).to_be_visible()

    assert await page.evaluate("document.documentElement.scrollHeight") <= 1100
    folded = (await line.bounding_box() or {"height": 0})["height"]
    await line.locator(".text").click()
    assert (await line.bounding_box() or {"height": 0})["height"] > folded
    await line.locator(".text").click()
    assert (await line.bounding_box() or {"height": 0})["height"] == folded


async def test_a_long_host_shows_how_it_begins_and_its_site(desk: Desk, redis: Server) -> None:
    await seed_long_names(redis)
    page = await desk.open(f"#/jobs/{JOB}/hosts", viewport={"width": 390, "height": 860})
    name = HOST.format(7)

    host = page.locator(f'.host[title="{name}"]')
    await expect(host).to_have_text(name)
    first, site = host.locator("span").nth(0), host.locator("span").nth(1)
    await expect(site).to_have_text("shop.example:8080")
    fits = "one => one.scrollWidth <= one.clientWidth"
    assert await site.evaluate(fits)
    assert not await first.evaluate(fits)  # cut, with an ellipsis


@pytest.mark.parametrize(
    ("host", "lines"),
    [
        ("shop.example", ["shop.example"]),
        ("www.shop.co.uk:8080", ["www.", "shop.co.uk:8080"]),
        ("10.20.30.40:8080", ["10.20.30.40:8080"]),
        ("[2001:db8::1]:8080", ["[2001:db8::1]:8080"]),
        ("localhost:8000", ["localhost:8000"]),
        ("a.b.c.d.example.com", ["a.b.c.d.", "example.com"]),
    ],
)
async def test_a_host_is_divided_before_its_site(desk: Desk, host: str, lines: list[str]) -> None:
    page = await desk.open("static/icon.svg")
    await page.goto(desk.address)
    module = "const { hostName } = await import('/static/js/dom.js');"
    found = await page.evaluate(
        f"async host => {{ {module} return [...hostName(host).children].map(s => s.textContent) }}",
        host,
    )
    assert found == lines


async def test_quotas_are_shown_with_what_is_used(desk: Desk, redis: Server) -> None:
    await seed_long_names(redis)
    await set_tenant(redis, "a-job-*", {"max_jobs": 1, "max_pending": 5_000_000})
    page = await desk.open(f"#/jobs/{JOB}/overview")

    card = page.locator("section", has=page.get_by_role("heading", name="Quotas"))
    await expect(card).to_contain_text("a-job-*")
    await expect(card.locator("dd").nth(0)).to_have_text("1 of 1")
    await expect(card.locator("dd").nth(0)).to_have_class("error")
    await expect(card.locator("dd").nth(1)).to_contain_text("of 5,000,000")


async def test_of_a_job_that_is_not_there_only_that_is_said_until_it_starts(
    desk: Desk, redis: Server
) -> None:
    """A page of empty cards stood below, and two notices that said the same."""
    page = await desk.open("#/jobs/not-yet/overview")
    await expect(page.locator(".banner")).to_contain_text("There is no such job")
    await expect(page.locator("#content")).to_be_hidden()

    frontier = await create_job(redis, "not-yet", options=rude())
    await frontier.add([Request("http://a.test/")])

    await expect(page.locator("#content")).to_be_visible()
    await expect(page.locator(".banner")).to_be_hidden()
    await expect(page.get_by_role("heading", name="Is it moving?")).to_be_visible()


async def test_the_symbol_of_a_button_is_no_larger_where_nothing_is_there_yet(
    desk: Desk, redis: Server
) -> None:
    await report_agent(
        redis,
        Agent(name="a", host="h", pid=1, at_most=1, offers=[Offer(name="x", target="x.py")]),
    )
    await create_job(redis, "no-runs", options=rude())
    page = await desk.open("#/jobs/no-runs/runs")

    icon = page.locator(".empty button svg")
    await expect(icon).to_be_visible()
    assert (await icon.bounding_box() or {"height": 99})["height"] < 24


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
