"""What runs once at the end of a job: the reducer of map_reduce, or a spider's on_finish hooks.

Any process that notices that a job is done sends `skitter.finish`; a claim on the server lets one
of them run. If its process is killed, another runs it again; a reducer that has returned never
reruns.
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

from skitter.celery.broker import send_told
from skitter.celery.jobs import JobSpec, read_spec, unregister_if_over, unregister_job
from skitter.celery.results import store_outcome, tell_end, to_json
from skitter.errors import JobMissing, SkitterError
from skitter.frontier.dead import unfetched
from skitter.frontier.items import read_items
from skitter.frontier.jobs import purge_job
from skitter.frontier.records.drivers import Turn, claim_callback, finish_callback
from skitter.frontier.workers import log
from skitter.spider import load_spider
from skitter.spider.hooks import run_hooks
from skitter.spider.source import describe, trace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from skitter.celery.runtime import Runtime
    from skitter.frontier.frontier import Frontier


#: A claim that is not renewed for this long goes to another process.
HOLD_S = 20.0


class ReducerFailed(Exception):
    """The reducer raised; the text says what."""


class Reduced(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a reducer, as stored on the server."""

    value: Any = None
    error: str = ""


def finish(runtime: Runtime, job: str) -> None:
    """Run the reducer if it is our turn, and store its result for the caller."""
    claim = secrets.token_hex(8)
    found = runtime.run(_claim(runtime, job, claim))
    if found is None:
        return
    spec, frontier, reduced = found
    if reduced is None:
        with _renewing(runtime, frontier, claim):
            run = _reduce if spec.reducer else _run_hooks
            reduced = run(runtime, spec, frontier)
        if not runtime.run(finish_callback(frontier, claim, msgspec.json.encode(reduced))):
            return  # we were too slow: another process's run counts
    if not spec.reducer:
        runtime.run(unregister_if_over(frontier, spec))
        return
    outcome = ReducerFailed(reduced.error) if reduced.error else reduced.value
    task = spec.context or {}
    tell_end(runtime, task, store_outcome(runtime.app, task, outcome))
    send_told(runtime)
    runtime.run(_purge(frontier))


async def _purge(frontier: Frontier) -> None:
    await unregister_job(frontier.server, frontier.job)
    await purge_job(frontier)


async def _claim(
    runtime: Runtime, job: str, claim: str
) -> tuple[JobSpec, Frontier, Reduced | None] | None:
    server = await runtime.server()
    spec = await read_spec(server, job)
    if spec is None:
        return None
    runtime.check_job(spec)  # raises NotAllowed: it runs code
    try:
        frontier = await runtime.frontier(job)
        turn, value = await claim_callback(frontier, claim, ttl_s=HOLD_S)
    except JobMissing:  # purged
        await unregister_job(server, job)
        return None
    if turn in (Turn.WAIT, Turn.HELD):
        return None
    return spec, frontier, _decode(value) if value else None


def _decode(value: bytes) -> Reduced:
    try:
        return msgspec.json.decode(value, type=Reduced)
    except msgspec.MsgspecError as error:
        return Reduced(error=f"the server's record of its reducer cannot be read ({error})")


def _reduce(runtime: Runtime, spec: JobSpec, frontier: Frontier) -> Reduced:
    """Runs in the task's own thread, like any other task."""
    signature = maybe_signature(spec.reducer, app=runtime.app)
    reducer = runtime.app.tasks[signature.task]
    try:
        value = reducer(_records(runtime, frontier), *signature.args, **signature.kwargs)
        return Reduced(value=to_json(value))
    except (EncodeError, TypeError) as error:
        return Reduced(error=f"{signature.task}: {describe(error)}")
    except Exception as error:
        return Reduced(error=f"{signature.task} failed: {describe(error)}")


def _run_hooks(runtime: Runtime, spec: JobSpec, frontier: Frontier) -> Reduced:
    async def run() -> Reduced:
        try:
            hooks = load_spider(spec.target, spec.config.arguments).hooks.finish
            await run_hooks(hooks, await frontier.stats())
        except Exception as error:
            text = f"an on_finish hook failed: {trace(error)}"
            await log(frontier, "error", f"celery-{os.getpid()}", text)
            return Reduced(error=text)
        return Reduced()

    return runtime.run(run())


def _records(runtime: Runtime, frontier: Frontier) -> Iterator[dict[str, Any]]:
    """The records of all pages, read in batches: the set may be larger than memory."""
    pages = _pages(frontier)

    async def read() -> list[dict[str, Any]] | None:
        return await anext(pages, None)

    while (page := runtime.run(read())) is not None:
        yield from page


async def _pages(frontier: Frontier) -> AsyncIterator[list[dict[str, Any]]]:
    async for results in read_items(frontier):
        yield [_record(result.url, result.item) for result in results]
    async for letter in unfetched(frontier):
        yield [{"url": letter.url, "ok": False, "error": letter.reason}]


def _record(url: str, found: dict[str, Any]) -> dict[str, Any]:
    if why := found.get("error"):
        return {"url": url, "ok": False, "error": why}
    return {"url": url, "ok": True, "items": found["items"]}


@contextmanager
def _renewing(runtime: Runtime, frontier: Frontier, claim: str) -> Iterator[None]:
    """Renew the claim from the loop's thread, which the reducer cannot block."""
    over = threading.Event()

    async def renew() -> None:
        while not over.is_set():
            await asyncio.sleep(HOLD_S / 4)
            with suppress(SkitterError):
                await claim_callback(frontier, claim, ttl_s=HOLD_S)

    renewing = runtime.start(renew())
    try:
        yield
    finally:
        over.set()  # the Redis client may swallow a cancellation
        renewing.cancel()
