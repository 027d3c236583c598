"""All tasks, each with the Celery options it needs, regardless of the app's defaults."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Set
from functools import cache, partial, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any

from celery import Task
from celery._state import get_current_worker_task
from celery.exceptions import Ignore
from celery.utils import uuid
from kombu.exceptions import EncodeError, OperationalError

from skitter.celery import pump, reduce, submit
from skitter.celery.broker import as_request, needs_no_message, publishing
from skitter.celery.config import EAGER, HARD_LIMIT_S, SOFT_LIMIT_S, destination
from skitter.celery.line import no_broker
from skitter.celery.results import away_errors, mark_queued, to_json
from skitter.celery.revoke import TRIES, cancel_tasks, send_cancel
from skitter.celery.runtime import runtime_of
from skitter.celery.scheduling import report_slots, schedule_all
from skitter.celery.security import FROM_OUTSIDE, HOW, check_permitted
from skitter.celery.submit import (
    CrawlOptions,
    ManyOptions,
    MapOptions,
    Options,
    ScrapeOptions,
    check_times,
    check_urls,
)
from skitter.errors import (
    JobMissing,
    NotAllowed,
    SkitterError,
    UsageError,
)
from skitter.frontier.control import read_birth
from skitter.model import Request
from skitter.redact import redact_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: How long a caller waits for a server that does not answer, and how long it is not asked again.
SHORT_S, AWAY_S = 1.0, 10.0
SIGNATURE = "skitter_signature"  # a header of the message
logger = logging.getLogger(__name__)


class CheckedTask(Task):  # type: ignore[misc]  # Celery has no types
    """A task whose arguments are checked before it is sent: a mistake raises in the caller, and
    nothing is queued."""

    abstract = True
    options_type: type[Options]
    sent_when_called = False

    def apply_async(
        self, args: Any = None, kwargs: Any = None, task_id: Any = None, *rest: Any, **options: Any
    ) -> Any:
        args = tuple(_as_list(one) for one in args or ())
        kwargs = {name: _as_list(value) for name, value in (kwargs or {}).items()}
        if "priority" in options:  # the frontier's: brokers disagree on which end comes first
            kwargs["priority"] = options.pop("priority")
        if kwargs.get("again") is True:  # one round, however often the message is delivered
            kwargs["again"] = round(1000 * time.time())
        self._check(args, kwargs, options)
        task_id = task_id or uuid()  # the same for a message, if the frontier answers too late
        result = self._hand_over(args, kwargs, task_id, *rest, **options)
        if result is not None:
            return result
        return self._send(args, kwargs, task_id, *rest, **options)

    def _hand_over(self, args: Any, kwargs: Any, task_id: str, *rest: Any, **options: Any) -> Any:
        """The result, if no message is needed."""

    def _send(self, args: Any, kwargs: Any, task_id: str, *rest: Any, **options: Any) -> Any:
        queue, brief = runtime_of(self.app).settings.queues.http, runtime_of(self.app).brief
        options = destination(self.app, self.name, queue) | options
        if kwargs.get("headers"):  # cookies, tokens: not for Flower
            options["kwargsrepr"] = repr(_masked(kwargs))
        try:
            if signed := self._signature(task_id, args, kwargs):
                options["headers"] = {**(options.get("headers") or {}), SIGNATURE: signed}
            brief.check_results()
            with publishing(), brief.producer() as producer:
                options = {"producer": producer} | options
                return super().apply_async(args, kwargs, task_id, *rest, **options)
        except EncodeError as error:
            raise UsageError(f"{self.name} cannot send this as JSON: {error}") from None
        except OperationalError as error:
            raise no_broker(error) from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs it in a worker. Called like a function, scrape_many is sent; the others raise."""
        if self.request.id or not self.request.called_directly:
            return super().__call__(*args, **kwargs)
        if self.sent_when_called:
            return self.apply_async(args, kwargs)
        raise UsageError(f"{self.name} is a task: send it with .delay(...), then .get().")

    def cancel(self, id: str) -> None:
        """Revoke a task, by its id. Its page is not fetched, unless it is in flight."""
        runtime = runtime_of(self.app)
        runtime.brief.check()
        self.app.control.revoke(id)  # if no worker has taken its message yet
        cancel_tasks(runtime, [id])

    def _check(self, args: Any, kwargs: dict[str, Any], options: dict[str, Any]) -> None:
        if self.app.conf.task_always_eager:
            raise UsageError(EAGER.format(self.name))
        check_times(options)
        self._check_next(*(options.get(name) for name in ("chain", "link", "chord")))
        try:
            given = _parameters(self.run).bind(*args, **kwargs).arguments
        except TypeError as error:
            raise UsageError(f"{self.name}: {error}.") from None
        if "url" in given or "urls" in given:
            check_urls([given["url"]] if "url" in given else given["urls"])
        if "reducer" in given and not given["urls"]:
            raise UsageError("map_reduce without URLs: there is nothing to reduce.")
        spider = {"spider": given["spider"]} if "spider" in given else {}
        # A worker that sends the next task of a chain loads only what it is permitted to.
        in_worker = runtime_of(self.app).in_worker
        self._read(spider | given.get("options", {}), signed=not in_worker)

    def _check_next(self, *following: Any) -> None:
        """What follows would run at once: its result says that a crawl has begun."""
        if self.name == "skitter.crawl" and any(following):
            raise UsageError(
                "crawl ends when the crawl has begun, so what follows it in a chain, a link or a "
                "chord would come too early: use the spider's @on_finish, or map_reduce."
            )

    def _read(self, given: dict[str, Any], *, signed: bool) -> Any:
        """The options. Raises NotAllowed before loading anything they name."""
        if given.get("again") is True:  # sent by its name alone
            given = given | {"again": round(1000 * time.time())}
        wanted, settings = self.options_type.read(given), runtime_of(self.app).settings
        if not signed or runtime_of(self.app).in_worker:
            check_permitted(wanted.spider, getattr(wanted, "out", ""), settings, signed=signed)
        if not signed and settings.obey_robots and not getattr(wanted, "obey_robots", True):
            how = FROM_OUTSIDE if settings.secret else HOW
            raise NotAllowed(f"only a signed task may ignore robots.txt: {how}.")
        wanted.check()
        return wanted

    # --- signatures: a worker does what its configuration allows, or what a caller has signed ----

    def _signature(self, task_id: str, args: Any, kwargs: dict[str, Any]) -> str:
        """Only callers sign. A worker sends callbacks and the next task of a chain, which came in a
        message that anyone may have written."""
        runtime = runtime_of(self.app)
        asks = self.name == "skitter.crawl" or kwargs.get("spider") or kwargs.get("out")
        if runtime.in_worker or not asks or runtime.secret is None:
            return ""
        return runtime.secret.sign("message", self.name, to_json([task_id, args, kwargs]))

    def _is_signed(self) -> bool:
        request, secret = self.request, runtime_of(self.app).secret
        found = (request.headers or {}).get(SIGNATURE)
        content = to_json([request.id, request.args, request.kwargs])
        return bool(secret and secret.has_signed(found, "message", self.name, content))

    def permitted(self, given: dict[str, Any]) -> Any:
        """The options of this run."""
        return self._read(given, signed=self._is_signed())


