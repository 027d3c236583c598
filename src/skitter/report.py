"""How a crawl went: the report at its end, and the exit code. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

import msgspec

from skitter.model import State, Stats

INTERRUPTED = 130
TIME = "%H:%M:%S"
DATE_AND_TIME = f"%Y-%m-%d {TIME}"

#: Why links are not followed, as shown to users.
KINDS = {
    "scope": "out of scope",
    "robots": "by robots.txt",
    "depth": "too deep",
    "nofollow": "nofollow",
    "noindex": "noindex",
    "canonical": "copies of another page",
    "usage": "with reserved usage",
    "length": "with an overlong URL",
    "middleware": "by a Scrapy middleware",
}


class CrawlResult(msgspec.Struct, frozen=True):
    """How a crawl went: its counts before and after."""

    before: Stats
    after: Stats
    seconds: float
    over: bool  # it ended on its own, or there was nothing left to do
    interrupted: bool = False  # by Ctrl-C
    max_pages: int | None = None
    lost: int = 0  # items that were in a deleted file
    why_dead: str = ""  # if the crawl fetched nothing: what became of its first URL
    dead_reasons: dict[str, int] = msgspec.field(default_factory=dict)
    bad: list[str] = msgspec.field(default_factory=list)  # how the scraped items got worse
    on_bad: str = "warn"

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
            gone=after.gone - before.gone,
        )


class Written(msgspec.Struct, frozen=True):
    """The output at the end of a crawl."""

    out: str  # where the items are
    rows: int | None = None  # in the file; None: not written now
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a crawl went: what `run --json` prints, and `spider.run()` returns."""

    job: str
    finished: bool
    end: str  # why it ended, as shown to users
    pages: int
    pages_now: int  # in this run
    seconds: float
    pages_per_second: float
    revisits: dict[str, int]  # in this run, by result: changed, unchanged, gone
    dead: int
    dead_reasons: dict[str, int]  # by kind, most frequent first
    blocked: int
    capped: int  # pages with more items or links than the limit
    kept_out: dict[str, int]  # links not followed, by kind: robots, scope, ...
    refused: int  # times a link was beyond max_depth, or found while the job was draining
    items: int  # stored
    rows: int | None  # of a file written at the end; None: another kind of output
    rejected: int  # items that could not be stored
    bad: list[str]  # how the scraped items got worse
    undeclared: int  # values of fields that the item type lacks
    pending: int
    items_waiting: int
    out: str
    exit_code: int


def report_of(result: CrawlResult, written: Written, *, max_dead: int | None = None) -> Report:
    stats = result.after
    visits = result.visits
    # A revisited page was already done, and does not count again.
    pages = max(stats.done - result.before.done, visits.total() - visits["gone"])
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
        blocked=stats.blocked,
        capped=stats.capped,
        kept_out=stats.kept_out,
        refused=stats.refused,
        items=stats.stored - result.lost,
        rows=written.rows,
        rejected=stats.rejected,
        bad=result.bad,
        undeclared=stats.undeclared,
        pending=stats.remaining + stats.shelved,
        items_waiting=stats.items,
        out=written.out,
        exit_code=_exit_code(result, max_dead) or written.exit_code,
    )


def _exit_code(result: CrawlResult, max_dead: int | None) -> int:
    """A crawl that fetched nothing has failed, whatever --max-dead allows. One that was asked to
    stop, for example by systemd, and did, has not."""
    if not result.over and result.interrupted:
        return INTERRUPTED
    if result.quality_failed:
        return 1
    if not result.over:
        return int(result.after.state is State.CANCELLED)
    bad = not result.after.done or _stored_nothing(result) or _is_mostly_dead(result, max_dead)
    return int(bad)


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
    if not result.over and stats.crawled:
        return f"stopped; every page is done, {waiting(stats.items)}: run it again to store them"
    if not result.over:
        return "stopped; run it again to continue"
    if not stats.done:
        return f"no page was completed. {result.why_dead}".rstrip(". ")
    if _stored_nothing(result):
        return "finished, but no item was stored: all of them were rejected"
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
    trapped = some(stats.trapped, "URL that looks", "URLs that look")
    return f", except {trapped} like a trap" if stats.trapped else ""


def kept_out(kinds: dict[str, int]) -> str:
    """1,204 links: 1,100 out of scope, 104 by robots.txt."""
    parts = (f"{number:,} {KINDS.get(kind, kind)}" for kind, number in kinds.items())
    return f"{some(sum(kinds.values()), 'link')}: {', '.join(parts)}"


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
