"""All tasks, each with what it needs of Celery, on whatever app it is registered."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

from celery import Task
from celery.exceptions import Ignore
from celery.states import READY_STATES
from celery.utils import uuid
from kombu.exceptions import EncodeError, OperationalError

from skitter.celery import intake, pump, reduce
from skitter.celery.allowed import check_rights
from skitter.celery.backend import QUEUED, known_of
from skitter.celery.care import look_after_all, note_room
from skitter.celery.config import HARD_LIMIT_S, SOFT_LIMIT_S
from skitter.celery.lifecycle import minding_sigterm
from skitter.celery.messages import masked, permitted, sign_message
from skitter.celery.office import office_of
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
from skitter.celery.routing import destination
from skitter.errors import ServerUnreachable, UsageError
from skitter.frontier.admin.control import read_birth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skitter.frontier.frontier import Frontier

Kind = TypeVar("Kind", bound=Options)


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
        office, task_id = office_of(self.app), task_id or uuid()
        options = destination(self.app, self.name, office.settings.queues.http) | options
        if given.get("headers"):  # cookies, tokens: not for Flower
            options["kwargsrepr"] = repr(masked(given))
        try:
            options |= sign_message(office, self.name, [task_id, args or (), given], options)
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
        office, wanted = office_of(self.app), kind.read(given)
        if office.in_worker:
            check_rights(wanted.spider, wanted.place, office.settings, signed=False)
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
    office = office_of(self.app)
    charge = office.sign(intake.service_charge(wanted))
    frontier = office.run(intake.open_pages(office, charge))
    context = intake.context_of(self.request)
    ticket = intake.waiting_task(office, charge.job, wanted, context)
    _queue(self, frontier, {"url": url})
    request = intake.request_of(url, wanted, ticket)
    office.run(intake.hand_over_one(office, frontier, charge, request))
    raise Ignore  # its end comes with the page: see deliver.py


def _queue(task: Any, frontier: Frontier, facts: dict[str, Any]) -> None:
    """Note that a task waits in the frontier, before it does: its end must not be overwritten, nor
    by a message that comes again."""
    office, id = office_of(task.app), task.request.id
    state, noted = known_of(task.app, id)
    if state in READY_STATES:
        raise Ignore  # the message came again
    facts |= {"job": frontier.job, "born": office.run(read_birth(frontier))}
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


def scrape_many(self: Any, urls: list[str], **options: Any) -> intake.HandedOver:
    """Fire and forget: each page once, its items into `out`, or into the job's item stream."""
    office, wanted = office_of(self.app), permitted(self, ManyOptions, options)
    return office.run(intake.hand_over_many(office, urls, wanted))


class Crawl(Checked):
    abstract = True

    def check(self, spider: Any, **options: Any) -> None:
        self.check_options(CrawlOptions, {"spider": spider, **options})


def crawl(self: Any, spider: str, **options: Any) -> intake.HandedOver:
    """A whole crawl of a spider, from its seeds. `status(job)` tells how it goes."""
    wanted = permitted(self, CrawlOptions, {"spider": spider, **options})
    office = office_of(self.app)
    return office.run(intake.begin_crawl(office, wanted))


class MapReduce(Checked):
    abstract = True

    def check(self, urls: Any, reducer: Any, **options: Any) -> None:
        check_pages(urls)
        self.check_options(MapOptions, options)
        if not urls:
            raise UsageError("map_reduce without URLs: there is nothing to reduce.")


def map_reduce(self: Any, urls: list[str], reducer: dict[str, Any], **options: Any) -> None:
    """Begin a map_reduce; its end comes with the reducer's."""
    context = intake.context_of(self.request)
    context.pop("args")  # all those URLs
    wanted = permitted(self, MapOptions, options)
    office = office_of(self.app)
    charge = office.sign(reduce.charge_of(context, reducer, wanted))
    office.rights_of(charge)  # without a secret nobody would run its reducer
    frontier = office.run(intake.open_pages(office, charge, wanted))
    _queue(self, frontier, {})
    office.run(reduce.begin(office, frontier, charge, urls))
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
    reduce.finish(office_of(self.app), job)


def run_pump(self: Any, job: str, ticket: str) -> pump.Pumped:
    """Lease, fetch and hand in for a while."""
    office = office_of(self.app)
    message = pump.Message(job, ticket, machine=self.request.hostname or "")
    with minding_sigterm(office):
        return office.run(pump.pump(office, message))


def watch(self: Any, machine: str, places: int) -> None:
    """A worker's message to itself, every few seconds: are there pumps where there is work?"""
    office = office_of(self.app)
    office.watch_waits = False

    async def look() -> None:
        await note_room(await office.server(), machine, places)
        await look_after_all(office)

    office.run(look())


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