class PageTask(CheckedTask):
    """A task for one page. A caller that reaches the frontier puts the page there itself, so that
    no worker has to take a message for it. What else Celery is to do (callbacks, a countdown, a
    queue of its own) takes a message, and so does a spider, which a worker may refuse."""

    abstract = True

    def _hand_over(self, args: Any, kwargs: Any, task_id: str, *rest: Any, **options: Any) -> Any:
        runtime = runtime_of(self.app)
        options = {name: value for name, value in options.items() if value is not None}
        needs_message = rest or kwargs.get("spider") or not needs_no_message(options)
        if needs_message or not runtime.can_hand_over:
            return None
        request = as_request(self, task_id, args, _masked(kwargs), **options)
        given = {name: value for name, value in kwargs.items() if name != "url"}
        url = args[0] if args else kwargs["url"]
        context = submit.task_context(request) | {"handed_over": True}
        page = submit.waiting_page(runtime, url, ScrapeOptions.read(given), context)
        try:
            runtime.call(partial(submit.submit_page, runtime, page), patience_s=SHORT_S)
        except JobMissing:  # a worker creates it, as its configuration says
            return None
        except away_errors(self.app):
            runtime.use_messages(AWAY_S)
            return None
        result = self.AsyncResult(request.id)
        parent = get_current_worker_task()
        if parent and options.get("add_to_parent", True):
            parent.add_trail(result)
        return result


