"""The way of a page: the list of its stages, each a file here.

archive     Has the response that the handler saw kept: on disk before the page is completed
directives  What pages ask of robots, and which of it this crawl obeys
excluded    Sets pages aside that the job's patterns exclude by now
fetch       Sends the request when its host's moment has come: by HTTP or a browser, on a route
handler     Runs the spider's handler, which finds items and links
judge       Decides what becomes of a response, by status, headers and signs of a block page
lanes       Passes pages that need a browser on to the lane that has one
links       Drops links that a cached robots.txt disallows; sorts out those that the frontier has
logins      Logging sessions in: one worker does it, others wait
measure     Counts and times requests, for the figures of the crawl
offline     Drops links to pages that are not in the archive
on_error    Calls the spider's hooks for failed attempts
revisits    Revisits: a page is fetched again, with its ETag and date, and handled if it changed
robots      Asks robots.txt, which is fetched once per host for the whole fleet
sessions    Opens the session of the request, which keeps the cookies of responses
stage       Stage: one step of the way of a page
traps       Traps: budgets of URL shapes, and whether a page says something new
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from skitter.engine.stages.archive import Archive
from skitter.engine.stages.directives import Directives
from skitter.engine.stages.excluded import Excluded
from skitter.engine.stages.fetch import Fetch
from skitter.engine.stages.handler import Handler
from skitter.engine.stages.judge import Judge
from skitter.engine.stages.lanes import Lanes
from skitter.engine.stages.links import Links
from skitter.engine.stages.logins import Logins
from skitter.engine.stages.measure import Measure
from skitter.engine.stages.offline import Offline
from skitter.engine.stages.on_error import OnError
from skitter.engine.stages.revisits import Revisits
from skitter.engine.stages.robots import Robots
from skitter.engine.stages.sessions import Sessions
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
    Revisits,
    Excluded,
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
    OnError,
    Archive,
)


def bind(parts: Parts, *, without: Iterable[type[Stage]] = ()) -> list[Stage]:
    """The stages that are on, for a worker that starts."""
    bound = [one.bind(parts) for one in stages() if one not in without]
    return [one for one in bound if one is not None]


@cache
def stages() -> tuple[type[Stage], ...]:
    """Ours and those of installed packages, by entry point (docs/howto/stages.md)."""
    theirs = [_load(one) for one in sorted(entry_points(group=GROUP), key=lambda one: one.name)]
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
