"""The spider of a charge. For pages that somebody waits for, it puts what came of each into an
envelope, addressed to whoever asked."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from skitter.settings import Limits, check_job_name
from skitter.spider import Scope, Spider, default_spider, load_spider, run_handler
from skitter.spider.scope import ANY_HOST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skitter.celery.charges import Charge
    from skitter.page import Page

#: Key of `Request.meta`: the Celery task that waits for the page.
TASK = "_celery"
#: Only the page that was asked for, wherever it redirects to.
ALONE = Limits(max_depth=0)
ANYWHERE = Scope(hosts=[ANY_HOST])


def spider_of(charge: Charge) -> Spider:
    """Raises SpiderError if this machine cannot load it."""
    if charge.kind == "crawl":
        return load_spider(charge.target)
    inner = inner_spider(charge.target)
    if charge.kind == "pages":
        return _for_pages(charge.job, inner)
    return _with_envelopes(charge.job, inner)


@cache
def known_spider(target: str) -> Spider:
    """The same, to be looked at and not to be run: its file is loaded once in a process."""
    return inner_spider(target)


def inner_spider(target: str) -> Spider:
    """The user's spider, or the default one."""
    return load_spider(target) if target else default_spider("pages", [], scope=ANYWHERE)


def _lonely(job: str, inner: Spider) -> Spider:
    """A spider that goes nowhere; its items were checked by the inner one."""
    return Spider(check_job_name(job), limits=ALONE, scope=ANYWHERE, canonical=inner.canonical)


def _for_pages(job: str, inner: Spider) -> Spider:
    spider = _lonely(job, inner)

    async def only_items(page: Page) -> AsyncIterator[Any]:
        for item in (await run_handler(inner, page)).items:
            yield item

    spider.page(only_items)
    spider.hooks.start += inner.hooks.start
    return spider


def _with_envelopes(job: str, inner: Spider) -> Spider:
    spider = _lonely(job, inner)

    async def envelope(page: Page) -> AsyncIterator[Any]:
        outcome = await run_handler(inner, page)
        yield {"task": page.request.meta.get(TASK), "url": page.url, "items": outcome.items}

    spider.page(envelope)
    spider.hooks.start += inner.hooks.start
    return spider
