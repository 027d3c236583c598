"""map_reduce: fetch many pages, then run a reducer over what came of them, once.

The pages are a job of their own on the frontier, named after the task. When nothing of it is left,
whoever notices sends `skitter.finish`; the finale on the server lets one of them run. A reducer
whose process is killed half-way is run again by another; a reducer that has returned is not. The
hooks that a spider has for the end of its crawl run in the same way.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec
from celery.canvas import Signature, maybe_signature
from kombu.exceptions import EncodeError
from kombu.utils.json import dumps

from skitter.celery.care import look_after
from skitter.celery.charges import Charge, drop_charge, let_go, read_charge, take_charge
from skitter.celery.deliver import end
from skitter.errors import JobMissing, SkitterError, UsageError
from skitter.frontier.admin.callback import Turn, claim_finale, conclude
from skitter.frontier.admin.dead import dead_letters
from skitter.frontier.admin.items import read_items
from skitter.frontier.admin.jobs import purge_job
from skitter.frontier.admin.workers import log
from skitter.frontier.feed import feed
from skitter.model import Request
from skitter.spider import load_spider
from skitter.spider.source_line import describe, trace
from skitter.spider.spider import run_hooks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

    from skitter.celery.office import Office
    from skitter.celery.options import MapOptions
    from skitter.frontier.frontier import Frontier

#: A reducer that was not heard of for so long is run again by another process.
HOLD_S = 20.0


class ReducerFailed(Exception):
    """The reducer raised; its text says what."""


class Reduced(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a reducer, as the server keeps it."""

    value: Any = None
    error: str = ""


def map_reduce(urls: Iterable[str], reducer: Any, *, app: Any = None, **options: Any) -> Any:
    """Fetch each of `urls` once, and call `reducer(records)` with an iterator over what came of
    them: {"url", "ok", "items"} or {"url", "ok": False, "error"}. Returns an AsyncResult.

    The reducer is a Celery task, or a signature of one (`summarize.s()`); the options are those of
    MapOptions.
    """
    from skitter.celery.factory import default_app  # it imports the tasks, and they this

    app = app or default_app()
    signature = _signature(app, reducer)
    return app.tasks["skitter.map_reduce"].apply_async((list(urls), dict(signature)), options)


def _signature(app: Any, reducer: Any) -> Any:
    """Raises UsageError for what no worker could call."""
    signature = reducer if isinstance(reducer, Signature) else getattr(reducer, "s", lambda: None)()
    if signature is None:
        raise UsageError(
            f"{reducer!r} is no reducer: decorate the function with @app.task and pass it."
        )
    if signature.task not in app.tasks:
        raise UsageError(f"there is no task {signature.task!r} in this app: register the reducer.")
    return signature


def charge_of(context: dict[str, Any], reducer: dict[str, Any], options: MapOptions) -> Charge:
    return Charge(
        job=f"map-{context['id']}",
        kind="map",
        target=options.spider,
        browser=options.browser,
        pumps=options.pumps,
        lease_s=options.lease_s,
        reducer=reducer,
        context=context,
        mark=context["id"],
    )


async def begin(office: Office, frontier: Frontier, charge: Charge, urls: Sequence[str]) -> None:
    """Put the pages into a job of their own. A message that comes again changes nothing."""
    await feed(frontier, [frontier.offer(Request(url=url)) for url in urls], wait=False)
    await take_charge(frontier.shards[0].server, charge)
    await look_after(office, charge)


def finish(office: Office, job: str) -> None:
    """Run the reducer, if it is our turn, and see to it that the caller has its result."""
    claim = secrets.token_hex(8)
    found = office.run(_claim(office, job, claim))
    if found is None:
        return
    charge, frontier, reduced = found
    if reduced is None:
        with _kept(office, frontier, claim):
            run = _reduce if charge.reducer else _run_hooks
            reduced = run(office, charge, frontier)
        if not office.run(conclude(frontier, claim, msgspec.json.encode(reduced))):
            return  # we were too slow, and somebody else's run counts
    if charge.reducer:
        _deliver(office, charge, reduced)
        office.run(_clean_up(office, frontier))
    else:
        office.run(let_go(frontier, charge))


