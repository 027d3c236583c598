"""All tasks, each with what it needs of Celery, on whatever app it is registered."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from celery import Task
from celery.exceptions import Ignore
from celery.states import READY_STATES
from celery.utils import uuid
from kombu.exceptions import EncodeError, OperationalError
from kombu.utils.json import dumps

from skitter.celery import pump, reduce, submit
from skitter.celery.config import HARD_LIMIT_S, SOFT_LIMIT_S, destination
from skitter.celery.options import (
    CrawlOptions,
    ManyOptions,
    MapOptions,
    Options,
    ScrapeOptions,
    check_pages,
    check_times,
    listed,
)
from skitter.celery.results import QUEUED, task_meta
from skitter.celery.runtime import runtime_of, stopping_on_sigterm
from skitter.celery.scheduling import report_slots, schedule_all
from skitter.celery.security import HOW, check_permitted
from skitter.errors import NotAllowed, ServerUnreachable, UsageError
from skitter.frontier.admin.control import read_birth
from skitter.redact import redact_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skitter.celery.runtime import Runtime
    from skitter.frontier.frontier import Frontier


HEADER = "skitter_signature"
Kind = TypeVar("Kind", bound=Options)


def sign_message(
    runtime: Runtime, task: str, content: list[Any], options: dict[str, Any]
) -> dict[str, Any]:
    """Options of apply_async. Content: the task's id, its arguments, its keywords."""
    if runtime.in_worker or not _asks_for_more(task, content[2]):
        return {}
    secret = runtime.secret
    if secret is None:
        return {}
    signature = secret.sign("message", task, _plain(content))
    return {"headers": {**(options.get("headers") or {}), HEADER: signature}}


def _asks_for_more(task: str, keywords: dict[str, Any]) -> bool:
    """Than a page as it is."""
    return task == "skitter.crawl" or bool(keywords.get("spider") or keywords.get("out"))


def permitted(task: Any, kind: type[Kind], given: dict[str, Any]) -> Kind:
    """The options of the task that runs. Raises NotAllowed before anything of them is loaded."""
    runtime, wanted = runtime_of(task.app), kind.read(given)
    signed = is_signed(runtime, task)
    check_permitted(wanted.spider, wanted.place, runtime.settings, signed=signed)
    if not signed and runtime.settings.obey_robots and not getattr(wanted, "obey_robots", True):
        raise NotAllowed(f"whoever wants to ignore robots.txt has to sign: {HOW}.")
    wanted.check()
    return wanted


def is_signed(runtime: Runtime, task: Any) -> bool:
    request, secret = task.request, runtime.secret
    signature = (request.headers or {}).get(HEADER)
    if secret is None or not signature:
        return False
    content = [request.id, request.args, request.kwargs]
    return secret.has_signed(signature, "message", task.name, _plain(content))


def _plain(content: list[Any]) -> Any:
    """As it arrives: Celery's JSON has no tuples."""
    return msgspec.json.decode(dumps(content))


def masked(options: dict[str, Any]) -> dict[str, Any]:
    """Without the values of headers that may be cookies or tokens."""
    headers = options.get("headers")
    if not isinstance(headers, dict):
        return options
    return options | {"headers": redact_headers(headers)}


