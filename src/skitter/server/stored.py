"""Where a job's rows are stored, as far as this server reads them; and their changes, as noted."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skitter.errors import SkitterError
from skitter.frontier.records.outputs import find_sink
from skitter.redact import redact, redact_text
from skitter.server.problems import Refusal
from skitter.settings import resolve
from skitter.sinks.comparison import Change, is_text, unified
from skitter.sinks.destination import Destination
from skitter.sinks.export import read_feed
from skitter.sinks.registry import is_database

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier

OF_CELERY: Final = "SKITTER_OUTPUT_"  # the outputs of Celery's workers
LAST: Final = 2**63 - 1  # no number of a change is larger
#: Told at once; the rest a moment later.
AT_ONCE: Final = 200
#: Of each, in a message to all who listen: characters of a value, lines of a diff.
SHORT, FEW_LINES = 1000, 40


class ShownChange(Change, frozen=True, kw_only=True):
    """An entry of the feed. `diff`: of a long text, what is different, line by line."""

    diff: tuple[str, ...] = ()


def shown(change: Change) -> ShownChange:
    diff = tuple(unified(change.old, change.new)) if is_text(change) else ()
    said = {name: getattr(change, name) for name in change.__struct_fields__}
    if diff:  # which says it all
        said |= {"old": None, "new": None}
    return ShownChange(**said | {"url": redact_text(change.url)}, diff=diff)


async def source_of(
    frontier: Frontier, directory: Path | None, *, is_operators: bool = False
) -> Destination | None:
    """Where to read a job's items from; None: they are in the frontier. Only operators are told
    where.

    The frontier records where items are stored, but anyone who can write to it could name any file:
    we open only what this server was configured with.
    """
    held = await find_sink(frontier)
    if not held:
        return None
    job, directory = frontier.job, directory or Path(".skitter")
    ours = resolve(job=job).output.to or (f"{job}.db", f"{job}.jsonl")  # of `run` and of `crawl`
    named = [dsn for name, dsn in os.environ.items() if name.startswith(OF_CELERY) and dsn]
    sources = [Destination(dsn, job, directory) for dsn in (*ours, *named)]
    for source in sources:
        if source.place == held:
            return source
    says = "go elsewhere than this server reads"
    if is_operators:
        says = f"go to {redact(held)}, but this server reads {sources[0].place}"
    raise Refusal(
        409,
        f"the items of job {job!r} {says}.",
        hint="start `skitter serve` where the crawl was started, or set SKITTER_OUT for it.",
    )


@dataclass(slots=True)
class News:
    """The changes of a job that are noted from now on, each once."""

    directory: Path | None = None
    _after: int | None = None  # the last that was told; None: not looked up yet
    _noted: int = 0  # how many the server knew of then

    async def read(self, frontier: Frontier, noted: int) -> list[ShownChange]:
        """Those that were not told yet, a bounded number. `noted`: how many the server knows of.
        None where this server cannot read the output: `changes` of the API says why."""
        if self._after is not None and noted == self._noted:
            return []
        try:
            found = await self._read(frontier, starts_over=noted < self._noted)
        except (Refusal, SkitterError):
            return []
        if len(found) < AT_ONCE:
            self._noted = noted
        return [_brief(shown(change)) for change in found]

    async def _read(self, frontier: Frontier, *, starts_over: bool) -> list[Change]:
        source = await source_of(frontier, self.directory)
        if source is None or not is_database(source.store):
            self._after = self._after or 0
            return []
        if self._after is None or starts_over:  # with --fresh, numbers may begin again
            newest = await read_feed(source.store, job=frontier.job, before=LAST, limit=1)
            self._after = newest[0].seq if newest else 0
            return []
        found = await read_feed(source.store, job=frontier.job, after=self._after, limit=AT_ONCE)
        self._after = found[-1].seq if found else self._after
        return found


def _brief(change: ShownChange) -> ShownChange:
    """Everybody who listens gets it: a page may be a megabyte."""
    diff = tuple(_short(line) for line in change.diff[:FEW_LINES])
    if len(change.diff) > FEW_LINES:
        diff += (f"… {len(change.diff) - FEW_LINES} more lines",)
    old, new = _short(change.old), _short(change.new)
    return msgspec.structs.replace(change, old=old, new=new, diff=diff)


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return value if len(text) <= SHORT else f"{text[:SHORT]}…"
