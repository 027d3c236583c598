"""How a crawl went: the report at its end, and the exit code. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.errors import HELD
from skitter.model import State, Stats

if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = 130
AGAIN = "run it again to continue"
TIME = "%H:%M:%S"
DATE_AND_TIME = f"%Y-%m-%d {TIME}"

#: Why links are not followed, as shown to users.
KINDS = {
    "scope": "out of scope",
    "pattern": "by exclude or include",
    "robots": "by robots.txt",
    "depth": "too deep",
    "nofollow": "nofollow",
    "noindex": "noindex",
    "canonical": "copies of another page",
    "usage": "with reserved usage",
    "length": "with an overlong URL",
    "middleware": "by a Scrapy middleware",
    "file": "to files",
    "archive": "not in the archive",
    "drain": "found while draining",
}


class CrawlResult(msgspec.Struct, frozen=True):
    """How a crawl went: its counts before and after."""

    before: Stats
    after: Stats
    seconds: float
    over: bool  # it ended on its own, or there was nothing left to do
    interrupted: bool = False  # by Ctrl-C
    stopped_for: str = ""  # why the run stopped itself
    max_pages: int | None = None
    max_time_s: float | None = None  # stopped because it has run that long
    lost: int = 0  # items that were in a deleted file
    why_dead: str = ""  # if the crawl fetched nothing: what became of its first URL
    dead_reasons: dict[str, int] = msgspec.field(default_factory=dict)
    downloads: int = 0  # files
    downloaded_bytes: int = 0  # of these files
    archived: dict[str, int] = msgspec.field(default_factory=dict)  # by observe/metrics.py ARCHIVED
    vanished: list[str] = msgspec.field(default_factory=list)  # pages that seem to kill workers
    bad: list[str] = msgspec.field(default_factory=list)  # how the scraped items got worse
    on_bad: str = "warn"
    idle: list[str] = msgspec.field(default_factory=list)  # handlers that yielded nothing
    unmatched: list[str] = msgspec.field(default_factory=list)  # selectors that matched nothing
    empty: bool = False  # a spider that yields items handled pages, and stored nothing
    on_empty: str = "fail"
    held: dict[str, int] = msgspec.field(default_factory=dict)  # URLs that are held, by shape
    unhandled: dict[str, int] = msgspec.field(default_factory=dict)  # by handler that is missing
    shape_budget: int | None = None

    @property
    def quality_failed(self) -> bool:
        return bool(self.bad) and self.on_bad != "warn"

    @property
    def visits(self) -> Counter[str]:
        """In a job with revisits: what the visits of this run found."""
        before, after = self.before, self.after
        return Counter(
            new=after.new - before.new,
            changed=after.changed - before.changed,
            unchanged=after.unchanged - before.unchanged,
            missing=after.missing - before.missing,
            gone=after.gone - before.gone,
        )


class ItemCount(int):
    """How many items are stored. In the report of `spider.run()`, a call returns the items."""

    read: Callable[[], Any] | None = None

    def __call__(self) -> Any:
        if self.read is None:
            raise TypeError("this report has only the number of items")
        return self.read()


class Written(msgspec.Struct, frozen=True):
    """The output at the end of a crawl."""

    out: str  # where the items are
    rows: int | None = None  # of the job; None: unknown
    exit_code: int = 0
    store: str | None = None  # where the rows of a file are kept that is written at the end
    lacks: str = ""  # what it does not have yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a crawl went: what `run --json` prints, and `spider.run()` returns."""

    job: str  # the name of the job
    finished: bool  # whether nothing is left to do
    end: str  # why it ended, as shown to users
    pages: int  # completed, in all runs
    pages_now: int  # in this run
    seconds: float  # that this run took
    pages_per_second: float  # in this run
    revisits: dict[str, int]  # in this run, by result: changed, unchanged, gone
    dead: int  # pages given up, in all runs
    dead_reasons: dict[str, int]  # by kind, most frequent first
    vanished: list[str]  # URLs given up in this run, as their workers vanished again and again
    cached: int  # pages of this run that the archive answered, not the site
    blocked: int  # block pages received
    capped: int  # pages with more items or links than the limit
    excluded: int  # URLs that waited until the job's patterns excluded them
    kept_out: dict[str, int]  # links not followed, by kind: robots, scope, ...
    files: int  # links to files that `crawl` does not fetch without --files
    downloads: int  # files that the job has downloaded
    downloaded_bytes: int  # of these files
    archived: int  # pages that the archive has kept in this run
    archived_bytes: int  # of these pages
    unarchived: int  # pages of this run that it could not keep
    held: dict[str, int]  # URLs that look like a trap, by shape, most first
    unhandled: dict[str, int]  # URLs for a handler that no worker has, by its name, most first
    shape_budget: int | None  # pages that a URL shape may have before it is fetched last
    refused: int  # times a link was beyond max_depth, or found while the job was draining
    items: ItemCount  # rows of the output; `report.items()` reads them back
    updated: int  # rows that this run replaced by those of a later visit
    rows: int | None  # of the output; None: unknown
    rejected: int  # items that could not be stored
    bad: list[str]  # how the scraped items got worse
    idle: list[str]  # handlers that ran and yielded nothing, in this run
    unmatched: list[str]  # selectors without a match, in this run
    undeclared: int  # values of fields that the item type lacks
    pending: int  # URLs still to be fetched
    items_waiting: int  # items on the server that no loader has stored
    out: str  # the output, without a password
    store: str | None  # a database: the output is written from it at the end
    also: list[Written]  # further outputs
    exit_code: int  # of `skitter run`


