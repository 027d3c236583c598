"""Spiders for the tests; workers find this file on their PYTHONPATH."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TypedDict

from skitter import FetchOptions, Metrics, Page, Politeness, Render, Retries, Spider

titles = Spider("titles", politeness=Politeness(delay_s=0, max_in_flight=100))


@titles.page
def title(page: Page):
    yield {"title": page.css_first("h1").text()}
    yield from page.follow_all()


#: Its handler counts and times what it does.
measured = Spider("measured")
metrics = Metrics()


@measured.page
@metrics.timing("read about")
def about(page: Page):
    metrics.increment("abouts", tags={"status": page.status})
    yield {"title": page.css_first("h1").text()}


#: For a job that is purged.
purged = Spider("purged")


@purged.page
def forget(page: Page):
    yield {"url": page.url}


#: For pages that fail: tried four times, without a pause.
stubborn = Spider(
    "stubborn",
    politeness=Politeness(delay_s=0, max_in_flight=100),
    retries=Retries(max_retries=3, base_s=0.01, cap_s=0.02),
)


@stubborn.page
def status(page: Page):
    yield {"status": page.status}


#: Its pages are made by a browser.
made = Spider("made", politeness=Politeness(delay_s=0, max_in_flight=100))


@made.page(render=Render(scripts=["() => { document.title = 'Made' }"]))  # type: ignore[arg-type]
def new_title(page: Page):
    yield {"title": page.css_first("title").text()}


#: Some of its pages are made by a browser, and others are not.
mixed = Spider("mixed", politeness=Politeness(delay_s=0, max_in_flight=100))


@mixed.page
def plain(page: Page):
    yield {"plain": page.css_first("title").text()}


@mixed.page(render=Render(scripts=["() => { document.title = 'Made' }"]))  # type: ignore[arg-type]
def made_title(page: Page):
    yield {"made": page.css_first("title").text()}


#: Stands in for slow pages, and some that are not.
slow = Spider("slow", politeness=Politeness(delay_s=0, max_in_flight=100))


@slow.page
async def render(page: Page):
    until = Path(os.environ["SLOW_UNTIL"])
    while "quick" not in page.url and not until.exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.05)
    yield {"url": page.url}


#: Holds up all other pages of its process.
blocking = Spider("blocking", politeness=Politeness(delay_s=0, max_in_flight=100))


@blocking.page
async def block(page: Page):
    if os.environ.get("BLOCK_ON", "") in page.url:
        time.sleep(float(os.environ.get("BLOCK_S", "1")))  # noqa: ASYNC251
    yield {"url": page.url}


#: Writes down each end of its crawl.
ending = Spider(
    "ending",
    lambda: [os.environ["SKITTER_DEMO_URL"]],
    politeness=Politeness(delay_s=0, max_in_flight=100),
)


@ending.page
def nothing(page: Page):
    yield {"url": page.url}


@ending.on_finish
def note(stats):
    with Path("endings").open("a") as file:
        file.write(f"{stats.done}\n")


#: Never comes to an end.
endless = Spider("endless", politeness=Politeness(delay_s=0, max_in_flight=100))


@endless.page
async def wait_forever(page: Page):
    await asyncio.Event().wait()
    yield {"url": page.url}


#: One page, its start.
front = Spider("front", lambda: [os.environ["SKITTER_DEMO_URL"]])


@front.page
def front_page(page: Page):
    yield {"url": page.url}


class Edition(TypedDict):
    title: str
    pages: int


#: Logs in, has a name of its own, and wants HTML, of which it yields an item and one that is none.
member = Spider(
    "member",
    lambda: [f"{os.environ['SKITTER_DEMO_URL']}members/"],
    politeness=Politeness(delay_s=0, max_in_flight=100),
    fetch=FetchOptions(user_agent="reader/1.0"),
    accept=("text/html",),
    item=Edition,
)


@member.login(f"{os.environ.get('SKITTER_DEMO_URL', 'http://localhost:1/')}members/login")
def log_in(page: Page):
    return page.form().fill(user="reader", password="by-candlelight").submit()


@member.page
def edition(page: Page):
    title = page.css_first("h1").text()
    if "strict" not in page.url:
        yield {"title": title, "pages": 1}
    yield {"title": title, "pages": "many"}
