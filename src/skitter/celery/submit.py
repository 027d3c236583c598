"""What callers may ask for, and how it gets into the frontier. A task only submits and ends: no
worker slot waits for a slow host.

Options are checked twice: at the caller, where a mistake raises before anything is sent, and in the
worker, which trusts no message.

Submitting twice is safe: the page of a task is identified by the task's id, others by their URL.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NotRequired, Self, TypedDict

import msgspec

from skitter.app import MAX_ITEMS, open_crawl
from skitter.celery.jobs import (
    LEASE_S,
    MAX_PUMPS,
    SINGLE_PAGE,
    TASK,
    JobSpec,
    cached_spider,
    register_if_absent,
    register_job,
)
from skitter.celery.pump import claim_output
from skitter.celery.results import mark_queued, sign_task, to_json
from skitter.celery.revoke import limits_of
from skitter.celery.scheduling import schedule, schedule_on, send_first_pump
from skitter.celery.security import check_out, is_signed
from skitter.engine.assembly import has_plain_pages
from skitter.errors import BadOption, JobMissing, UsageError, did_you_mean
from skitter.frontier.feed import feed
from skitter.frontier.jobs import create_job
from skitter.frontier.records.drivers import reset_callback
from skitter.frontier.transport.sync import in_thread
from skitter.model import Added, Request
from skitter.settings import (
    FetchOptions,
    JobOptions,
    Layout,
    Politeness,
    WorkerConfig,
    Workers,
    check_job_name,
    check_number,
    check_priority,
    resolve,
)
from skitter.spider import load_spider
from skitter.spider.seeding import offer_seeds, visit_again
from skitter.urls import identify

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import AsyncIterator, Callable, Iterable

    from skitter.celery.runtime import Runtime
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server

VISITED = "nothing is fetched, as all URLs were visited before: again=True visits them once more."
GOING_ON = "nothing is added, as all URLs are in the queue already: the job is still running."
#: The run id of jobs that never end, because all callers share them.
SHARED = "service"
LOOK_S = 0.5
#: The fields of a Celery request that its result needs.
CONTEXT = (
    "id", "task", "args", "kwargs", "chord", "group", "group_index", "callbacks", "errbacks",
    "chain", "root_id", "parent_id", "reply_to", "correlation_id", "ignore_result",
)  # fmt: skip
#: Options of `apply_async` that are easily given to `delay`.
CELERYS = frozenset({
    "countdown", "eta", "expires", "time_limit", "soft_time_limit", "queue", "routing_key",
    "task_id", "link", "link_error", "ignore_result", "retry", "retry_policy",
})  # fmt: skip
logger = logging.getLogger(__name__)
#: Checks by option name, beyond its type. None is not checked.
CHECKS: dict[str, Callable[[Any], object]] = {
    "spider": cached_spider,
    "priority": check_priority,
    "job": check_job_name,
    "out": check_out,
    "delay_s": lambda value: Politeness(delay_s=value),
    "max_in_flight": lambda value: Politeness(max_in_flight=value),
    "lease_s": lambda value: check_number("lease_s", value, low=1, high=3600),
    "pumps": lambda value: check_number("pumps", value, low=1, high=MAX_PUMPS, whole=True),
}


# --- options --------------------------------------------------------------------------------------


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of all our tasks."""

    spider: str = ""  # a file, file.py:name or package.module:name; empty: the default record
    browser: bool = False  # pages that need a browser have their own queue

    @classmethod
    def read(cls, given: dict[str, Any]) -> Self:
        """Raises UsageError, naming the option. Loads nothing."""
        if strange := min(given.keys() - set(cls.__struct_fields__), default=""):
            raise UsageError(f"a task has no option {strange!r}: {_instead_of(strange, cls)}")
        try:
            return msgspec.convert(given, cls)
        except msgspec.ValidationError as error:
            raise UsageError(f"a task option is invalid: {error}.") from None

    def check(self) -> None:
        """Raises UsageError. Loads the spider."""
        for name, check in CHECKS.items():
            value = getattr(self, name, None)
            if value is not None:
                check(value)


def _instead_of(name: str, kind: type[Options]) -> str:
    if name in CELERYS:
        return f"it is Celery's, so call .apply_async((...), {name}=...) instead of .delay(...)."
    known = kind.__struct_fields__
    return did_you_mean(name, known) or f"it has {', '.join(sorted(known))}."


