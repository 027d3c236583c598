"""What callers hand over. The tasks here only put URLs into the frontier and end: nobody waits in
a worker's place for a slow host to have its turn.

Each is safe to run twice, because a URL of a task is known by the task's id, and one of a job by
itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec
from kombu.utils.json import dumps

from skitter.celery.care import look_after
from skitter.celery.charges import Charge, take_charge, take_charge_once
from skitter.celery.deliver import sign_task
from skitter.celery.envelope import ALONE, TASK, known_spider
from skitter.errors import JobMissing
from skitter.frontier.admin.callback import reopen_finale
from skitter.frontier.admin.jobs import create_job
from skitter.frontier.feed import feed
from skitter.model import Added, Request
from skitter.settings import JobOptions, Layout
from skitter.spider import load_spider
from skitter.spider.seeding import offer_seeds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.celery.office import Office
    from skitter.celery.options import CrawlOptions, ManyOptions, Pace, ScrapeOptions
    from skitter.frontier.frontier import Frontier

MAX_ITEMS = 50_000
#: The mark of jobs that have no beginning and no end: all callers share one.
SERVICE = "service"
#: The fields of a Celery request that its end needs.
CONTEXT = (
    "id", "task", "args", "kwargs", "chord", "group", "group_index", "callbacks", "errbacks",
    "chain", "root_id", "parent_id", "reply_to", "correlation_id", "ignore_result",
)  # fmt: skip


class HandedOver(TypedDict):
    """What `crawl` and `scrape_many` answer; `status(job)` tells the rest."""

    job: str
    new: int
    known: int


def context_of(request: Any) -> dict[str, Any]:
    """A Celery request as plain values: it waits in the frontier for its end."""
    known = {name: getattr(request, name, None) for name in CONTEXT}
    plain: dict[str, Any] = msgspec.json.decode(dumps(known))
    return {name: value for name, value in plain.items() if value is not None}


def service_charge(options: ScrapeOptions) -> Charge:
    """One job for all pages of a spider that somebody waits for, so that politeness is shared."""
    name = f"scrape-{known_spider(options.spider).name}" if options.spider else "scrape"
    return Charge(
        job=f"{name}-browser" if options.browser else name,
        kind="scrape",
        target=options.spider,
        browser=options.browser,
        mark=SERVICE,
    )


def request_of(url: str, options: ScrapeOptions, ticket: dict[str, Any]) -> Request:
    """One page for the task that waits for it."""
    return Request(
        url=url,
        priority=options.priority,
        headers=options.headers,
        meta={TASK: ticket},
        unique=ticket["id"],
    )


def waiting_task(
    office: Office, job: str, options: ScrapeOptions, context: dict[str, Any]
) -> dict[str, Any]:
    """The task that waits for a page, as it is kept with the page. Raises NotAllowed if it has
    callbacks that nobody could trust."""
    record = options.errors == "record" or (not options.errors and "chord" in context)
    return sign_task(office.secret, job, context | {"record_errors": record})


async def hand_over_one(
    office: Office, frontier: Frontier, charge: Charge, request: Request
) -> None:
    await feed(frontier, [frontier.offer(request)], wait=False)
    charge = await take_charge_once(frontier.shards[0].server, charge, office.secret)
    await look_after(office, charge)


async def hand_over_many(office: Office, urls: Sequence[str], options: ManyOptions) -> HandedOver:
    """Pages for a job; those it knows are left alone."""
    if not urls:
        return HandedOver(job=options.job, new=0, known=0)
    charge = Charge(
        job=options.job,
        kind="pages",
        target=options.spider,
        out=options.out,
        browser=options.browser,
        lease_s=options.lease_s,
        mark=SERVICE,
    )
    charge = office.sign(charge)
    frontier = await open_pages(office, charge, options)
    offers = [frontier.offer(Request(url=url, priority=options.priority)) for url in urls]
    added = await feed(frontier, offers, wait=False)
    await take_charge(frontier.shards[0].server, charge)
    await look_after(office, charge)
    return HandedOver(job=charge.job, new=added[Added.NEW], known=added[Added.SEEN])


async def begin_crawl(office: Office, options: CrawlOptions) -> HandedOver:
    """A spider's crawl, from its seeds; again, it resumes."""
    spider = load_spider(options.spider)
    frontier = await create_job(
        await office.server(),
        options.job or spider.name,
        options=_bounded(spider.options),
        layout=Layout(canonical=spider.canonical),
    )
    before = await frontier.stats()
    private = await offer_seeds(frontier, spider)
    after = await frontier.stats()
    if not (after.seen or after.fed):  # a job that never had a URL never ends
        return HandedOver(job=frontier.job, new=0, known=0)
    charge = Charge(
        job=frontier.job,
        target=options.spider,
        out=options.out,
        browser=options.browser,
        pumps=options.pumps,
        obey_robots=options.obey_robots,
        lease_s=options.lease_s,
        allow=tuple(sorted(private)),
        hooks=bool(spider.hooks.finish),
    )
    charge = office.sign(charge)
    await reopen_finale(frontier)
    await take_charge(frontier.shards[0].server, charge)
    await look_after(office, charge)
    return HandedOver(
        job=charge.job,
        new=after.seen - before.seen,
        known=after.duplicates - before.duplicates,
    )


async def open_pages(office: Office, charge: Charge, pace: Pace | None = None) -> Frontier:
    """The job of a charge without links. A new one is as polite as the call says, or the spider, or
    the app; what an operator changed since stays."""
    try:
        return await office.frontier(charge.job)
    except JobMissing:
        spider = known_spider(charge.target)
        usual = spider.politeness if charge.target else office.settings.politeness
        polite = pace.over(usual) if pace else usual
        options = JobOptions(politeness=polite, retries=spider.retries, limits=ALONE)
        options = _bounded(options) if charge.kind == "pages" else options
        layout = Layout(canonical=spider.canonical)
        await create_job(await office.server(), charge.job, options=options, layout=layout)
        return await office.frontier(charge.job)


def _bounded(options: JobOptions) -> JobOptions:
    """A crawl whose items nobody takes waits for a loader; it does not fill the server."""
    limits = replace(options.limits, max_items=options.limits.max_items or MAX_ITEMS)
    return replace(options, limits=limits)
