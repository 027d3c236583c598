"""Every page of the dashboard on a job that has some of everything, all of it hostile."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import uvicorn
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from msgspec.structs import fields
from playwright.async_api import Page, expect
from starlette.applications import Starlette
from starlette.routing import Mount

from conftest import rude
from dashboard.conftest import Desk
from dashboard.seeds import UNSAFE, seed, seed_routes
from sinks.making import FETCHED_AT, result, write
from skitter.frontier.control import set_state
from skitter.frontier.frontier import Frontier
from skitter.frontier.items import count, set_count
from skitter.frontier.jobs import create_job, list_jobs, open_job, purge_job
from skitter.frontier.records.metrics import record
from skitter.frontier.records.outputs import claim_sink
from skitter.frontier.records.schedule import read_schedule
from skitter.frontier.transport.connection import Server
from skitter.frontier.workers import (
    Heartbeat,
    beat,
    log_lines,
    log_lost_machines,
    report_machine,
)
from skitter.model import Completion, Failure, Request, State, Stats
from skitter.observe.metrics import Batch
from skitter.server.application import application
from skitter.server.keyring import Keyring
from skitter.server.serving import Address, listen
from skitter.server.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Each page, and what tells that it is there.
PAGES = {
    "overview": "dd[data-field=done]",
    "pipeline": ".log-line",
    "charts": "line-chart .chart-table",
    "log": ".log-line",
    "hosts": "tbody tr",
    "workers": "tbody tr",
    "dead": "tbody tr",
    "items?view=quality": ".empty, tbody tr",
    "items?view=changes": ".empty, tbody tr",
    "url?url=http://a.test/19": ".card",
    "settings": ".setting",
    "schedule": ".empty",
    "routes": "tbody tr",
    "runs": ".empty",
}
AXE = Axe()
ALL_RULES = {"resultTypes": ["violations"]}
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seeded(redis: Server) -> AsyncIterator[Frontier]:
    frontier = await seed(redis, "seeded")
    await seed_routes(frontier)
    yield frontier


async def problems_of(page: Page, options: dict[str, Any]) -> list[str]:
    found = await AXE.run(page, options=options)
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found.response["violations"]
        for node in one["nodes"]
    ]


@pytest.mark.timeout(300)
async def test_pages_are_accessible_in_both_themes_narrow_enough_and_show_hostile_text_as_text(
    desk: Desk, seeded: Frontier
) -> None:
    """One tab for all of them: a new one takes as long as the checks."""
    page = await desk.open("#/jobs", color_scheme="light")
    for name, sign in PAGES.items():
        await page.emulate_media(color_scheme="light")
        await page.evaluate("place => { location.hash = place }", f"/jobs/seeded/{name}")
        await expect(page.locator(f"main {name.split('?')[0]}-page {sign}").first).to_be_visible()

        assert [name, *await problems_of(page, ALL_RULES)] == [name]
        await page.emulate_media(color_scheme="dark")
        assert [name, *await problems_of(page, CONTRAST)] == [name]

        await page.set_viewport_size({"width": 380, "height": 780})
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert (name, width) == (name, 380)
        await expect(page.locator("nav.pages [aria-current]")).to_be_in_viewport(ratio=1)
        await page.set_viewport_size({"width": 1280, "height": 860})
        assert await page.locator("main img, main script").count() == 0
        protocols = await page.locator("a").evaluate_all("all => all.map(one => one.protocol)")
        assert set(protocols) <= {"http:"}
        assert "hacked" not in await page.title()


async def test_every_count_of_a_job_is_on_its_overview(desk: Desk, seeded: Frontier) -> None:
    page = await desk.open("#/jobs/seeded/overview")
    shown = page.locator("dl.facts [data-field]")
    await expect(shown.first).to_be_visible()

    names = await shown.evaluate_all("all => all.map(one => one.dataset.field)")
    counts = {one.name for one in fields(Stats) if isinstance(one.default, int)} | {"kept_out"}
    assert counts - {"crawled", "finished"} <= set(names)


async def test_what_holds_a_job_back_is_what_it_waits_for(desk: Desk, redis: Server) -> None:
    frontier = await create_job(redis, "idle")
    page = await desk.open("#/jobs/idle/pipeline")
    held = page.locator(".stage", has_text="URLs in queue")
    await expect(held).to_contain_text("no URL is waiting")
    await frontier.add([Request("http://a.test/")])
    await expect(held).to_contain_text("no worker is running")

    await page.goto(f"{desk.address}#/jobs/idle/overview")
    await expect(page.locator("main")).to_contain_text("1 URL waits, and no worker is running")
    await expect(page.locator("main")).not_to_contain_text("handed out")


async def test_a_job_that_is_over_tells_what_came_of_it_and_what_is_left(
    desk: Desk, redis: Server
) -> None:
    frontier = await create_job(redis, "limited", options=rude(max_pages=1))
    await frontier.add([Request(f"http://a.test/{i}") for i in range(3)])
    [lease] = (await frontier.lease(3)).leases
    await frontier.complete([Completion(lease=lease)])

    page = await desk.open("#/jobs/limited/overview")

    moving = page.locator(".question").first
    await expect(moving).to_contain_text("Finished")
    await expect(moving).to_contain_text("at its limit of pages, with 2 URLs left")
    await expect(moving.get_by_text("URLs found")).to_be_visible()
    await expect(moving.get_by_text("Time left")).to_be_hidden()


async def test_the_pipeline_is_seen_whole_on_a_small_laptop(desk: Desk, redis: Server) -> None:
    frontier = await create_job(redis, "whole")
    await frontier.add([Request(f"http://localhost:12345/{i}") for i in range(9)])
    page = await desk.open("#/jobs/whole/pipeline", viewport={"width": 1280, "height": 800})
    await expect(page.locator("[data-field=pending]").first).to_have_text("9")
    await expect(page.locator("line-chart text").first).to_be_attached()

    await expect(page.locator("html")).to_have_js_property("scrollHeight", 800)
    await page.set_viewport_size({"width": 1280, "height": 1000})
    await expect(page.locator("html")).to_have_js_property("scrollHeight", 1000)
    await page.set_viewport_size({"width": 1280, "height": 800})
    await expect(page.locator("html")).to_have_js_property("scrollHeight", 800)


async def test_without_workers_their_number_is_blank_as_0_stands_for_automatic(
    desk: Desk, redis: Server
) -> None:
    await create_job(redis, "blank", options=rude())
    page = await desk.open("#/jobs/blank/pipeline")
    await expect(page.get_by_text("0 workers running")).to_be_visible()
    await expect(page.get_by_label("Workers wanted")).to_have_value("")

    await page.get_by_role("button", name="One worker more").click()
    await expect(page.get_by_label("Workers wanted")).to_have_value("1")


async def test_nodes_of_scrapy_cannot_be_scaled_and_the_page_says_so(
    desk: Desk, redis: Server
) -> None:
    frontier, now = await create_job(redis, "nodes", options=rude()), time.time()
    node = Heartbeat(name="n", host="box", pid=1, kind="scrapy", started_at=now, at=now + 600)
    await beat(frontier, node)

    page = await desk.open("#/jobs/nodes/pipeline")

    await expect(page.get_by_text("1 Scrapy node running: start and stop")).to_be_visible()
    await expect(page.get_by_label("Workers wanted")).to_be_disabled()
    await expect(page.get_by_role("button", name="One worker more")).to_be_disabled()


async def test_on_a_telephone_the_page_that_is_shown_is_seen_in_the_row(
    desk: Desk, seeded: Frontier
) -> None:
    page = await desk.open("#/jobs/seeded/routes", viewport={"width": 380, "height": 780})
    await expect(page.locator("nav.pages .badge")).to_be_visible()
    await expect(page.locator("nav.pages [aria-current]")).to_be_in_viewport(ratio=1)


async def test_on_a_telephone_the_buttons_of_a_dialog_are_side_by_side(
    desk: Desk, seeded: Frontier
) -> None:
    page = await desk.open("#/jobs/seeded/dead", viewport={"width": 380, "height": 780})
    await page.get_by_role("button", name="Drop matching …").click()
    buttons = page.locator("dialog button")
    await expect(buttons).to_have_count(2)
    tops = await buttons.evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
    assert len(set(tops)) == 1


async def test_the_log_in_page_is_accessible(desk: Desk) -> None:
    page = await desk.open(logged_in=False, color_scheme="dark")
    await expect(page.get_by_label("Token")).to_be_visible()
    assert await problems_of(page, ALL_RULES) == []


async def test_a_hostile_page_that_failed_is_shown_and_runs_nothing(
    desk: Desk, seeded: Frontier
) -> None:
    page = await desk.open("#/jobs/seeded/dead")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.get_by_role("button", name="Look").click()

    frame = page.frame_locator("dialog iframe")
    await expect(frame.locator("h1")).to_have_text("It looks like this")
    await frame.locator("#out").click()
    await page.get_by_text("Source").click()
    await expect(page.locator("dialog pre").first).to_contain_text("<script>top.document")
    await page.get_by_text("Traceback").click()
    await expect(page.locator("dialog pre").last).to_contain_text("<img src=x onerror")

    assert "hacked" not in await page.title()
    assert [url for url in asked if not url.startswith(desk.address)] == []
    assert page.url.startswith(desk.address)
    assert await page.locator("dialog img, dialog script").count() == 0
    signs = ("Blocked", "Refused", "Unsafe attempt")
    blocked = [one for one in desk.complaints if any(sign in one for sign in signs)]
    assert blocked, "the frame tried"
    desk.complaints[:] = [one for one in desk.complaints if one not in blocked]


async def test_a_dead_letter_is_shown_and_retried(desk: Desk, redis: Server) -> None:
    frontier = await seed(redis, "one-letter")
    page = await desk.open("#/jobs/one-letter/dead")
    letters = page.get_by_role("region", name="Dead letters", exact=True)
    await expect(letters.locator("tbody tr")).to_have_count(6)

    first = letters.locator("tbody tr").first
    await first.get_by_role("button", name="Show").click()
    await expect(page.get_by_role("dialog")).to_contain_text('"fingerprint"')
    await page.keyboard.press("Escape")
    await first.get_by_role("button", name="Retry").click()

    await expect(letters.locator("tbody tr")).to_have_count(5)
    stats = await frontier.stats()
    assert (stats.dead, stats.pending) == (5, 6)


async def test_a_dead_letter_with_a_secret_leads_to_its_story(desk: Desk, redis: Server) -> None:
    frontier = await create_job(redis, "secretive", options=rude())
    await frontier.add([Request("http://a.test/?token=hunter2")])
    [lease] = (await frontier.lease(1)).leases
    await frontier.bury([Failure(lease=lease, error="404 Not Found")])
    page = await desk.open("#/jobs/secretive/dead")
    await page.get_by_role("link", name="http://a.test/?token=***").click()

    await expect(page.locator("url-page .pill")).to_have_text("dead")
    assert "hunter2" not in await page.content()


async def test_what_matches_is_counted_before_it_is_retried_or_dropped(
    desk: Desk, redis: Server
) -> None:
    frontier = await seed(redis, "groups")
    page = await desk.open("#/jobs/groups/dead")
    groups = page.get_by_role("region", name="Dead letters by reason")
    await expect(groups.locator("tbody tr")).to_have_count(3)

    await groups.get_by_role("row", name="404").get_by_role("button", name="Retry").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Retry 2 dead letters?")
    await expect(dialog).to_contain_text("skitter dead retry groups --reason")
    await dialog.get_by_role("button", name="Retry").click()
    await expect(groups.locator("tbody tr")).to_have_count(2)
    assert (await frontier.stats()).dead == 4

    await page.get_by_label("Filter by reason").fill("timeout")
    await page.get_by_role("button", name="Drop matching").click()
    await expect(dialog).to_contain_text("Drop 2 dead letters?")
    await dialog.get_by_role("button", name="Go back").click()
    assert (await frontier.stats()).dead == 4
    await page.get_by_role("button", name="Drop matching").click()
    await dialog.get_by_role("button", name="Drop").click()
    await expect(groups.locator("tbody tr")).to_have_count(1)
    stats = await frontier.stats()
    assert (stats.dead, stats.dropped) == (2, 2)


async def test_a_job_is_purged_only_after_its_name_was_typed(desk: Desk, redis: Server) -> None:
    frontier = await seed(redis, "purged")
    await set_state(frontier, State.CANCELLED)
    page = await desk.open("#/jobs/purged/overview")
    await page.get_by_role("button", name="Purge").click()
    sure = page.get_by_role("dialog").get_by_role("button", name="Purge")

    await page.get_by_label("Type purged to confirm").fill("purge")
    await expect(sure).to_be_disabled()
    await page.get_by_label("Type purged to confirm").press("Enter")
    assert "purged" in await list_jobs(redis)
    await page.get_by_label("Type purged to confirm").fill("purged")
    await page.get_by_label("Type purged to confirm").press("Enter")

    await expect(page.get_by_role("heading", name="All jobs")).to_be_visible()
    assert "purged" not in await list_jobs(redis)


async def test_a_setting_is_changed_after_a_look_at_what_it_would_do(
    desk: Desk, redis: Server
) -> None:
    await seed(redis, "tuned")
    page = await desk.open("#/jobs/tuned/settings")
    await page.get_by_label("max_pages", exact=True).fill("10")
    await page.get_by_label("exclude", exact=True).fill("re:[?]q=")
    await page.get_by_role("button", name="Preview and apply").click()

    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("none → re:[?]q=")
    await expect(dialog).to_contain_text("5 pending URLs would not be fetched")
    await expect(dialog).to_contain_text("none → 10")
    await expect(dialog).to_contain_text("4 known URLs would not be fetched")
    await expect(dialog).to_contain_text("skitter set tuned --max-pages 10 --exclude")
    await dialog.get_by_role("button", name="Apply").click()
    await expect(page.get_by_text("set by an operator; default: none")).to_have_count(2)
    limits = (await open_job(redis, "tuned")).options.limits
    assert (limits.max_pages, limits.exclude) == (10, "re:[?]q=")


async def test_items_are_shown_with_their_fields_and_the_command_that_exports_them(
    desk: Desk, seeded: Frontier
) -> None:
    page = await desk.open("#/jobs/seeded/items")
    items = page.get_by_role("region", name="Items")
    await expect(items.locator("tbody tr")).to_have_count(9)
    await expect(items.get_by_role("columnheader", name="price")).to_be_visible()
    pages = await items.get_by_role("link").all_inner_texts()
    assert {one[0] for one in pages} == {"/"}  # the host is the same for all
    await expect(items.locator("tbody tr").first).to_contain_text(str(UNSAFE))

    await page.get_by_role("link", name="CSV").hover()
    await expect(page.get_by_role("tooltip")).to_have_text("skitter export seeded --to seeded.csv")
    await page.get_by_role("button", name="JSON", exact=True).click()
    await expect(page.locator("pre.json")).to_contain_text(f'"price": 9.5,\n  "id": {UNSAFE}')
    await page.get_by_label("Filter items").fill("no such title")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("No item matches the filter")).to_be_visible()


async def test_items_that_cannot_be_read_here_are_not_said_to_be_missing(
    desk: Desk, redis: Server
) -> None:
    scrapy = await create_job(redis, "by-scrapy", options=rude())
    await count(scrapy, stored=1500)
    page = await desk.open("#/jobs/by-scrapy/items")
    await expect(page.get_by_text("Stored elsewhere")).to_be_visible()
    await expect(page.get_by_text("1,500 items went to Scrapy's own pipelines")).to_be_visible()

    await claim_sink(await create_job(redis, "elsewhere", options=rude()), "/far/away.db")
    page = await desk.open("#/jobs/elsewhere/items")
    await expect(
        page.get_by_role("alert").get_by_text("Start `skitter serve` where")
    ).to_be_visible()
    await expect(page.locator("main [aria-busy]:visible")).to_have_count(0)


async def test_changes_appear_on_their_page_as_they_are_noted(
    desk: Desk, redis: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "prices.db"
    monkeypatch.setenv("SKITTER_OUT", str(place))
    frontier = await create_job(redis, "prices", options=rude())
    await claim_sink(frontier, str(place))

    async def visit(number: int, price: int) -> None:
        row = replace(result(1, {"price": price}), fetched_at=FETCHED_AT + number)
        await asyncio.to_thread(write, place, [row], job="prices")
        await set_count(frontier, "changes", number)

    for number in range(2):
        await visit(number, 10 + number)
    page = await desk.open("#/jobs/prices/items?view=changes")
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(1)
    await visit(2, 12)

    await expect(rows).to_have_count(2)
    await expect(rows.first.locator("del")).to_have_text("11")
    await expect(rows.first.locator("ins")).to_have_text("12")
    await expect(rows.last.locator("ins")).to_have_text("11")


async def test_the_story_of_a_url_is_told(desk: Desk, seeded: Frontier) -> None:
    page = await desk.open("#/jobs/seeded/url")
    await page.get_by_label("URL").fill("http://a.test/nowhere")
    await page.keyboard.press("Enter")

    await expect(page.locator(".card .pill")).to_have_text("unknown")
    await expect(page.get_by_text("skitter why seeded http://a.test/nowhere")).to_be_visible()


async def test_routes_are_shown_with_what_they_brought(desk: Desk, seeded: Frontier) -> None:
    page = await desk.open("#/jobs/seeded/routes")
    routes = page.get_by_role("region", name="Success by site and route")

    row = routes.get_by_role("row", name="(all) dc-1")
    await expect(row).to_contain_text("75%")
    await expect(row.get_by_role("cell").nth(3)).to_have_text("3")
    await expect(routes.get_by_role("row", name="a.test dc-1")).to_be_visible()
    sessions = page.get_by_role("region", name="Sessions")
    session = sessions.get_by_role("row", name="a.test shop")
    for timed in (row, session):  # as the figures of the job have it
        await expect(timed.get_by_role("cell", name=re.compile(r"^\d+ ms$"))).to_be_visible()


async def test_a_schedule_is_set_and_removed(desk: Desk, redis: Server) -> None:
    frontier = await seed(redis, "planned")
    page = await desk.open("#/jobs/planned/schedule")
    await page.get_by_role("button", name="Set a schedule").click()
    await page.get_by_label("Every").fill("6")
    await page.get_by_label("Unit").select_option("hours")
    await page.get_by_role("dialog").get_by_role("button", name="Set").click()
    await expect(page.get_by_text("every 6 h")).to_be_visible()
    schedule = await read_schedule(frontier)
    assert schedule
    assert schedule.every_s == 6 * 3600

    await page.get_by_role("button", name="Remove").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(page.get_by_text("No schedule", exact=True)).to_be_visible()
    assert await read_schedule(frontier) is None


async def test_the_log_is_filtered_and_follows_until_somebody_reads(
    desk: Desk, redis: Server
) -> None:
    frontier = await seed(redis, "logged")
    page = await desk.open("#/jobs/logged/pipeline")
    lines = page.locator(".log-line")
    await expect(lines).to_have_count(31)
    await page.get_by_label("Lowest level").select_option("error")
    await expect(lines).to_have_count(1)
    await page.get_by_label("Lowest level").select_option("info")
    await page.get_by_label("Filter the log").fill("LINE 2")
    await expect(lines).to_have_count(11)
    await expect(page.locator(".log-foot")).to_contain_text("11 of 31 lines")
    await page.get_by_label("Filter the log").fill("")

    await log_lines(frontier, "w", [("info", f"news {i}", "") for i in range(20)])
    await expect(page.get_by_text("news 19")).to_be_in_viewport()
    await page.get_by_role("log").evaluate("list => { list.scrollTop = 0 }")
    await expect(page.get_by_label("Follow")).not_to_be_checked()
    await log_lines(frontier, "w", [("info", "the last of all", "")])
    await expect(page.get_by_text("the last of all")).to_be_attached()
    await expect(page.get_by_text("the last of all")).not_to_be_in_viewport()
    await page.get_by_label("Follow").check()
    await expect(page.get_by_text("the last of all")).to_be_in_viewport()


async def test_it_works_below_a_path_of_a_proxy(
    desk: Desk, redis: Server, seeded: Frontier
) -> None:
    site = Site(redis, Keyring(redis, b"of the test"))
    mounted = Starlette(routes=[Mount("/tools/skitter", application(site))])
    config = uvicorn.Config(mounted, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    server, listener = uvicorn.Server(config), listen(Address())
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        desk.address = f"{Address().url(listener)}tools/skitter/"
        page = await desk.open("#/jobs/seeded/pipeline")
        await expect(page.locator(".link-state")).to_have_text("Live")
        await expect(page.locator(".stage b[data-field=pending]")).to_have_text("5")
        await page.close()
    finally:
        server.should_exit = True
        await task


async def test_two_tabs_share_one_stream(desk: Desk, seeded: Frontier) -> None:
    page = await desk.open("#/jobs/seeded/overview")
    await expect(page.locator(".link-state")).to_have_text("Live")
    other = await page.context.new_page()
    streams: list[str] = []
    page.context.on(
        "request", lambda one: streams.append(one.url) if "api/events" in one.url else None
    )
    await other.goto(f"{desk.address}#/jobs/seeded/overview")
    await expect(other.locator("dd[data-field=pending]")).to_have_text("5")
    await seeded.add([Request("http://a.test/news")])

    for each in (page, other):
        await expect(each.locator("dd[data-field=pending]")).to_have_text("6")
    assert streams == []


async def test_jobs_are_a_table_with_those_that_need_somebody_first(
    desk: Desk, redis: Server
) -> None:
    """200 jobs were 13,500 px of cards, and one without a worker was green."""
    for number in range(60):
        await create_job(redis, f"quiet-{number:02}", options=rude())
    frontier = await create_job(redis, "forgotten", options=rude())
    await frontier.add([Request(f"http://a.test/{i}") for i in range(3)])

    page = await desk.open("#/jobs")
    first = page.locator("tbody tr").first
    await expect(first).to_contain_text("no workers")
    row = page.locator("tbody tr").filter(has_text="forgotten")
    await expect(row).to_contain_text("3 URLs wait, and no worker is running")
    await expect(row.locator("code")).to_have_text("skitter worker SPIDER --job forgotten")
    await expect(page).to_have_title(re.compile(r"^\(\d+!\) Jobs"))
    await expect(page.locator("tbody tr")).to_have_count(50)

    await page.get_by_label("Search jobs").fill("quiet-5")
    await expect(page.locator("tbody tr")).to_have_count(10)
    await expect(page.get_by_text("10 of 10 jobs that match")).to_be_visible()
    await page.get_by_label("Search jobs").fill("no workers")
    await expect(row).to_be_visible()
    await row.get_by_role("link").click()
    await expect(page.locator(".head .alarm")).to_have_text("no workers")
    for number in range(60):
        await purge_job(await open_job(redis, f"quiet-{number:02}"))


async def test_a_machine_that_is_lost_is_on_the_page_that_the_overview_links_to(
    desk: Desk, redis: Server
) -> None:
    frontier, now = await create_job(redis, "shared", options=rude()), time.time()
    await frontier.add([Request("http://a.test/")])
    at_work = Heartbeat(name="web-1-1-a", host="web-1", pid=1, started_at=now, at=now + 600)
    lost = "web-2.rack-12.datacenter.internal"
    gone = Heartbeat(name="web-2-7-b", host=lost, pid=7, started_at=now - 90, at=now - 60)
    for one in (at_work, gone):
        await beat(frontier, one)
        await report_machine(frontier, msgspec.structs.replace(one, kind="supervisor"))
    await log_lost_machines(frontier, "serve")

    page = await desk.open("#/jobs/shared/overview")
    await expect(page.locator(".question").filter(has_text="Is it stuck?")).to_contain_text(
        f"{lost} has been silent for"
    )
    await page.get_by_role("link", name="1 worker").click()
    machines = page.get_by_role("region", name="Machines").locator("tbody tr")
    await expect(machines.first).to_contain_text("web-2")
    await expect(machines.first.get_by_text("it held no URL")).to_be_in_viewport(ratio=1)
    await expect(machines.first.locator(".pill")).to_have_text("lost")
    await expect(machines.last.locator(".pill")).to_have_text("at work")
    workers = page.get_by_role("region", name="Workers").locator("tbody tr")
    await expect(workers.first).to_contain_text("web-2-7-b")


async def test_hosts_that_are_not_on_the_page_are_found(desk: Desk, redis: Server) -> None:
    frontier = await create_job(redis, "wide", options=rude())
    await frontier.add([Request(f"http://h{number:04}.test/") for number in range(700)])
    page = await desk.open("#/jobs/wide/hosts?sort=host")
    await expect(page.locator("tbody tr")).to_have_count(100)
    await expect(page.get_by_text("100 of 700 hosts")).to_be_visible()

    await page.get_by_role("button", name="Show more").click()
    await expect(page.locator("tbody tr")).to_have_count(300)
    await page.get_by_label("Filter by host").fill("h0666")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page.locator("tbody")).to_contain_text("h0666.test")


async def test_one_failing_line_is_one_group_of_dead_letters_and_pages_follow(
    desk: Desk, redis: Server
) -> None:
    frontier = await create_job(redis, "failing", options=rude())
    await frontier.add([Request(f"http://a.test/{i}") for i in range(230)])
    for at, lease in enumerate((await frontier.lease(230)).leases):
        error = f"handler book failed: ValueError: row {at} is bad (shop.py:33: int(text))"
        await frontier.bury([Failure(lease=lease, error=error)])
    page = await desk.open("#/jobs/failing/dead")
    groups = page.get_by_role("region", name="Dead letters by reason").locator("tbody tr")
    await expect(groups).to_have_count(1)
    await expect(groups).to_contain_text("handler book failed: ValueError (shop.py:33: int(text))")
    await expect(groups).to_contain_text("for example: ")
    await expect(groups).to_contain_text("230")
    letters = page.get_by_role("region", name="Dead letters", exact=True).locator("tbody tr")
    await expect(letters).to_have_count(200)
    await page.get_by_role("button", name="Show more").click()
    await expect(letters).to_have_count(230)


async def test_every_state_of_a_url_is_in_the_bar(desk: Desk, redis: Server) -> None:
    """587 URLs that were held were missing from it."""
    frontier = await create_job(redis, "budgeted", options=rude(max_pages_per_host=2))
    await frontier.add([Request(f"http://a.test/{i}") for i in range(5)])
    for _ in range(2):
        [lease] = (await frontier.lease(1)).leases
        await frontier.complete([Completion(lease=lease)])
    assert (await frontier.stats()).shelved == 3
    page = await desk.open("#/jobs")
    bar = page.locator("tbody tr").filter(has_text="budgeted").get_by_role("img")
    await expect(bar).to_have_attribute("aria-label", "2 done, 3 over their host's budget")


async def test_the_log_is_there_wherever_one_scrolls(desk: Desk, redis: Server) -> None:
    frontier = await create_job(redis, "talkative", options=rude())
    await log_lines(frontier, "w", [("info", f"line {i}", "") for i in range(450)])
    page = await desk.open("#/jobs/talkative/log")
    lines = page.locator(".log-line")
    await expect(lines).to_have_count(450)
    box = page.get_by_role("log")
    await box.evaluate("box => { box.scrollTop = box.scrollHeight / 2 }")
    await expect(page.get_by_label("Follow")).not_to_be_checked()
    seen = await box.evaluate(
        """box => {
            const { left, top, width, height } = box.getBoundingClientRect();
            const there = document.elementFromPoint(left + width / 3, top + height / 2);
            return there.closest(".log-line")?.textContent;
        }"""
    )
    assert "line " in (seen or "")
    await log_lines(frontier, "w", [("info", "one more", "")])
    await expect(lines.last).to_contain_text("one more")
    assert await box.evaluate("box => box.scrollTop > 100 && box.scrollTop < box.scrollHeight / 2")


async def test_a_chart_of_zeros_has_an_axis_that_fits_its_card(desk: Desk, redis: Server) -> None:
    """Its label was 0.0000000005, and began outside of the card."""
    frontier = await create_job(redis, "quiet-charts", options=rude())
    await record(frontier, Batch(Counter({"pages": 5, "fetch.ok": 5})))
    page = await desk.open("#/jobs/quiet-charts/charts")
    chart = page.locator(".card").filter(has_text="Trouble")
    await expect(chart.locator("svg text").first).to_be_visible()
    texts = await page.locator(".card svg text").all_text_contents()
    assert not [text for text in texts if text.startswith("0.00")]