async def _claim(
    office: Office, job: str, claim: str
) -> tuple[Charge, Frontier, Reduced | None] | None:
    server = await office.server()
    charge = await read_charge(server, job)
    if charge is None:
        return None
    office.rights_of(charge)  # or NotAllowed: it runs code
    try:
        frontier = await office.frontier(job)
        turn, value = await claim_finale(frontier, claim, ttl_s=HOLD_S)
    except JobMissing:  # cleaned up
        await drop_charge(server, job)
        return None
    if turn in (Turn.WAIT, Turn.HELD):
        return None
    return charge, frontier, _open(value) if value else None


def _open(value: bytes) -> Reduced:
    try:
        return msgspec.json.decode(value, type=Reduced)
    except msgspec.MsgspecError as error:
        return Reduced(error=f"what the server holds of its reducer cannot be read ({error})")


def _reduce(office: Office, charge: Charge, frontier: Frontier) -> Reduced:
    """In the task's own thread, as any task of the user's."""
    signature = maybe_signature(charge.reducer, app=office.app)
    reducer = office.app.tasks[signature.task]
    try:
        value = reducer(_records(office, frontier), *signature.args, **signature.kwargs)
        return Reduced(value=msgspec.json.decode(dumps(value)))
    except (EncodeError, TypeError) as error:
        return Reduced(error=f"{signature.task}: {describe(error)}")
    except Exception as error:
        return Reduced(error=f"{signature.task} failed: {describe(error)}")


def _run_hooks(office: Office, charge: Charge, frontier: Frontier) -> Reduced:
    async def run() -> Reduced:
        try:
            hooks = load_spider(charge.target).hooks.finish
            await run_hooks(hooks, await frontier.stats())
        except Exception as error:
            text = f"an on_finish hook failed: {trace(error)}"
            await log(frontier, "error", f"celery-{os.getpid()}", text)
            return Reduced(error=text)
        return Reduced()

    return office.run(run())


def _records(office: Office, frontier: Frontier) -> Iterator[dict[str, Any]]:
    """What came of each page, a few hundred at a time: the set may be larger than memory."""
    pages = _pages(frontier)

    async def following() -> list[dict[str, Any]] | None:
        return await anext(pages, None)

    while (page := office.run(following())) is not None:
        yield from page


async def _pages(frontier: Frontier) -> AsyncIterator[list[dict[str, Any]]]:
    async for results in read_items(frontier):
        yield [{"url": one.url, "ok": True, "items": one.item["items"]} for one in results]
    async for letter in dead_letters(frontier):
        yield [{"url": letter.url, "ok": False, "error": letter.reason}]


@contextmanager
def _kept(office: Office, frontier: Frontier, claim: str) -> Iterator[None]:
    """Hold the finale from the loop's thread, which the reducer cannot block."""
    over = threading.Event()
    keeping = office.start(_keep(frontier, claim, over))
    try:
        yield
    finally:
        over.set()  # the Redis client may swallow a cancellation
        keeping.cancel()


async def _keep(frontier: Frontier, claim: str, over: threading.Event) -> None:
    while not over.is_set():
        await asyncio.sleep(HOLD_S / 4)
        with suppress(SkitterError):
            await claim_finale(frontier, claim, ttl_s=HOLD_S)


def _deliver(office: Office, charge: Charge, reduced: Reduced) -> None:
    outcome = ReducerFailed(reduced.error) if reduced.error else reduced.value
    end(office.app, charge.context or {}, outcome)


async def _clean_up(office: Office, frontier: Frontier) -> None:
    await drop_charge(await office.server(), frontier.job)
    await purge_job(frontier)
