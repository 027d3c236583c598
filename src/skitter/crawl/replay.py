"""Handlers on kept pages: a crawl whose web is the archive."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skitter.archive.playback import ROBOTS
from skitter.archive.record import request_of
from skitter.errors import UsageError
from skitter.spider.named_files import FILE
from skitter.spider.sitemap import SITEMAP

if TYPE_CHECKING:
    from skitter.archive.index import Archive
    from skitter.crawl.plan import Plan
    from skitter.model import Request
    from skitter.spider import Spider

#: What differs from a crawl of the web.
SETTINGS: Final[dict[str, Any]] = {
    "archive.offline": True,
    "fetch.obey_robots": False,  # it was asked when the page was fetched
    "politeness.delay_s": 0.0,
    "politeness.max_in_flight": 64,
    "limits.max_items": None,
    "limits.max_pages": None,
    "limits.max_pages_per_host": None,
    "limits.max_pending": None,
    "limits.shape_budget": None,
    "visits.revisit": False,
}


#: Handlers of what is for machines, not of a spider.
MACHINES: Final = (SITEMAP, ROBOTS, FILE)


class Seeds(NamedTuple):
    """The pages to handle, and how many have no handler any more."""

    requests: list[Request]
    without_handler: int


def replayed(plan: Plan, archive: Archive, *, job: str) -> tuple[Plan, int]:
    """The plan of a replay of a job's pages, and how many of them have no handler any more."""
    spider = plan.spider
    seeds = _seeds(archive.within(job), spider, job)
    if not seeds.requests:
        raise UsageError(f"{archive.folder} has no page of {job!r} that {plan.target} can handle.")
    spider.start, spider.sitemap = seeds.requests, False
    return replace(plan, spider=spider, fresh=True), seeds.without_handler


def _seeds(archive: Archive, spider: Spider, job: str) -> Seeds:
    """Pages that a handler saw, for the same one; of other tools, the spider's own start."""
    ours = [request_of(kept) for kept in archive.of(job)]
    # All that machines' pages led to is here.
    ours = [request for request in ours if request.handler not in MACHINES]
    known = [request for request in ours if (request.handler or spider.default) in spider.handlers]
    starts = [seed for seed in spider.known_seeds if archive.newest(seed)]
    return Seeds([*known, *starts], len(ours) - len(known))