def report_of(
    result: CrawlResult, written: Written, *also: Written, max_dead: int | None = None
) -> Report:
    stats, before = result.after, result.before
    visits = result.visits
    # A revisited page was already done, and does not count again; one of a round is done twice.
    done = stats.done - before.done + stats.again - before.again
    pages = max(done, visits.total() - visits["gone"])
    return Report(
        job=stats.job,
        finished=result.over,
        end=end_of(result),
        pages=stats.done,
        pages_now=pages,
        seconds=round(result.seconds, 2),
        pages_per_second=round(pages / result.seconds, 1),
        revisits={how: number for how, number in visits.items() if how != "new" and number},
        dead=stats.dead,
        dead_reasons=result.dead_reasons,
        vanished=result.vanished,
        cached=stats.cached - before.cached,
        blocked=stats.blocked,
        capped=stats.capped,
        excluded=stats.excluded,
        kept_out={kind: n for kind, n in stats.kept_out.items() if kind != "file"},
        files=stats.kept_out.get("file", 0),
        downloads=result.downloads,
        downloaded_bytes=result.downloaded_bytes,
        archived=result.archived.get("archived", 0),
        archived_bytes=result.archived.get("archived_bytes", 0),
        unarchived=result.archived.get("unarchived", 0),
        held=result.held,
        unhandled=result.unhandled,
        shape_budget=result.shape_budget,
        refused=stats.refused,
        items=ItemCount(stats.stored - result.lost if written.rows is None else written.rows),
        updated=stats.updated - before.updated,
        rows=written.rows,
        rejected=stats.rejected,
        bad=result.bad,
        idle=result.idle,
        unmatched=result.unmatched,
        undeclared=stats.undeclared,
        pending=stats.remaining + stats.shelved,
        items_waiting=stats.items,
        out=written.out,
        store=written.store,
        also=list(also),
        exit_code=_exit_code(result, max_dead)
        or next((output.exit_code for output in (written, *also) if output.exit_code), 0)
        or _held_code(result),
    )


def _held_code(result: CrawlResult) -> int:
    return HELD if result.held or result.unhandled else 0


def _exit_code(result: CrawlResult, max_dead: int | None) -> int:
    """A crawl that fetched nothing has failed, whatever --max-dead allows. One that was asked to
    stop, for example by systemd, and did, has not."""
    if not result.over and result.interrupted:
        return INTERRUPTED
    if result.quality_failed or (result.stopped_for and not result.over):
        return 1
    if not result.over and result.max_time_s is None:
        return int(result.after.state is State.CANCELLED)
    bad = not result.after.done or _stored_nothing(result) or _is_mostly_dead(result, max_dead)
    return int(bad or bool(result.vanished) or (result.empty and result.on_empty == "fail"))


def _stored_nothing(result: CrawlResult) -> bool:
    """Whether all of its items were rejected."""
    stats = result.after
    return bool(stats.rejected) and not stats.stored + stats.items


