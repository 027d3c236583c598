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

from skitter.celery.registry import (
    SINGLE_PAGE,
    TASK,
    JobSpec,
    _packed,
    cached_spider,
    read_spec,
    register_job,
)
from skitter.celery.results import sign_task
from skitter.celery.scheduling import schedule
from skitter.celery.security import is_signed
from skitter.errors import JobMissing
from skitter.frontier.admin.callback import reset_callback
from skitter.frontier.admin.jobs import create_job
from skitter.frontier.admin.pumps import pumped_jobs
from skitter.frontier.feed import feed
from skitter.model import Added, Request
from skitter.settings import FetchOptions, JobOptions, Layout, WorkerConfig, Workers
from skitter.spider import load_spider
from skitter.spider.seeding import offer_seeds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.celery.options import CrawlOptions, ManyOptions, MapOptions, Pace, ScrapeOptions
    from skitter.celery.runtime import Runtime
    from skitter.celery.security import Secret
    from skitter.frontier.connection import Server
    from skitter.frontier.frontier import Frontier


MAX_ITEMS = 50_000
#: The mark of jobs that have no beginning and no end: all callers share one.
SERVICE = "service"
#: The fields of a Celery request that its end needs.
CONTEXT = (
    "id", "task", "args", "kwargs", "chord", "group", "group_index", "callbacks", "errbacks",
    "chain", "root_id", "parent_id", "reply_to", "correlation_id", "ignore_result",
)  # fmt: skip


async def register_job_once(server: Server, spec: JobSpec, secret: Secret | None) -> JobSpec:
    """The same for a job that many callers share: the first one's spec holds, unless nobody who
    has our secret made it."""
    await pumped_jobs(server).put_new(spec.job, _packed(spec))
    held = await read_spec(server, spec.job)
    if held is None or (secret and not is_signed(held, secret)):
        await register_job(server, spec)
        return spec
    return held


class Submitted(TypedDict):
    """What `crawl` and `scrape_many` answer; `status(job)` tells the rest."""

    job: str
    new: int
    known: int


def task_context(request: Any) -> dict[str, Any]:
    """A Celery request as plain values: it waits in the frontier for its end."""
    known = {name: getattr(request, name, None) for name in CONTEXT}
    plain: dict[str, Any] = msgspec.json.decode(dumps(known))
    return {name: value for name, value in plain.items() if value is not None}


def scrape_spec(options: ScrapeOptions) -> JobSpec:
    """One job for all pages of a spider that somebody waits for, so that politeness is shared."""
    name = f"scrape-{cached_spider(options.spider).name}" if options.spider else "scrape"
    return JobSpec(
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
    runtime: Runtime, job: str, options: ScrapeOptions, context: dict[str, Any]
) -> dict[str, Any]:
    """The task that waits for a page, as it is kept with the page. Raises NotAllowed if it has
    callbacks that nobody could trust."""
    record = options.errors == "record" or (not options.errors and "chord" in context)
    return sign_task(runtime.secret, job, context | {"record_errors": record})


async def submit_page(
    runtime: Runtime, frontier: Frontier, spec: JobSpec, request: Request
) -> None:
    await feed(frontier, [frontier.offer(request)], wait=False)
    spec = await register_job_once(frontier.server, spec, runtime.secret)
    await schedule(runtime, spec)


async def submit_pages(runtime: Runtime, urls: Sequence[str], options: ManyOptions) -> Submitted:
    """Pages for a job; those it knows are left alone."""
    if not urls:
        return Submitted(job=options.job, new=0, known=0)
    spec = JobSpec(
        job=options.job,
        kind="pages",
        target=options.spider,
        out=options.out,
        browser=options.browser,
        config=WorkerConfig(workers=Workers(lease_s=options.lease_s)),
        mark=SERVICE,
    )
    spec = runtime.sign(spec)
    frontier = await open_page_job(runtime, spec, options)
    offers = [frontier.offer(Request(url=url, priority=options.priority)) for url in urls]
    added = await feed(frontier, offers, wait=False)
    await register_job(frontier.server, spec)
    await schedule(runtime, spec)
    return Submitted(job=spec.job, new=added[Added.NEW], known=added[Added.SEEN])


async def submit_crawl(runtime: Runtime, options: CrawlOptions) -> Submitted:
    """A spider's crawl, from its seeds; again, it resumes."""
    spider = load_spider(options.spider)
    frontier = await create_job(
        await runtime.server(),
        options.job or spider.name,
        options=_bounded(spider.options),
        layout=Layout(canonical=spider.canonical),
    )
    before = await frontier.stats()
    private = await offer_seeds(frontier, spider)
    after = await frontier.stats()
    if not (after.seen or after.fed):  # a job that never had a URL never ends
        return Submitted(job=frontier.job, new=0, known=0)
    spec = JobSpec(
        job=frontier.job,
        target=options.spider,
        out=options.out,
        browser=options.browser,
        pumps=options.pumps,
        config=WorkerConfig(
            fetch=FetchOptions(obey_robots=options.obey_robots, allow_hosts=tuple(sorted(private))),
            workers=Workers(lease_s=options.lease_s),
        ),
        hooks=bool(spider.hooks.finish),
    )
    spec = runtime.sign(spec)
    await reset_callback(frontier)
    await register_job(frontier.server, spec)
    await schedule(runtime, spec)
    return Submitted(
        job=spec.job,
        new=after.seen - before.seen,
        known=after.duplicates - before.duplicates,
    )


async def open_page_job(runtime: Runtime, spec: JobSpec, pace: Pace | None = None) -> Frontier:
    """The job of a spec without links. A new one is as polite as the call says, or the spider, or
    the app; what an operator changed since stays."""
    try:
        return await runtime.frontier(spec.job)
    except JobMissing:
        spider = cached_spider(spec.target)
        usual = spider.politeness if spec.target else runtime.settings.politeness
        polite = pace.over(usual) if pace else usual
        options = JobOptions(politeness=polite, retries=spider.retries, limits=SINGLE_PAGE)
        options = _bounded(options) if spec.kind == "pages" else options
        layout = Layout(canonical=spider.canonical)
        await create_job(await runtime.server(), spec.job, options=options, layout=layout)
        return await runtime.frontier(spec.job)


def _bounded(options: JobOptions) -> JobOptions:
    """A crawl whose items nobody takes waits for a loader; it does not fill the server."""
    limits = replace(options.limits, max_items=options.limits.max_items or MAX_ITEMS)
    return replace(options, limits=limits)


def map_reduce_spec(
    context: dict[str, Any], reducer: dict[str, Any], options: MapOptions
) -> JobSpec:
    return JobSpec(
        job=f"map-{context['id']}",
        kind="map",
        target=options.spider,
        browser=options.browser,
        pumps=options.pumps,
        config=WorkerConfig(workers=Workers(lease_s=options.lease_s)),
        reducer=reducer,
        context=context,
        mark=context["id"],
    )


async def begin(runtime: Runtime, frontier: Frontier, spec: JobSpec, urls: Sequence[str]) -> None:
    """Put the pages into a job of their own. A message that comes again changes nothing."""
    await feed(frontier, [frontier.offer(Request(url=url)) for url in urls], wait=False)
    await register_job(frontier.server, spec)
    await schedule(runtime, spec)
