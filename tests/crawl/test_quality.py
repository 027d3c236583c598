"""What is scraped gets worse while it is crawled: `run` says so, fails, or pauses the crawl."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from skitter.app import open_server
from skitter.frontier.jobs import create_job, open_job
from skitter.frontier.transport.messages import encode
from skitter.model import State
from skitter.settings import Settings

pytestmark = pytest.mark.timeout(300)

SPIDER = """
from skitter import Politeness, Spider
spider = Spider("shop", ["%URL%"], politeness=Politeness(delay_s=%DELAY%, max_in_flight=4))
@spider.page
def page(page):
    yield {"url": page.url, "price": None}
    yield from page.follow_all()
"""
BAD = "page: 'price' is filled in 0% of the items, down from 100%"


@pytest.fixture
def machine(open_shop, make_machine):
    machine = make_machine(open_shop(books=60))
    machine.environment["SKITTER_QUALITY_MIN_PAGES"] = "20"
    return machine


def prepare(machine, delay_s: float) -> None:
    """A spider whose price is empty, and a job in which it was filled an hour ago."""
    text = SPIDER.replace("%URL%", machine.shop.url).replace("%DELAY%", str(delay_s))
    (machine.folder / "shop.py").write_text(text)
    hour_ago = round(time.time() - 3600) * 1000
    row = [hour_ago, 100, 100, 0, 100, 100]
    past = encode({"columns": ["text:url", "number:price"], "rows": [row]})

    async def write() -> None:
        async with open_server(Settings(directory=machine.folder / ".skitter")) as server:
            home = (await create_job(server, "shop")).home
            await server.command("HSET", home.keys.key("quality"), "page", past)

    asyncio.run(write())


def test_a_field_that_is_not_filled_any_more_fails_the_run(machine):
    prepare(machine, delay_s=0)

    ran = machine.call("run", "shop.py", "-p", "1", "--on-bad", "fail", "--json")
    report = json.loads(ran.stdout)
    shown = machine.call("quality", "shop")

    assert (ran.returncode, report["bad"], report["finished"]) == (1, [BAD], True)
    assert report["end"] == "finished, but the quality of the items dropped"
    head, *_, price, bad = [line.split() for line in shown.stdout.splitlines()]
    assert head == ["handler", "field", "type", "now", "before", "over", "time"]
    assert price[:-1] == ["page", "price", "number", "0%", "100%"]
    assert price[-1].rstrip("▁") == "█"  # then a window for every 5 seconds that it took
    assert (shown.returncode, " ".join(bad)) == (1, f"bad {BAD}")


def test_a_crawl_is_paused_before_all_of_it_is_bad(machine):
    prepare(machine, delay_s=0.1)

    ran = machine.call("run", "shop.py", "-p", "1", "--on-bad", "pause")

    async def state() -> tuple[State, int]:
        async with open_server(Settings(directory=machine.folder / ".skitter")) as server:
            stats = await (await open_job(server, "shop")).stats()
            return stats.state, stats.remaining

    now, remaining = asyncio.run(state())
    assert ran.returncode == 1
    assert f"bad      {BAD}: `skitter quality shop`" in ran.stdout
    assert "shop: paused, because the quality of the items dropped" in ran.stdout
    assert (now, remaining > 0) == (State.PAUSED, True)
