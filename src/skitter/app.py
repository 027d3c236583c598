"""The composition root: turns settings into open objects. Lifetimes are `async with` blocks."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from skitter.errors import (
    BadOption,
    JobMissing,
    ServerStopped,
    ServerUnreachable,
    SkitterError,
)
from skitter.frontier.control import operator_options, release_options, replaced
from skitter.frontier.jobs import create_job, open_job
from skitter.frontier.records.health import keep_thresholds
from skitter.frontier.sites.learned import free_handled
from skitter.frontier.transport.connection import Server, connect
from skitter.frontier.transport.sync import in_thread
from skitter.frontier.workers import live_workers
from skitter.settings import JOB_OPTIONS, JobOptions, Layout, Option, check_job_name, find_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from skitter.embedded import EmbeddedServer, Progress
    from skitter.frontier.frontier import Frontier
    from skitter.settings import Config, Settings
    from skitter.spider.spider import Spider

#: Default limit on results waiting for a loader, so that they do not fill up the server.
MAX_ITEMS = 50_000
#: How long to wait for a server that has just been killed.
DYING_S = 10.0


@asynccontextmanager
async def open_server(
    settings: Settings, *, progress: Progress | None = None
) -> AsyncIterator[Server]:
    """The server that the settings name, or the embedded one, started if it is not running."""
    async with AsyncExitStack() as stack:
        url = settings.redis_url
        if url is None:
            from skitter.embedded import hold  # slow to import, and not needed for other servers

            # Entered and left in a thread: a large append-only file takes long to load.
            held = hold(settings.directory, progress=progress)
            embedded = await in_thread(held.__enter__)
            stack.push_async_callback(in_thread, held.__exit__, None, None, None)
            yield await _join(embedded, stack, progress)
        else:
            yield await stack.enter_async_context(connect(url))


async def _join(
    embedded: EmbeddedServer, stack: AsyncExitStack, progress: Progress | None
) -> Server:
    """It answered a moment ago. If it was already dying, start it again."""
    give_up_at = time.monotonic() + DYING_S
    link = partial(connect, embedded.url, password=embedded.password)
    while True:
        try:
            server = await stack.enter_async_context(link())
        except ServerUnreachable:
            if time.monotonic() > give_up_at:
                raise
            if progress:
                progress("the embedded server has stopped: restarting it")
            await _revive(embedded.directory)
            continue
        server.on_away = partial(_revive, embedded.directory)
        server.directory = embedded.directory
        return server


async def _revive(directory: Path) -> None:
    """Restart the server if it died. If somebody stopped it, raise ServerStopped."""
    from skitter.embedded import revive

    if not await in_thread(revive, directory):
        raise ServerStopped(directory)


@asynccontextmanager
async def open_frontier(
    job: str,
    *,
    redis: str | None = None,
    options: JobOptions | None = None,
    layout: Layout | None = None,
    directory: Path | None = None,
) -> AsyncIterator[Frontier]:
    """A job in your own event loop; created if necessary.

    `redis`: a server's URL; None: SKITTER_REDIS_URL, or the embedded server, which lives in
    `directory` (None: SKITTER_DIR, or .skitter). Options are also applied to an existing job; the
    layout is fixed when the job is created.
    """
    check_job_name(job)
    if not isinstance(options, JobOptions | None):
        raise BadOption("options", options, "a skitter.JobOptions")
    if not isinstance(layout, Layout | None):
        raise BadOption("layout", layout, "a skitter.Layout")
    where = find_server(redis, directory)
    async with open_server(where) as server:
        yield await create_job(server, job, options=options, layout=layout)


class Overruled(msgspec.Struct, frozen=True):
    """A job option for which an operator (`skitter set`) and the configuration disagree."""

    option: Option
    set_by_operator: float | None
    configured: float | None
    flag_wins: bool


async def open_crawl(
    server: Server, job: str, spider: Spider, config: Config, *, like: Layout | None = None
) -> tuple[Frontier, list[Overruled]]:
    """The spider's job, created if necessary, with the configured options. `like`: a new job gets
    the shards and the Bloom filter of this layout.

    What an operator set on the job overrides those options, and a flag overrides both.
    """
    options, overruled = config.job_options, await _compare(server, job, config)
    kept = {
        setting.option.name: setting.set_by_operator
        for setting in overruled
        if not setting.flag_wins
    }
    options = replaced(options, kept)
    if options.limits.max_items is None and "max_items" not in kept:
        options = replaced(options, {"max_items": MAX_ITEMS})
    layout = replace(like or Layout(), canonical=spider.canonical)
    frontier = await create_job(server, job, options=options, layout=layout)
    await release_options(
        frontier, [setting.option.name for setting in overruled if setting.flag_wins]
    )
    await keep_thresholds(frontier, config.quality)
    await free_handled(frontier, spider.handlers)  # else no Celery worker would be sent for them
    return frontier, overruled


async def _compare(server: Server, job: str, config: Config) -> list[Overruled]:
    try:
        stored = await operator_options(await open_job(server, job, as_found=True))
    except JobMissing:
        return []
    found = []
    for option in JOB_OPTIONS:
        wanted = getattr(getattr(config, option.table), option.name)
        if option.name in stored and stored[option.name] != wanted:
            found.append(
                Overruled(option, stored[option.name], wanted, option.key in config.explicit)
            )
    return found


async def obeyed_now(server: Server, job: str) -> JobOptions | None:
    """The options of a job that others are crawling."""
    with suppress(SkitterError):  # there is none, or opening it says what is wrong
        frontier = await open_job(server, job)
        return frontier.options if await live_workers(frontier) else None
    return None


def differences(was: JobOptions, now: JobOptions) -> Iterator[str]:
    for option in JOB_OPTIONS:
        old, new = (getattr(getattr(every, option.table), option.name) for every in (was, now))
        if old != new:
            yield f"{option.name}={spelled(new)} (not {spelled(old)})"


def spelled(value: object) -> object:
    return "none" if value is None else value
