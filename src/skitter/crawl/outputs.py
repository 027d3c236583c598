"""The outputs of a job, as named by the user: opened, claimed, filled.

Which of them there are, the server knows: frontier/records/outputs.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from skitter.errors import ItemsElsewhere
from skitter.frontier.records.outputs import (
    FILLING,
    add_output,
    check_sink,
    claim_sink,
    drop_output,
    find_sink,
    further,
    note_full,
)
from skitter.redact import shown
from skitter.sinks import BadSink, Sink, Stopped
from skitter.sinks.comparison import Noise
from skitter.sinks.registry import is_database, is_local

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Iterator, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.sinks import Destination

Say: TypeAlias = Callable[[str], None]
OpenSink: TypeAlias = Callable[[], AbstractAsyncContextManager[Sink]]


@asynccontextmanager
async def open_destination(frontier: Frontier, to: Destination) -> AsyncIterator[Sink]:
    """The sink, which becomes the main one for the job's items. Or ItemsElsewhere."""
    before = await find_sink(frontier)
    moved_from = before if _is_moved(before, to) else ""
    with naming_the_export():
        await check_sink(frontier, to.place, moved_from=moved_from)  # before a file is created
    async with _as_configured(frontier, to).open() as sink:
        with naming_the_export():
            await claim_sink(frontier, to.place, moved_from=moved_from)
        yield sink


@asynccontextmanager
async def open_further(
    frontier: Frontier, to: Destination, main: Destination | None, stop: asyncio.Event | None = None
) -> AsyncIterator[Sink]:
    """The sink of a further output, which has all that the main one has."""
    async with _as_configured(frontier, to).open() as sink:
        if (await further(frontier)).get(to.place) == FILLING:
            if main is None:
                held = await find_sink(frontier)
                raise BadSink(f"{shown(to.place)} lacks what {shown(held)} has: name both.")
            await _fill(sink, main, with_files=to.can_be_read, stop=stop)
            await note_full(frontier, to.place)
        yield sink


async def _fill(
    sink: Sink, main: Destination, *, with_files: bool, stop: asyncio.Event | None
) -> None:
    """Rows replace only those of earlier visits: what the sink has got meanwhile stays."""
    if main.is_missing:
        return
    async with aclosing(main.read(with_files=with_files)) as pages:
        async for rows in pages:
            if stop and stop.is_set():
                raise Stopped
            await sink.write(rows)


def _as_configured(frontier: Frontier, to: Destination) -> Destination:
    visits = frontier.options.visits
    noise = Noise(
        ignored=frozenset((visits.changes_ignore or "").split()), smallest=visits.changes_smallest
    )
    return replace(to, prunes=visits.revisit_prune, noise=noise)


def main_of(outs: Sequence[Destination], held: str) -> Destination | None:
    """Which of them is the main one, as the job knows it; if it has none, the first."""
    known = (out for out in outs if not held or out.place == held or _is_moved(held, out))
    return next(known, None)


async def name_outputs(frontier: Frontier, outs: Sequence[Destination], say: Say) -> None:
    """These, and no others, get the items from now on. The main one is claimed already."""
    main = main_of(outs, await find_sink(frontier)) or outs[0]
    known, stats = await further(frontier), await frontier.stats()
    prunes = frontier.options.visits.revisit_prune  # then it may be empty for good
    wanted = {out.place: out for out in outs if out.place != main.place}
    for place in known.keys() - wanted:
        await drop_output(frontier, place)
        say(f"{shown(place)} is no output of {frontier.job} any more, and keeps what it has.")
    for place, output in wanted.items():
        if place in known and (output.is_missing or (not prunes and await output.count() == 0)):
            await drop_output(frontier, place)  # and fill it again
        await add_output(frontier, place, can_fill=main.can_be_read)
        is_filling = (await further(frontier)).get(place) == FILLING
        if is_filling and stats.stored:
            say(f"{shown(place)} gets what {shown(main.store)} has, first.")


@contextmanager
def naming_the_export() -> Iterator[None]:
    """The frontier does not know what a place is; we know whether it can be exported."""
    try:
        yield
    except ItemsElsewhere as error:
        job, place, stored = error.job, error.place, error.stored
        can_export = is_database(place)
        raise ItemsElsewhere(job, place, stored=stored, can_export=can_export) from error


def _is_moved(held: str, to: Destination) -> bool:
    """Whether a folder was moved with the file in it."""
    before, now = Path(held), Path(to.place)
    is_one = is_local(to.store) and before.name == now.name
    return is_one and now.exists() and not before.exists()
