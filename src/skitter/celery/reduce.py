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
from celery.canvas import maybe_signature
from kombu.exceptions import EncodeError
from kombu.utils.json import dumps

from skitter.celery.registry import JobSpec, read_spec, unregister_if_over, unregister_job
from skitter.celery.results import end
from skitter.errors import JobMissing, SkitterError
from skitter.frontier.admin.callback import Turn, claim_callback, finish_callback
from skitter.frontier.admin.dead import dead_letters
from skitter.frontier.admin.items import read_items
from skitter.frontier.admin.jobs import purge_job
from skitter.frontier.admin.log import log
from skitter.spider import load_spider
from skitter.spider.source_line import describe, trace
from skitter.spider.spider import run_hooks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from skitter.celery.runtime import Runtime
    from skitter.frontier.frontier import Frontier


#: A reducer that was not heard of for so long is run again by another process.
HOLD_S = 20.0


class ReducerFailed(Exception):
    """The reducer raised; its text says what."""


class Reduced(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a reducer, as the server keeps it."""

    value: Any = None
    error: str = ""


def finish(runtime: Runtime, job: str) -> None:
    """Run the reducer, if it is our turn, and see to it that the caller has its result."""
    claim = secrets.token_hex(8)
    found = runtime.run(_claim(runtime, job, claim))
    if found is None:
        return
    spec, frontier, reduced = found
    if reduced is None:
        with _kept(runtime, frontier, claim):
            run = _reduce if spec.reducer else _run_hooks
            reduced = run(runtime, spec, frontier)
        if not runtime.run(finish_callback(frontier, claim, msgspec.json.encode(reduced))):
            return  # we were too slow, and somebody else's run counts
    if spec.reducer:
        _deliver(runtime, spec, reduced)
        runtime.run(_clean_up(runtime, frontier))
    else:
        runtime.run(unregister_if_over(frontier, spec))


async def _claim(
    runtime: Runtime, job: str, claim: str
) -> tuple[JobSpec, Frontier, Reduced | None] | None:
    server = await runtime.server()
    spec = await read_spec(server, job)
    if spec is None:
        return None
    runtime.permissions_of(spec)  # or NotAllowed: it runs code
    try:
        frontier = await runtime.frontier(job)
        turn, value = await claim_callback(frontier, claim, ttl_s=HOLD_S)
    except JobMissing:  # cleaned up
        await unregister_job(server, job)
        return None
    if turn in (Turn.WAIT, Turn.HELD):
        return None
    return spec, frontier, _open(value) if value else None


def _open(value: bytes) -> Reduced:
    try:
        return msgspec.json.decode(value, type=Reduced)
    except msgspec.MsgspecError as error:
        return Reduced(error=f"what the server holds of its reducer cannot be read ({error})")


def _reduce(runtime: Runtime, spec: JobSpec, frontier: Frontier) -> Reduced:
    """In the task's own thread, as any task of the user's."""
    signature = maybe_signature(spec.reducer, app=runtime.app)
    reducer = runtime.app.tasks[signature.task]
    try:
        value = reducer(_records(runtime, frontier), *signature.args, **signature.kwargs)
        return Reduced(value=msgspec.json.decode(dumps(value)))
    except (EncodeError, TypeError) as error:
        return Reduced(error=f"{signature.task}: {describe(error)}")
    except Exception as error:
        return Reduced(error=f"{signature.task} failed: {describe(error)}")


def _run_hooks(runtime: Runtime, spec: JobSpec, frontier: Frontier) -> Reduced:
    async def run() -> Reduced:
        try:
            hooks = load_spider(spec.target).hooks.finish
            await run_hooks(hooks, await frontier.stats())
        except Exception as error:
            text = f"an on_finish hook failed: {trace(error)}"
            await log(frontier, "error", f"celery-{os.getpid()}", text)
            return Reduced(error=text)
        return Reduced()

    return runtime.run(run())


def _records(runtime: Runtime, frontier: Frontier) -> Iterator[dict[str, Any]]:
    """What came of each page, a few hundred at a time: the set may be larger than memory."""
    pages = _pages(frontier)

    async def following() -> list[dict[str, Any]] | None:
        return await anext(pages, None)

    while (page := runtime.run(following())) is not None:
        yield from page


async def _pages(frontier: Frontier) -> AsyncIterator[list[dict[str, Any]]]:
    async for results in read_items(frontier):
        yield [{"url": one.url, "ok": True, "items": one.item["items"]} for one in results]
    async for letter in dead_letters(frontier):
        yield [{"url": letter.url, "ok": False, "error": letter.reason}]


@contextmanager
def _kept(runtime: Runtime, frontier: Frontier, claim: str) -> Iterator[None]:
    """Hold the finale from the loop's thread, which the reducer cannot block."""
    over = threading.Event()
    keeping = runtime.start(_keep(frontier, claim, over))
    try:
        yield
    finally:
        over.set()  # the Redis client may swallow a cancellation
        keeping.cancel()


async def _keep(frontier: Frontier, claim: str, over: threading.Event) -> None:
    while not over.is_set():
        await asyncio.sleep(HOLD_S / 4)
        with suppress(SkitterError):
            await claim_callback(frontier, claim, ttl_s=HOLD_S)


def _deliver(runtime: Runtime, spec: JobSpec, reduced: Reduced) -> None:
    outcome = ReducerFailed(reduced.error) if reduced.error else reduced.value
    end(runtime.app, spec.context or {}, outcome)


async def _clean_up(runtime: Runtime, frontier: Frontier) -> None:
    await unregister_job(await runtime.server(), frontier.job)
    await purge_job(frontier)