class ScrapeOptions(Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of scrape."""

    priority: int = 0  # among all pages of the job; higher is sooner
    headers: dict[str, str] = {}
    #: What a page becomes after its last retry failed: an exception, or a record with `error`.
    #: Empty: a record in a chord, where one exception would discard all other results.
    errors: Literal["", "raise", "record"] = ""


class PageOptions(Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options shared by scrape_many and map_reduce."""

    delay_s: float | None = None  # None: the spider's, or the app's
    max_in_flight: int | None = None
    lease_s: float = LEASE_S
    pumps: int | None = None  # None: as many as the work needs

    def politeness(self, usual: Politeness) -> Politeness:
        return replace(
            usual,
            delay_s=usual.delay_s if self.delay_s is None else self.delay_s,
            max_in_flight=self.max_in_flight or usual.max_in_flight,
        )


class ManyOptions(PageOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of scrape_many."""

    job: str = "pages"
    out: str = ""  # an output's name, or a file; empty: items wait for `skitter load`
    priority: int = 0
    again: int = 0  # True: visit known pages once more. The caller sends when it was, in ms


class MapOptions(PageOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of map_reduce."""


class CrawlOptions(Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of crawl."""

    job: str | None = None  # None: the spider's name
    out: str = ""
    pumps: int | None = None
    obey_robots: bool = True
    lease_s: float = LEASE_S
    again: int = 0  # True: visit the start URLs once more


def check_urls(urls: Any) -> None:
    """Raises BadURL for the first invalid URL."""
    if not isinstance(urls, list | tuple):
        raise BadOption("urls", urls, "a list of URLs")
    for url in urls:
        if not isinstance(url, str):
            raise BadOption("url", url, "text")
        identify(url)


def check_times(options: dict[str, Any]) -> None:
    """Checks Celery's own options: its errors would mention only `timedelta` or `isoformat`."""
    countdown, eta = options.get("countdown"), options.get("eta")
    if not isinstance(countdown, int | float | None):
        raise BadOption("countdown", countdown, "a number of seconds")
    if not isinstance(eta, datetime | None):
        raise BadOption("eta", eta, "a datetime")


# --- tasks and jobs -------------------------------------------------------------------------------


class Submitted(TypedDict):
    """The result of `crawl` and `scrape_many`; see `status(job)` for more."""

    job: str
    new: int
    known: int
    note: NotRequired[str]  # if nothing is fetched, why


def submitted(job: str, *, new: int, known: int, is_over: bool = True) -> Submitted:
    """Says so, also in the worker's log, if nothing is new: to a caller such as Celery beat, a job
    that does nothing looks like one that works."""
    told = Submitted(job=job, new=new, known=known)
    if known and not new:
        told["note"] = VISITED if is_over else GOING_ON
        logger.warning("%s: %s", job, told["note"])
    return told


def task_context(request: Any) -> dict[str, Any]:
    """A Celery request as plain values, to keep in the frontier until its result is ready."""
    fields = to_json({name: getattr(request, name, None) for name in CONTEXT})
    known = {name: value for name, value in fields.items() if value is not None}
    return known | limits_of(request) | {"since": time.time()}


def _spec(options: Options, **more: Any) -> JobSpec:
    workers = Workers(lease_s=getattr(options, "lease_s", LEASE_S))
    config = WorkerConfig(workers=workers)
    spider = cached_spider(options.spider)
    is_crawl = "kind" not in more  # the others have pages of one kind
    rendered = spider.renders if is_crawl else spider.default in spider.renders
    more["browser"] = options.browser or bool(rendered)
    if is_crawl:
        more["plain"] = bool(rendered) and has_plain_pages(spider)
    return JobSpec(target=options.spider, config=config, **more)


# --- one page -------------------------------------------------------------------------------------


class WaitingPage(NamedTuple):
    """A page, and the task that waits for it."""

    spec: JobSpec
    request: Request
    task: dict[str, Any]


def waiting_page(
    runtime: Runtime, url: str, options: ScrapeOptions, context: dict[str, Any]
) -> WaitingPage:
    """Raises NotAllowed if the task's callbacks cannot be trusted."""
    spec = scrape_spec(options.spider, browser=options.browser)
    record = options.errors == "record" or (not options.errors and "chord" in context)
    task = sign_task(runtime, spec.job, context | {"record_errors": record})
    request = Request(
        url=url,
        priority=options.priority,
        headers=options.headers,
        meta={TASK: task},
        unique=task["id"],
    )
    return WaitingPage(spec, request, task)


@cache
def scrape_spec(spider: str, *, browser: bool) -> JobSpec:
    """One job for all pages of a spider, so that politeness holds across callers."""
    name = f"scrape-{cached_spider(spider).name}" if spider else "scrape"
    options = Options(spider=spider, browser=browser)
    job = f"{name}-browser" if browser else name
    return _spec(options, job=job, kind="scrape", run_id=SHARED)


async def submit_page(runtime: Runtime, page: WaitingPage, server: Server) -> None:
    """Raises JobMissing before anything is written. Safe to repeat, by whomever."""
    born, frontier, _ = await runtime.known_job(server, page.spec.job)
    offer = frontier.offer(page.request)
    facts = {"url": page.request.url, "job": frontier.job, "born": born}
    if await in_thread(mark_queued, runtime, page.task, facts):
        await feed(frontier, [offer], wait=False)
        await _look_for_pumps(runtime, frontier, page.spec)


async def _look_for_pumps(runtime: Runtime, frontier: Frontier, spec: JobSpec) -> None:
    """Now and then, to be quicker: a job that is registered has a pump, or the watch of a worker
    sends one; and a job of single pages stays registered.

    The first caller's spec applies to all, unless it was not signed with our secret.
    """
    now, looked_at = time.monotonic(), runtime.looked_at.get(spec.job, -math.inf)
    if now - looked_at < LOOK_S:
        return
    spec = runtime.sign(spec)
    held = await register_if_absent(frontier.server, spec)
    if held is None or (runtime.secret and not is_signed(held, runtime.secret)):
        await register_job(frontier.server, spec)
        held = spec
    look = schedule_on if runtime.in_worker else send_first_pump
    await look(runtime, frontier, held)
    runtime.looked_at[spec.job] = now


# --- many pages -----------------------------------------------------------------------------------


def map_reduce_spec(
    context: dict[str, Any], reducer: dict[str, Any], options: MapOptions
) -> JobSpec:
    id, pumps = context["id"], options.pumps
    more = {"reducer": reducer, "context": context, "pumps": pumps, "run_id": id}
    return _spec(options, job=f"map-{id}", kind="map", **more)


async def submit_pages(runtime: Runtime, urls: list[str], options: ManyOptions) -> Submitted:
    """URLs that the job already knows are skipped."""
    if not urls:
        return Submitted(job=options.job, new=0, known=0)
    spec = _spec(options, job=options.job, kind="pages", out=options.out, run_id=SHARED)
    spec = runtime.sign(msgspec.structs.replace(spec, pumps=options.pumps))
    await claim_output(runtime, spec)
    frontier = await open_page_job(runtime, spec, options)
    await claim_output(runtime, spec)  # again, if the job is new
    requests = [Request(url=url, priority=options.priority) for url in urls]
    if options.again:
        new = await visit_again(frontier, _each(requests), due_ms=options.again)
        await submit_requests(runtime, frontier, spec, [])
        return submitted(spec.job, new=new, known=len(urls) - new, is_over=False)
    added = await submit_requests(runtime, frontier, spec, requests)
    return submitted(spec.job, new=added[Added.NEW], known=added[Added.SEEN])


async def _each(requests: list[Request]) -> AsyncIterator[Request]:
    for request in requests:
        yield request


async def submit_requests(
    runtime: Runtime, frontier: Frontier, spec: JobSpec, requests: Iterable[Request]
) -> Counter[Added]:
    added = await feed(frontier, [frontier.offer(request) for request in requests], wait=False)
    await register_job(frontier.server, spec)
    await schedule(runtime, spec)
    return added


async def open_page_job(
    runtime: Runtime, spec: JobSpec, options: PageOptions | None = None
) -> Frontier:
    """A job that follows no links. A new one takes its politeness from the call, the spider or the
    app; later changes by an operator persist."""
    try:
        return await runtime.frontier(spec.job)
    except JobMissing:
        spider = cached_spider(spec.target)
        polite = spider.politeness if spec.target else runtime.settings.politeness
        polite = options.politeness(polite) if options else polite
        limits = replace(SINGLE_PAGE, max_items_per_page=spider.limits.max_items_per_page)
        job_options = JobOptions(politeness=polite, retries=spider.retries, limits=limits)
        await create_job(
            await runtime.server(),
            spec.job,
            options=_bounded(job_options) if spec.kind == "pages" else job_options,
            layout=Layout(canonical=spider.canonical),
        )
        return await runtime.frontier(spec.job)


def _bounded(options: JobOptions) -> JobOptions:
    """If its items are not loaded, the job waits for a loader instead of filling the server."""
    limits = replace(options.limits, max_items=options.limits.max_items or MAX_ITEMS)
    return replace(options, limits=limits)


# --- a crawl --------------------------------------------------------------------------------------


async def submit_crawl(runtime: Runtime, options: CrawlOptions) -> Submitted:
    """Start from the spider's seeds; a crawl submitted before resumes."""
    spider = load_spider(options.spider)
    job = options.job or spider.name
    config = resolve(job=job, spider=spider.tables)
    hooks = bool(spider.hooks.finish)
    spec = _spec(options, job=job, out=options.out, pumps=options.pumps, hooks=hooks)
    await claim_output(runtime, runtime.sign(spec))
    frontier, _ = await open_crawl(await runtime.server(), job, spider, config)
    await claim_output(runtime, runtime.sign(spec))  # again, if the job is new
    before = await frontier.stats()
    private, visited = await offer_seeds(frontier, spider), 0
    after = await frontier.stats()
    if options.again:
        visited = await visit_again(frontier, spider.seeds(), due_ms=options.again)
    if not (after.seen or after.fed):  # a job that never had a URL never ends
        return Submitted(job=frontier.job, new=0, known=0)
    fetch = FetchOptions(obey_robots=options.obey_robots, allow_hosts=tuple(sorted(private)))
    spec = msgspec.structs.replace(spec, config=replace(spec.config, fetch=fetch))
    await reset_callback(frontier)
    await submit_requests(runtime, frontier, runtime.sign(spec), [])
    new, known = after.seen - before.seen, after.duplicates - before.duplicates
    is_over = not (after.remaining or options.again)
    return submitted(frontier.job, new=new + visited, known=known - visited, is_over=is_over)
