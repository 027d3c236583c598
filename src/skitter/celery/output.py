"""Where pumps load the items of a job, and what is refused when a job is submitted."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

from skitter.engine.pulse import cancel_all
from skitter.errors import JobMissing, SkitterError
from skitter.frontier.admin.sink import claim_sink, find_sink
from skitter.frontier.admin.workers import SILENCE_S
from skitter.loading import open_destination
from skitter.sinks import Destination, SinkAway, SinkBusy, Stopped

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skitter.celery.registry import JobSpec
    from skitter.celery.runtime import Runtime
    from skitter.frontier.frontier import Frontier
    from skitter.sinks.base import Sink

#: How often to look whether another pump has closed the file.
BUSY_S = 0.5


def output_of(runtime: Runtime, spec: JobSpec) -> Destination:
    """Raises NotAllowed for an output that this worker may not open."""
    return Destination(runtime.permissions_of(spec).out, spec.job, runtime.where.directory)


async def claim_output(runtime: Runtime, spec: JobSpec) -> None:
    """Raises UsageError for an output that takes no items of this job, as `run` does: before a job
    is created, and before a pump could meet it.

    One that is away, or that a pump is writing, is accepted: pumps wait for it.
    """
    if not spec.out:
        return
    to = output_of(runtime, spec)
    try:
        frontier = await runtime.frontier(spec.job)
    except JobMissing:
        opening = to.open()
    else:
        if await find_sink(frontier) == to.place:
            return
        opening = open_destination(frontier, to)
    with suppress(SinkAway, SinkBusy):
        async with opening:
            pass


@asynccontextmanager
async def open_output(
    frontier: Frontier, to: Destination, *, known: asyncio.Event, stop: asyncio.Event
) -> AsyncIterator[Sink]:
    """The sink. `known` is set when it is open, away or busy: what is raised without it is a
    mistake.

    Only one process at a time may write some files: the pump that has one open loads what the
    others fetch, and they wait for their turn.
    """
    async with AsyncExitStack() as stack:
        while True:
            try:
                sink = await stack.enter_async_context(open_destination(frontier, to))
                break
            except SinkBusy:
                known.set()
                await _pause(stop)
            except SinkAway:
                known.set()
                raise
        known.set()
        keeping = asyncio.create_task(_keep(frontier, to.place))
        stack.push_async_callback(cancel_all, [keeping])
        yield sink


async def _keep(frontier: Frontier, place: str) -> None:
    """Claim it again and again: a place that has received nothing for a while may be replaced, and
    what this pump loads would be in the wrong one."""
    while True:
        await asyncio.sleep(SILENCE_S / 3)
        with suppress(SkitterError):
            await claim_sink(frontier, place)


async def _pause(stop: asyncio.Event) -> None:
    """Raises Stopped."""
    try:
        await asyncio.wait_for(stop.wait(), BUSY_S)
    except TimeoutError:
        return
    raise Stopped
