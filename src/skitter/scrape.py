"""The spider of pages that callers ask for: `skitter serve --workers 2`, or on any machine

    skitter worker skitter.scrape --keep-alive

It follows no links. What a page says becomes one item, the answer to whoever asked for the page.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from skitter.fetch import Render
from skitter.fetch.browser.chromium import missing
from skitter.settings import Limits, resolve
from skitter.spider import Scope, Spider
from skitter.spider.default import Format as Said
from skitter.spider.default import said_by, title_of
from skitter.spider.scope import ANY_HOST

if TYPE_CHECKING:
    from skitter.model import Request
    from skitter.spider.page import Page

JOB: Final = "scrape-api"
#: Keys in `Request.meta`: the id of the answer, and what it is to say.
ID, WANTED = "_answer", "_wanted"
#: The most that wait for their turn.
MAX_PENDING: Final = 1000


class Format(StrEnum):
    """What an answer says of a page, besides its url, status and title."""

    MARKDOWN = "markdown"
    TEXT = "text"
    HTML = "html"
    LINKS = "links"
    DATA = "data"
    SCREENSHOT = "screenshot"


def handler_for(formats: list[Format], *, render: bool) -> str:
    """Who fetches it. A screenshot needs a browser."""
    if Format.SCREENSHOT in formats:
        return "pictured"
    return "rendered" if render else "plain"


def spider() -> Spider:
    """Pages that need a browser are only for workers that have one."""
    limits = Limits(max_pending=MAX_PENDING, shape_budget=None)
    made = Spider(JOB, scope=Scope(hosts=[ANY_HOST]), limits=limits, cookies=False)
    made.item_per_page = True
    made.page(plain)
    if missing(resolve().browser) is None:
        made.page(render=True)(rendered)
        made.page(render=Render(screenshot=True, block=()))(pictured)
    made.hooks.answer = answer
    return made


def plain(page: Page) -> dict[str, Any]:
    title = title_of(page) if page.is_html else None
    said: dict[str, Any] = {"url": page.url, "status": page.status, "title": title}
    for one in map(Format, page.meta.get(WANTED, ())):
        if one is Format.LINKS:
            said["links"] = page.links(frames=True) if page.is_html else []
        elif one is Format.SCREENSHOT:
            said["screenshot"] = page.screenshot
        else:
            said |= said_by(page, Said(one))
    return {"id": page.meta.get(ID), "page": said}


def rendered(page: Page) -> dict[str, Any]:
    return plain(page)


def pictured(page: Page) -> dict[str, Any]:
    return plain(page)


def answer(request: Request, items: list[dict[str, Any]], why: str) -> dict[str, Any]:
    return items[0] if items else {"id": request.meta.get(ID), "error": why}