_parameters = cache(signature)


def _as_list(value: Any) -> Any:
    """URLs may be a generator or a set."""
    return list(value) if isinstance(value, Iterator | Set) else value


def _masked(options: dict[str, Any]) -> dict[str, Any]:
    """Masks the values of headers that may be cookies or tokens."""
    headers = options.get("headers")
    return options | {"headers": redact_headers(headers)} if isinstance(headers, dict) else options


# --- for callers ----------------------------------------------------------------------------------


def scrape(self: Any, url: str, **options: Any) -> None:
    """One page: its record (url, title, text, links, status), or all items of a spider for it.

    It waits for its turn at its host among all pages of the cluster, is retried three times, and
    then fails with ScrapeFailed.
    """
    wanted: ScrapeOptions = self.permitted(options)
    self.request.kwargs = _masked(options)  # kept with the result
    runtime, context = runtime_of(self.app), submit.task_context(self.request)
    page = submit.waiting_page(runtime, url, wanted, context)
    try:
        runtime.call(partial(submit.submit_page, runtime, page))
    except JobMissing:
        runtime.run(submit.open_page_job(runtime, page.spec))
        runtime.looked_at.pop(page.spec.job, None)  # it was purged, and is not registered
        runtime.call(partial(submit.submit_page, runtime, page))
    raise Ignore  # results.py completes it when the page is done


def scrape_many(self: Any, urls: list[str], **options: Any) -> submit.Submitted:
    """Fire and forget: fetches each page once; items go to `out` or the job's item stream."""
    wanted: ManyOptions = self.permitted(options)
    runtime = runtime_of(self.app)
    return runtime.run(submit.submit_pages(runtime, urls, wanted))


def crawl(self: Any, spider: str, **options: Any) -> submit.Submitted:
    """Run a whole crawl of a spider from its seeds. See `status(job)` for its progress."""
    self._check_next(self.request.chain, self.request.callbacks, self.request.chord)
    wanted: CrawlOptions = self.permitted({"spider": spider, **options})
    runtime = runtime_of(self.app)
    return runtime.run(submit.submit_crawl(runtime, wanted))


def map_reduce(self: Any, urls: list[str], reducer: dict[str, Any], **options: Any) -> None:
    """Start a map_reduce; the reducer's result becomes its own."""
    wanted: MapOptions = self.permitted(options)
    runtime, context = runtime_of(self.app), submit.task_context(self.request)
    context.pop("args")  # the URLs
    spec = runtime.sign(submit.map_reduce_spec(context, reducer, wanted))
    runtime.check_job(spec)  # without a secret no worker would run its reducer
    frontier = runtime.run(submit.open_page_job(runtime, spec, wanted))
    facts = {"job": frontier.job, "born": runtime.run(read_birth(frontier))}
    if not mark_queued(runtime, context, facts):
        raise Ignore  # redelivered
    requests = [Request(url=url) for url in urls]
    runtime.run(submit.submit_requests(runtime, frontier, spec, requests))
    raise Ignore


def summarize(records: Iterable[Any]) -> dict[str, Any]:
    """How many pages of a chord or a map_reduce succeeded, and why the others failed."""
    total, errors = 0, []
    for record in records:
        total += 1
        if isinstance(record, dict) and record.get("ok") is False:
            errors.append({"url": record["url"], "error": record["error"]})
    failed = len(errors)
    return {"total": total, "successful": total - failed, "failed": failed, "errors": errors}


