"""The jobs that Celery works on, what pumps need to know about each, and their spiders.

A message names only a job and a permit; everything else is read from the frontier's server. So
messages are small, and stay valid however late they arrive.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

import msgspec
from celery.backends.base import DisabledBackend
from celery.states import PENDING

from skitter.errors import TooBig, UsageError
from skitter.fetch import Render
from skitter.frontier.records.drivers import count_permits, pumped_jobs
from skitter.settings import Limits, WorkerConfig, check_job_name, check_number
from skitter.settings.tables import to_type
from skitter.spider import Scope, Spider, default_spider, load_spider
from skitter.spider.scope import ANY_HOST

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server
    from skitter.model import Request, Stats
    from skitter.spider.items import Item

#: How soon the URLs of a killed process return to the queue. Leases of slower pages are extended.
LEASE_S = 60.0
#: Limit for a spec on the server; its largest part is the message of a map_reduce.
MAX_SPEC_BYTES = 2**20
MAX_PUMPS, MAX_HOSTS = 1000, 1000
#: Key in `Request.meta`: the Celery task that waits for the page.
TASK = "_celery"
#: The state of a task whose pages are queued in the frontier or being fetched.
QUEUED = "QUEUED"
#: Only the requested page, wherever it redirects to.
SINGLE_PAGE = Limits(max_depth=0)
ANY_SCOPE = Scope(hosts=[ANY_HOST])


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job that Celery works on."""

    job: str
    #: crawl: follow links. pages: only these pages. scrape: each page's items go to the task that
    #: asked for it. map: to a reducer, when all are done.
    kind: Literal["crawl", "pages", "scrape", "map"] = "crawl"
    target: str = ""  # the spider's file or module; empty: the default one
    browser: bool = False  # some of its pages are rendered; all, if the spider says nothing
    plain: bool = False  # and others are not: each kind has its own pumps
    pumps: int | None = None  # None: as many as the work needs
    config: WorkerConfig = msgspec.field(default_factory=WorkerConfig)  # for each pump
    #: The output that pumps load items into, by name, or a file; empty: they load none. Never an
    #: address, which would contain a password.
    out: str = ""
    hooks: bool = False  # run the spider's on_finish hooks at the end
    reducer: dict[str, Any] | None = None  # a Celery signature
    context: dict[str, Any] | None = None  # of the task that waits for the reducer
    #: Distinguishes crawls of the same name: what a process remembers from an earlier one (links,
    #: robots.txt) does not apply to this one.
    run_id: str = msgspec.field(default_factory=lambda: secrets.token_hex(4))
    signature: str = ""  # see security.py

    @property
    def has_callback(self) -> bool:
        """Whether something runs once, at the end."""
        return self.hooks or self.reducer is not None


async def register_job(server: Server, spec: JobSpec) -> None:
    """Let it have pumps. Submit its URLs first: see unregister_if_over."""
    await pumped_jobs(server).put(spec.job, _encode(spec))


async def register_if_absent(server: Server, spec: JobSpec) -> JobSpec | None:
    """The spec that is registered afterwards. None: an existing one cannot be read."""
    await pumped_jobs(server).put_new(spec.job, _encode(spec))
    return await read_spec(server, spec.job)


async def unregister_job(server: Server, job: str) -> None:
    await pumped_jobs(server).remove(job)


async def unregister_if_over(frontier: Frontier, spec: JobSpec) -> None:
    """URLs are submitted before their job is registered, so any that arrive meanwhile are either
    seen here or registered after this. Except for single pages, whose callers do not register their
    job each time: it stays."""
    if spec.kind == "scrape":
        return
    await unregister_job(frontier.server, spec.job)
    if not is_over(spec, await frontier.stats()):
        await register_if_absent(frontier.server, spec)


def is_over(spec: JobSpec, stats: Stats) -> bool:
    """No page is left to fetch, and no result to deliver or to load."""
    if spec.kind == "scrape" and has_outcomes(stats):
        return False
    return stats.crawled and not (spec.out and stats.items)


