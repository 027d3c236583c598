"""The way of a page: the list of its stages, a file here for each kind.

allowed     Whether a page may be fetched: by the patterns of the job, and by robots.txt
archive     What a crawl keeps of its pages, and what a replay has not
directives  What pages ask of robots, and which of it this crawl obeys
download    Files that a visit downloads: streamed to disk, each content once
fetch       Who fetches a page, and the request
handler     What the spider finds on a page, and which of its links are new
judge       What becomes of a response, and how it is counted
logins      Sessions of requests, and logging them in: one worker does it, others wait
on_error    What happens with failed attempts: the user's hooks are called, and some pages are kept
recall      Pages from the archive, for those that are handled again and for the cache
revisits    Revisits: a page is fetched again, with its ETag and date, and handled if it changed
stage       Stage: one step of the way of a page
traps       Traps: budgets of URL shapes, and whether a page says something new
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from skitter.engine.stages.allowed import Excluded, Robots
from skitter.engine.stages.archive import Archive, Offline
from skitter.engine.stages.directives import Directives
from skitter.engine.stages.download import Download
from skitter.engine.stages.fetch import Fetch, Lanes
from skitter.engine.stages.handler import Answers, Handler, Links
from skitter.engine.stages.judge import Judge, Measure
from skitter.engine.stages.logins import Logins, Sessions
from skitter.engine.stages.on_error import Failed, OnError
from skitter.engine.stages.recall import Recall
from skitter.engine.stages.revisits import Revisits
from skitter.engine.stages.stage import HOOKS, OURS, Stage
from skitter.engine.stages.traps import Traps
from skitter.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import EntryPoint

    from skitter.engine.parts import Parts

__all__ = ["HOOKS", "STAGES", "Stage", "bind", "stages"]

GROUP: Final = "skitter.stages"
#: For each hook, stages come in this order.
STAGES: Final[tuple[type[Stage], ...]] = (
    Measure,
    Download,
    Revisits,
    Excluded,
    Recall,
    Lanes,
    Robots,
    Sessions,
    Logins,
    Fetch,
    Judge,
    Directives,
    Handler,  # the stages of packages follow
    Offline,
    Traps,
    Links,
    Answers,
    OnError,
    Failed,
    Archive,
)


def bind(parts: Parts, *, without: Iterable[type[Stage]] = ()) -> list[Stage]:
    """The stages that are on, for a worker that starts."""
    bound = [stage.bind(parts) for stage in stages() if stage not in without]
    return [stage for stage in bound if stage is not None]


@cache
def stages() -> tuple[type[Stage], ...]:
    """Ours and those of installed packages, by entry point (docs/howto/stages.md)."""
    theirs = [
        _load(point) for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)
    ]
    here = STAGES.index(Handler) + 1
    return (*STAGES[:here], *theirs, *STAGES[here:])


def _load(point: EntryPoint) -> type[Stage]:
    whose = f"the stage {point.name!r} of the package {point.dist.name if point.dist else '?'}"
    try:
        stage = point.load()
    except Exception as error:
        raise UsageError(f"{whose} cannot be loaded: {error!r}") from error
    if not (isinstance(stage, type) and issubclass(stage, Stage)):
        raise UsageError(f"{whose} is not a class derived from skitter.engine.stages.Stage.")
    if taken := sorted(name for name in OURS if hasattr(stage, name)):
        raise UsageError(f"{whose} has the method {taken[0]!r}, which is not a hook for packages.")
    return stage
