"""The page of runs, and the button that starts one."""

from __future__ import annotations

import msgspec
import pytest
from playwright.async_api import expect

from skitter.frontier.jobs import create_job
from skitter.frontier.records.agents import Agent, Argument, Offer, report_agent
from skitter.frontier.records.runs import Runs, Spec

pytestmark = pytest.mark.asyncio(loop_scope="module")

KIND = Argument(name="kind", type="str", default="book", choices=["book", "<b>rare</b>"])
OFFERS = [
    Offer(name="books", job="books", target="spiders/books.py", arguments=[KIND]),
    Offer(name="shop", target="spiders/shop.py", arguments=[Argument(name="pages", type="int")]),
]


async def test_run_is_pressed_and_the_run_is_shown_stopped_and_compared(desk, redis):
    page = await desk.open()
    await expect(page.get_by_role("heading", name="All jobs")).to_be_visible()
    await expect(page.get_by_text("skitter agent --spiders")).to_be_visible()

    await report_agent(redis, Agent(name="a1", host="h", pid=1, at_most=2, offers=OFFERS))
    await expect(page.get_by_text("Ready: choose a spider and press Run")).to_be_visible()
    await expect(page.get_by_text("2 spiders: books, shop.")).to_be_visible()
    await page.get_by_role("button", name="Run …").click()
    await page.get_by_label("kind (str)").select_option("<b>rare</b>")
    await page.get_by_label("Max workers").fill("3")
    await page.get_by_label("Output file").fill("rare.jsonl")
    dialog = page.get_by_role("dialog")
    command = "skitter start books -a 'kind=<b>rare</b>' --workers 3 --out rare.jsonl"
    await expect(dialog.locator(".cli code")).to_have_text(command)
    await dialog.get_by_role("button", name="Run", exact=True).click()
    await expect(page.locator("tbody tr")).to_contain_text("waiting")

    runs = Runs.on(redis)
    lease = await runs.take("a1", ["books"])
    assert lease
    assert lease.spec.settings == {"workers.processes": "3"}
    assert (lease.spec.out, lease.spec.arguments) == ("rare.jsonl", {"kind": "<b>rare</b>"})
    await expect(page.locator("tbody tr")).to_contain_text("running")
    await page.get_by_role("button", name="Stop …").click()
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(page.locator("tbody tr")).to_contain_text("stopping")
    report = {"pages_now": 7, "items": 200, "dead": 1, "end": "stopped"}
    await runs.end(lease, exit_code=0, report=msgspec.json.encode(report))
    await expect(page.locator("tbody tr")).to_contain_text("200")

    await page.get_by_role("button", name="Again").click()
    await expect(page.locator("tbody tr")).to_have_count(2)
    second = await runs.take("a1", ["books"])
    assert second
    assert second.spec.again == lease.id
    done = msgspec.json.encode(report | {"items": 150})
    await runs.end(second, exit_code=1, report=done)
    await expect(page.locator("tbody tr").first).to_contain_text("failed, 1")
    await expect(page.locator("tbody tr").first).to_contain_text("25%")


async def test_a_long_reason_leaves_the_numbers_of_a_run_in_sight(desk, redis):
    runs = Runs.on(redis)
    await runs.start(Spec(spider="books"), "failed", job="books")
    says = "the output cannot be written: " + "/a/long/folder" * 30
    lease = await runs.take("a1", ["books"])
    assert lease
    await runs.end(lease, exit_code=2, says=says)
    page = await desk.open("#/runs")
    await page.set_viewport_size({"width": 1280, "height": 860})
    row = page.locator("tbody tr", has_text="the output cannot be written")
    await expect(row.get_by_role("button", name="Again")).to_be_in_viewport(ratio=1)


async def test_a_mistake_in_the_form_is_told_by_the_server(desk, redis):
    await report_agent(redis, Agent(name="a1", host="h", pid=1, at_most=2, offers=OFFERS))
    page = await desk.open("#/runs")
    await page.get_by_role("button", name="Run …").click()
    await page.get_by_label("Max pages").fill("many")
    await page.get_by_role("dialog").get_by_role("button", name="Run", exact=True).click()
    await expect(page.get_by_text("limits.max_pages must be")).to_be_visible()


async def test_the_form_has_what_a_spider_of_a_scrapy_project_takes(desk, redis):
    kind = Argument(name="kind", type="str", default="")
    shelves = Offer(name="shelves", arguments=[kind], takes_any=True, settings=["limits.max_pages"])
    await report_agent(
        redis, Agent(name="a2", host="h", pid=2, at_most=2, offers=[*OFFERS, shelves])
    )
    page = await desk.open("#/runs")
    await page.get_by_role("button", name="Run …").click()
    await page.get_by_label("Output file").fill("left-over.jsonl")
    await page.get_by_label("Spider", exact=True).select_option("shelves")
    await expect(page.get_by_label("Output file")).to_be_hidden()
    await page.get_by_label("Other arguments").fill("a=1, b=x=y")
    dialog = page.get_by_role("dialog")
    await expect(dialog.locator(".cli code")).to_have_text("skitter start shelves -a a=1 -a b=x=y")
    await dialog.get_by_role("button", name="Run", exact=True).click()
    await expect(page.locator("tbody tr").first).to_contain_text("shelves")
    lease = await Runs.on(redis).take("a2", ["shelves"])
    assert lease
    assert (lease.spec.arguments, lease.spec.out) == ({"a": "1", "b": "x=y"}, "")


async def test_a_pipeline_without_workers_says_that_it_is_ready(desk, redis):
    await report_agent(redis, Agent(name="a1", host="h", pid=1, at_most=2, offers=OFFERS))
    await create_job(redis, "books")
    await Runs.on(redis).start(Spec(spider="books", by="ana"), "of-books", job="books")
    page = await desk.open("#/jobs/books/pipeline")
    ready = page.get_by_role("region", name="Ready")
    await expect(ready).to_contain_text("Ready: choose a spider and press Run")
    await ready.get_by_role("button", name="Run …").click()
    await expect(page.get_by_label("Spider", exact=True)).to_have_value("books")
    await page.keyboard.press("Escape")
    await page.keyboard.press("g")
    await page.keyboard.press("e")
    await expect(page.locator("tbody")).to_contain_text("of-books")