def has_outcomes(stats: Stats) -> bool:
    """Whether tasks wait for what pages have become."""
    return bool(stats.items or stats.dead or stats.excluded)


async def read_spec(server: Server, job: str) -> JobSpec | None:
    """None: not registered, or not readable."""
    raw = await pumped_jobs(server).get(job)
    return decode_spec(job, raw) if raw else None


async def read_specs(server: Server) -> list[JobSpec]:
    found = (decode_spec(*one) for one in (await pumped_jobs(server).all()).items())
    return [spec for spec in found if spec]


def _encode(spec: JobSpec) -> bytes:
    """Raises TooBig."""
    raw = msgspec.json.encode(spec, enc_hook=str)
    if len(raw) > MAX_SPEC_BYTES:
        what = f"what workers must know about {spec.job}"
        raise TooBig(what, size_bytes=len(raw), limit_bytes=MAX_SPEC_BYTES)
    return raw


def decode_spec(job: str, raw: bytes) -> JobSpec | None:
    """Checks limits and the job's name: anyone may have written it."""
    if len(raw) > MAX_SPEC_BYTES:
        return None
    with suppress(msgspec.MsgspecError, UsageError, UnicodeDecodeError):
        spec = msgspec.json.decode(raw, type=JobSpec, dec_hook=to_type)
        check_job_name(spec.job)
        check_number("pumps", spec.pumps or 0, low=0, high=MAX_PUMPS)
        check_number("allow_hosts", len(spec.config.fetch.allow_hosts), low=0, high=MAX_HOSTS)
        return spec if spec.job == job else None
    return None


async def count_pumps(server: Server) -> dict[str, int]:
    """How many pumps each job has, running or queued."""
    return await count_permits(server, await pumped_jobs(server).all())


# --- tasks that wait for pages --------------------------------------------------------------------


def has_backend(app: Any) -> bool:
    return not isinstance(app.backend, DisabledBackend)


def task_meta(app: Any, id: str) -> tuple[str, Any]:
    """Its state, and its result or the state's meta. PENDING: unknown."""
    if not has_backend(app):
        return PENDING, None
    meta = app.backend.get_task_meta(id)
    return meta["status"], meta["result"]


def is_task(found: Any) -> TypeGuard[dict[str, Any]]:
    """Anyone may have written it."""
    return isinstance(found, dict) and isinstance(found.get("id"), str)


# --- spiders --------------------------------------------------------------------------------------


def spider_for(spec: JobSpec) -> Spider:
    """A copy of the spider, as the module keeps its own. Raises SpiderError if this machine cannot
    load it."""
    is_crawl = spec.kind == "crawl"
    spider = copy(
        load_spider(spec.target, spec.config.arguments) if is_crawl else user_spider(spec.target)
    )
    spider.hooks = replace(spider.hooks, start=[*spider.hooks.start])
    if not is_crawl:  # only pages that callers ask for; its start URLs are not among them
        spider.start, spider.sitemap, spider.follows_links = (), False, False
        spider.renders = {
            one: spider.renders[one] for one in spider.renders.keys() & {spider.default}
        }
    if spec.browser and not spider.renders:
        spider.renders = dict.fromkeys(spider.handlers, Render())
    if spec.kind in ("scrape", "map"):
        spider.hooks.answer = _answer
    return spider


def _answer(request: Request, items: list[Item], why: str) -> Item:
    """What its task, or the reducer, gets of a page."""
    found = {"task": request.meta.get(TASK), "url": request.url, "items": items}
    return found | {"error": why} if why else found


def user_spider(target: str) -> Spider:
    """The user's spider, or the default one."""
    return load_spider(target) if target else default_spider("pages", [], scope=ANY_SCOPE)


#: For inspection, not for running: its file is loaded once per process.
cached_spider = cache(user_spider)