# --- internal -------------------------------------------------------------------------------------


def finish(self: Any, job: str) -> None:
    """All pages of a job are done: run its reducer, or its spider's hooks."""
    runtime_of(self.app).machine = self.request.hostname or ""
    reduce.finish(runtime_of(self.app), job)


def run_pump(self: Any, job: str, permit: str) -> pump.PumpResult:
    """Lease and fetch for a while."""
    runtime = runtime_of(self.app)
    runtime.machine = self.request.hostname or ""
    message = pump.PumpMessage(job, permit, machine=runtime.machine)
    with runtime.stopping_on_sigterm():
        return runtime.run(pump.pump(runtime, message))


def watch(self: Any, machine: str, slots: int) -> None:
    """A worker's message to itself, every few seconds: send pumps that jobs are missing."""
    runtime = runtime_of(self.app)
    runtime.watch_pending = False

    async def look() -> None:
        await report_slots(await runtime.server(), machine, slots)
        await schedule_all(runtime)

    runtime.run(look())


def cancel(self: Any, ids: list[str], tries: int) -> None:
    """Withdraw the pages of revoked tasks."""
    left = cancel_tasks(runtime_of(self.app), ids)
    if left and tries < TRIES:
        send_cancel(self.app, left, tries + 1)


def in_a_sentence(function: Callable[..., Any]) -> Callable[..., Any]:
    """What Skitter raises on purpose says what to do: it is logged without a stack trace, and
    reaches the caller as a class that is made of its message alone. Celery makes the exception
    again there, from its arguments."""

    @wraps(function)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(self, *args, **kwargs)
        except SkitterError as error:
            logger.error("%s failed: %s", self.name, error)
            kinds = (one for one in type(error).__mro__ if issubclass(one, SkitterError))
            plain = next(kind for kind in kinds if kind.__init__ is SkitterError.__init__)
            raise plain(str(error)) from None

    return run


#: For all our tasks: each may run twice, so it is redelivered if its process is killed. Neither the
#: app's defaults nor its annotations for all tasks change these: see `add_tasks`.
COMMON = {
    "acks_late": True,
    "acks_on_failure": True,
    "acks_on_timeout": True,
    "reject_on_worker_lost": True,
    "retry_on_worker_lost": False,
    "ignore_result": False,
    "rate_limit": None,  # politeness is the frontier's
    "serializer": "json",
    "throws": (SkitterError,),  # logged by in_a_sentence, as Celery would do it at INFO
}
LATER = {"track_started": False}  # QUEUED until its page is done
QUIET = {"ignore_result": True, "send_events": False, "track_started": False}
LIMITED = {"ignore_result": True, "soft_time_limit": SOFT_LIMIT_S, "time_limit": HARD_LIMIT_S}


def add_tasks(app: Any) -> None:
    """Also finalizes the app: what its configuration has done to our tasks by then is undone."""
    added: dict[str, dict[str, Any]] = {}

    def add(name: str, function: Any, **options: Any) -> None:
        added[f"skitter.{name}"] = kept = COMMON | options
        make = app.task(name=f"skitter.{name}", bind=True, shared=False, **kept)
        make(in_a_sentence(function))

    checked = {"base": CheckedTask}
    add("scrape", scrape, options_type=ScrapeOptions, base=PageTask, **LATER)
    add("scrape_many", scrape_many, options_type=ManyOptions, sent_when_called=True, **checked)
    add("crawl", crawl, options_type=CrawlOptions, **checked)
    add("map_reduce", map_reduce, options_type=MapOptions, **checked, **LATER)
    added["skitter.summarize"] = COMMON
    app.task(name="skitter.summarize", shared=False, **COMMON)(summarize)
    add("finish", finish, **QUIET)
    add("pump", run_pump, **LIMITED)
    add("watch", watch, **QUIET)
    add("cancel", cancel, **QUIET)
    app.finalize()
    for name, options in added.items():
        for option in options.keys() - {"base"}:
            setattr(type(app.tasks[name]), option, options[option])