def _is_mostly_dead(result: CrawlResult, max_dead: int | None) -> bool:
    """More dead than allowed; by default, more than half of all finished URLs."""
    return result.after.dead > (result.after.done if max_dead is None else max_dead)


def end_of(result: CrawlResult) -> str:
    stats = result.after
    if stats.state is State.CANCELLED:
        return f"cancelled; to continue, `skitter resume {stats.job}` and run it again"
    if result.quality_failed and stats.state is State.PAUSED:
        again = f"`skitter resume {stats.job}` and run it again"
        return f"paused, because the quality of the items dropped; to continue, {again}"
    if result.max_time_s is not None and stats.remaining:
        left = some(stats.remaining, "URL")
        return f"stopped at --max-time {duration(result.max_time_s)}; {left} left; {AGAIN}"
    return _end_of_finished(result) if result.over else _end_of_stopped(result)


def _end_of_stopped(result: CrawlResult) -> str:
    stats = result.after
    if result.stopped_for:
        again = f"`skitter dead retry {stats.job} --all` and run it again"
        return f"stopped: {result.stopped_for}. Correct the spider, then {again}"
    if stats.crawled:
        return f"stopped; every page is done, {waiting(stats.items)}: run it again to store them"
    return f"stopped; {AGAIN}"


def _end_of_finished(result: CrawlResult) -> str:
    stats = result.after
    if not stats.done:
        return f"no page was completed. {result.why_dead}".rstrip(". ")
    if _stored_nothing(result):
        return "finished, but no item was stored: all of them were rejected"
    if result.empty:
        return "finished, but no item was stored"
    if result.max_pages is not None and stats.done >= result.max_pages and stats.remaining:
        return f"stopped at max_pages={result.max_pages:,}; {some(stats.remaining, 'URL')} left"
    return f"finished{_but(result)}"


def _but(result: CrawlResult) -> str:
    if _is_mostly_dead(result, None):
        return ", but most URLs are dead"
    if result.quality_failed:
        return ", but the quality of the items dropped"
    stats = result.after
    if stats.shelved:
        return f", except {some(stats.shelved, 'URL')} beyond max_pages_per_host"
    if result.unhandled:
        waiting = some(sum(result.unhandled.values()), "URL")
        return f", except {waiting} for a handler that no worker has"
    held = sum(result.held.values())
    return f", except {some(held, 'URL')} that {'is' if held == 1 else 'are'} held" * bool(held)


def kept_out(kinds: dict[str, int]) -> str:
    """1,204 links: 1,100 out of scope, 104 by robots.txt."""
    parts = (f"{number:,} {KINDS.get(kind, kind)}" for kind, number in kinds.items())
    return f"{some(sum(kinds.values()), 'link')}: {', '.join(parts)}"


def excluded(kinds: dict[str, int], urls: int) -> str:
    """Links that were not followed, and URLs that waited and are not fetched; empty: none."""
    waited = f"{some(urls, 'URL')} that waited: by exclude or include" if urls else ""
    return "; ".join(filter(None, (kept_out(kinds) if kinds else "", waited)))


def kept_pages(pages: int, size_bytes: int, missed: int | None) -> str:
    """What the archive has of a crawl."""
    kept = f"{some(pages, 'page')} kept in {size_bytes / 1e6:,.1f} MB"
    return kept + (f"; {some(missed, 'page')} could not be kept" if missed else "")


def waiting(items: int) -> str:
    return f"{some(items, 'item')} {'waits' if items == 1 else 'wait'} to be stored"


def duration(seconds: float) -> str:
    """3 s, 4 min 10 s, 2 h 5 min, 3 d 4 h, 6 h."""
    whole = round(seconds)
    units = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    for (size, unit), (small, part) in pairwise(units):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"


def moment(at_s: float, form: str = f"{DATE_AND_TIME} UTC") -> str:
    try:
        return datetime.fromtimestamp(at_s, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):  # other clients of the server can write anything
        return "an unknown time"


def some(number: int, what: str, many: str = "") -> str:
    """1 page, 2 pages; 1 try, 2 tries."""
    return f"{number:,} {what if number == 1 else many or what + 's'}"