class Checked(Task):  # type: ignore[misc]  # Celery has no types
    """A task whose arguments are checked at the caller: a mistake is told there, in a sentence, and
    nothing of it reaches the queue."""

    abstract = True

    def apply_async(
        self, args: Any = None, kwargs: Any = None, task_id: Any = None, *rest: Any, **options: Any
    ) -> Any:
        given = dict(kwargs or {})
        if "priority" in options:  # the frontier's: brokers disagree on which end comes first
            given["priority"] = options.pop("priority")
        self._check_all(args or (), given, options)
        runtime, task_id = runtime_of(self.app), task_id or uuid()
        options = destination(self.app, self.name, runtime.settings.queues.http) | options
        if given.get("headers"):  # cookies, tokens: not for Flower
            options["kwargsrepr"] = repr(masked(given))
        try:
            options |= sign_message(runtime, self.name, [task_id, args or (), given], options)
            return super().apply_async(args, given, task_id, *rest, **options)
        except EncodeError as error:
            raise UsageError(f"{self.name} cannot send this as JSON: {error}") from None
        except OperationalError as error:
            raise ServerUnreachable(
                f"Celery's broker does not answer ({error}): start a worker, e.g. with "
                "`skitter celery worker`, or check SKITTER_REDIS_URL and SKITTER_BROKER_URL."
            ) from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """In a worker it is run; called like a function, it does nothing useful."""
        if is_call(self):
            raise UsageError(f"{self.name} is a task: send it with .delay(...), then .get().")
        return super().__call__(*args, **kwargs)

    def _check_all(self, args: Any, kwargs: dict[str, Any], options: dict[str, Any]) -> None:
        if self.app.conf.task_always_eager:
            raise UsageError(
                f"{self.name} cannot run eagerly, because workers fetch its pages: leave "
                "task_always_eager out, and start a worker."
            )
        check_times(options)
        try:
            signature(self.check).bind(*args, **kwargs)
        except TypeError as error:
            raise UsageError(f"{self.name}: {error}.") from None
        self.check(*args, **kwargs)

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Raise UsageError for what the task could not work on."""

    def check_options(self, kind: type[Kind], given: dict[str, Any]) -> Kind:
        """Where a worker sends the next task of a chain, it loads only what it may."""
        runtime, wanted = runtime_of(self.app), kind.read(given)
        if runtime.in_worker:
            check_permitted(wanted.spider, wanted.place, runtime.settings, signed=False)
        wanted.check()
        return wanted


def is_call(task: Any) -> bool:
    """Whether it is called like a function, and not run by a worker."""
    return bool(task.request.called_directly and not task.request.id)


class Scrape(Checked):
    abstract = True

    def check(self, url: Any, **options: Any) -> None:
        check_pages([url])
        self.check_options(ScrapeOptions, options)


def scrape(self: Any, url: str, **options: Any) -> None:
    """One page: its record (url, title, text, links, status), or all items of a spider for it.

    It waits for its turn at its host among all pages of the cluster, is retried three times, and
    then fails with ScrapeFailed.
    """
    wanted = permitted(self, ScrapeOptions, options)
    self.request.kwargs = masked(options)  # what is kept with the result
    runtime = runtime_of(self.app)
    spec = runtime.sign(submit.scrape_spec(wanted))
    frontier = runtime.run(submit.open_page_job(runtime, spec))
    context = submit.task_context(self.request)
    ticket = submit.waiting_task(runtime, spec.job, wanted, context)
    _queue(self, frontier, {"url": url})
    request = submit.request_of(url, wanted, ticket)
    runtime.run(submit.submit_page(runtime, frontier, spec, request))
    raise Ignore  # its end comes with the page: see results.py


def _queue(task: Any, frontier: Frontier, facts: dict[str, Any]) -> None:
    """Note that a task waits in the frontier, before it does: its end must not be overwritten, nor
    by a message that comes again."""
    runtime, id = runtime_of(task.app), task.request.id
    state, noted = task_meta(task.app, id)
    if state in READY_STATES:
        raise Ignore  # the message came again
    facts |= {"job": frontier.job, "born": runtime.run(read_birth(frontier))}
    if (state, noted) != (QUEUED, facts):
        task.update_state(state=QUEUED, meta=facts)


class ScrapeMany(Checked):
    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Called like a function it sends its message."""
        if is_call(self):
            return self.apply_async(args, kwargs)
        return super().__call__(*args, **kwargs)

    def apply_async(self, args: Any = None, kwargs: Any = None, *rest: Any, **options: Any) -> Any:
        """The URLs may come from anything that can be gone through."""
        if args:
            args = (listed(args[0]), *args[1:])
        elif kwargs and "urls" in kwargs:
            kwargs = kwargs | {"urls": listed(kwargs["urls"])}
        return super().apply_async(args, kwargs, *rest, **options)

    def check(self, urls: Any, **options: Any) -> None:
        check_pages(urls)
        self.check_options(ManyOptions, options)


def scrape_many(self: Any, urls: list[str], **options: Any) -> submit.Submitted:
    """Fire and forget: each page once, its items into `out`, or into the job's item stream."""
    runtime, wanted = runtime_of(self.app), permitted(self, ManyOptions, options)
    return runtime.run(submit.submit_pages(runtime, urls, wanted))


