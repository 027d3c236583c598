"""Which jobs Celery works on, and what its pumps have to know about each.

A message names a job and a ticket; everything else is read here, on the frontier's server. So a
message is small, and stays true however late it comes.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from skitter.errors import TooBig, UsageError
from skitter.frontier.admin.pumps import count_permits, pumped_jobs
from skitter.settings import Limits, WorkerConfig, check_job_name, check_number
from skitter.settings.config import to_type
from skitter.spider import Scope, Spider, default_spider, load_spider, run_handler
from skitter.spider.scope import ANY_HOST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skitter.frontier.connection import Server
    from skitter.frontier.frontier import Frontier
    from skitter.model import Stats
    from skitter.page import Page


#: How soon the URLs of a process that was killed come back. Pages that take longer are extended.
LEASE_S = 60.0
Kind = Literal["crawl", "pages", "scrape", "map"]
#: Of what the server holds about a job; the largest part is the message of a map_reduce.
MAX_SPEC_BYTES = 2**20
MAX_PUMPS, MAX_HOSTS = 1000, 1000
#: Key of `Request.meta`: the Celery task that waits for the page.
TASK = "_celery"
#: Only the page that was asked for, wherever it redirects to.
SINGLE_PAGE = Limits(max_depth=0)
ANY_SCOPE = Scope(hosts=[ANY_HOST])


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job in Celery's care."""

    job: str
    #: crawl: a spider follows its links. pages: only these pages. scrape: what comes of each page
    #: goes to the task that asked for it. map: to a reducer, when all are there.
    kind: Kind = "crawl"
    target: str = ""  # the spider's file or module; empty: the default one
    browser: bool = False
    pumps: int | None = None  # None: as many as the work is worth
    config: WorkerConfig = msgspec.field(default_factory=WorkerConfig)  # of each pump
    #: The name of the output that pumps load items into, or a file; empty: somebody else loads
    #: them, or nobody. Never an address: it would hold a password.
    out: str = ""
    hooks: bool = False  # the spider has some for the end, and nobody else runs them
    reducer: dict[str, Any] | None = None  # a Celery signature
    context: dict[str, Any] | None = None  # of the task that waits for the reducer
    #: Sets a crawl apart from an earlier one of the same name: what a process remembers of that
    #: one (links, robots.txt) is not true of this.
    mark: str = msgspec.field(default_factory=lambda: secrets.token_hex(4))
    signature: str = ""  # of whoever had the secret; see security.py for what it is good for


def has_finale(spec: JobSpec) -> bool:
    """Whether something is to run once, when it is over."""
    return spec.hooks or spec.reducer is not None


async def register_job(server: Server, spec: JobSpec) -> None:
    """Have pumps for the job from now on. Its URLs must be in the frontier before: see
    unregister_if_over."""
    await pumped_jobs(server).put(spec.job, _packed(spec))


def _packed(spec: JobSpec) -> bytes:
    """Raises TooBig for what nobody would read."""
    raw = msgspec.json.encode(spec, enc_hook=str)
    if len(raw) > MAX_SPEC_BYTES:
        what = f"what workers have to know about {spec.job}"
        raise TooBig(what, size_bytes=len(raw), limit_bytes=MAX_SPEC_BYTES)
    return raw


async def read_spec(server: Server, job: str) -> JobSpec | None:
    """None: no such job, or what is there makes no sense."""
    raw = await pumped_jobs(server).get(job)
    return decode_spec(job, raw) if raw else None


async def read_specs(server: Server) -> list[JobSpec]:
    raw = await pumped_jobs(server).all()
    found = (decode_spec(job, value) for job, value in raw.items())
    return [spec for spec in found if spec]


def decode_spec(job: str, raw: bytes) -> JobSpec | None:
    """What the server holds, within bounds: anybody may have written it. Not the spec of another
    job."""
    if len(raw) > MAX_SPEC_BYTES:
        return None
    with suppress(msgspec.MsgspecError, UsageError, UnicodeDecodeError):
        spec = msgspec.json.decode(raw, type=JobSpec, dec_hook=to_type)
        check_job_name(spec.job)
        if spec.pumps is not None:
            check_number("pumps", spec.pumps, low=0, high=MAX_PUMPS)
        check_number("allow_hosts", len(spec.config.fetch.allow_hosts), low=0, high=MAX_HOSTS)
        return spec if spec.job == job else None
    return None


async def count_pumps(server: Server) -> dict[str, int]:
    """How many pumps each job has, at work or on their way."""
    return await count_permits(server, await pumped_jobs(server).all())


async def unregister_job(server: Server, job: str) -> None:
    await pumped_jobs(server).remove(job)


async def unregister_if_over(frontier: Frontier, spec: JobSpec) -> None:
    """It is over. Whoever adds URLs takes spec afterwards, so if some came meanwhile, either
    they are seen here or their spec comes after this."""
    server = frontier.server
    await unregister_job(server, spec.job)
    if not is_over(spec, await frontier.stats()):
        await register_job(server, spec)


def is_over(spec: JobSpec, stats: Stats) -> bool:
    """Nothing pending, delayed, leased, fed, unloaded or undelivered."""
    if not stats.crawled:
        return False
    if spec.kind == "scrape" and (stats.items or stats.dead):
        return False
    return not (spec.out and stats.items)


def spider_for(spec: JobSpec) -> Spider:
    """Raises SpiderError if this machine cannot load it."""
    if spec.kind == "crawl":
        return load_spider(spec.target, spec.config.arguments)
    inner = user_spider(spec.target)
    if spec.kind == "pages":
        return _for_pages(spec.job, inner)
    return _with_envelopes(spec.job, inner)


@cache
def cached_spider(target: str) -> Spider:
    """The same, to be looked at and not to be run: its file is loaded once in a process."""
    return user_spider(target)


def user_spider(target: str) -> Spider:
    """The user's spider, or the default one."""
    return load_spider(target) if target else default_spider("pages", [], scope=ANY_SCOPE)


def _single_page_spider(job: str, inner: Spider) -> Spider:
    """A spider that goes nowhere; its items were checked by the inner one."""
    return Spider(
        check_job_name(job), limits=SINGLE_PAGE, scope=ANY_SCOPE, canonical=inner.canonical
    )


def _for_pages(job: str, inner: Spider) -> Spider:
    spider = _single_page_spider(job, inner)

    async def only_items(page: Page) -> AsyncIterator[Any]:
        for item in (await run_handler(inner, page)).items:
            yield item

    spider.page(only_items)
    spider.hooks.start += inner.hooks.start
    return spider


def _with_envelopes(job: str, inner: Spider) -> Spider:
    spider = _single_page_spider(job, inner)

    async def envelope(page: Page) -> AsyncIterator[Any]:
        outcome = await run_handler(inner, page)
        yield {"task": page.request.meta.get(TASK), "url": page.url, "items": outcome.items}

    spider.page(envelope)
    spider.hooks.start += inner.hooks.start
    return spider