class Crawl(Checked):
    abstract = True

    def check(self, spider: Any, **options: Any) -> None:
        self.check_options(CrawlOptions, {"spider": spider, **options})


def crawl(self: Any, spider: str, **options: Any) -> submit.Submitted:
    """A whole crawl of a spider, from its seeds. `status(job)` tells how it goes."""
    wanted = permitted(self, CrawlOptions, {"spider": spider, **options})
    runtime = runtime_of(self.app)
    return runtime.run(submit.submit_crawl(runtime, wanted))


class MapReduce(Checked):
    abstract = True

    def check(self, urls: Any, reducer: Any, **options: Any) -> None:
        check_pages(urls)
        self.check_options(MapOptions, options)
        if not urls:
            raise UsageError("map_reduce without URLs: there is nothing to reduce.")


def map_reduce(self: Any, urls: list[str], reducer: dict[str, Any], **options: Any) -> None:
    """Begin a map_reduce; its end comes with the reducer's."""
    context = submit.task_context(self.request)
    context.pop("args")  # all those URLs
    wanted = permitted(self, MapOptions, options)
    runtime = runtime_of(self.app)
    spec = runtime.sign(submit.map_reduce_spec(context, reducer, wanted))
    runtime.permissions_of(spec)  # without a secret nobody would run its reducer
    frontier = runtime.run(submit.open_page_job(runtime, spec, wanted))
    _queue(self, frontier, {})
    runtime.run(submit.begin(runtime, frontier, spec, urls))
    raise Ignore


def summarize(records: Iterable[Any]) -> dict[str, Any]:
    """How many pages of a chord or of a map_reduce came home, and what became of the others."""
    total, errors = 0, []
    for one in records:
        total += 1
        if isinstance(one, dict) and one.get("ok") is False:
            errors.append({"url": one["url"], "error": one["error"]})
    return {
        "total": total,
        "successful": total - len(errors),
        "failed": len(errors),
        "errors": errors,
    }


# --- the machinery --------------------------------------------------------------------------------


def finish(self: Any, job: str) -> None:
    """All pages of a job are there: run its reducer, or its spider's hooks."""
    reduce.finish(runtime_of(self.app), job)


def run_pump(self: Any, job: str, ticket: str) -> pump.PumpResult:
    """Lease, fetch and hand in for a while."""
    runtime = runtime_of(self.app)
    message = pump.PumpMessage(job, ticket, machine=self.request.hostname or "")
    with stopping_on_sigterm(runtime):
        return runtime.run(pump.pump(runtime, message))


def watch(self: Any, machine: str, slots: int) -> None:
    """A worker's message to itself, every few seconds: are there pumps where there is work?"""
    runtime = runtime_of(self.app)
    runtime.watch_pending = False

    async def look() -> None:
        await report_slots(await runtime.server(), machine, slots)
        await schedule_all(runtime)

    runtime.run(look())


BOUND = {"bind": True}
LATER = {"bind": True, "track_started": False}  # it is QUEUED until the frontier says otherwise
QUIET = {"bind": True, "ignore_result": True, "send_events": False, "track_started": False}
LIMITED = {"ignore_result": True, "soft_time_limit": SOFT_LIMIT_S, "time_limit": HARD_LIMIT_S}
#: name -> function, base, options
TASKS: dict[str, tuple[Callable[..., Any], type[Any], dict[str, Any]]] = {
    "skitter.scrape": (scrape, Scrape, LATER),
    "skitter.scrape_many": (scrape_many, ScrapeMany, BOUND),
    "skitter.crawl": (crawl, Crawl, BOUND),
    "skitter.map_reduce": (map_reduce, MapReduce, LATER),
    "skitter.summarize": (summarize, Task, {}),
    "skitter.finish": (finish, Task, QUIET),
    "skitter.pump": (run_pump, Task, BOUND | LIMITED),
    "skitter.watch": (watch, Task, QUIET),
}


def add_tasks(app: Any) -> None:
    """All may run twice, so all come back when their process is killed."""
    for name, (function, base, options) in TASKS.items():
        app.task(
            name=name,
            base=base,
            shared=False,  # not with other apps of the process
            acks_late=True,
            reject_on_worker_lost=True,
            serializer="json",
            **options,
        )(function)
