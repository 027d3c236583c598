"""The options of a job.

`JobOptions` may change while it runs: every worker obeys the new value at its next lease. `Layout`
decides what a fingerprint is and where it is stored, so it is fixed when the job is created.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from skitter.domains import registrable_domain
from skitter.errors import BadJobName, BadOption
from skitter.patterns import compile_patterns, first_match
from skitter.settings.option import Option, Table, check_number, option, options_of
from skitter.settings.widening import HOSTS, Widening, widening
from skitter.urls import Canonical, shard_of

if TYPE_CHECKING:
    from skitter.model import Request

MAX_PRIORITY = 1000
#: The server needs half a second for this many items from one page.
MAX_PER_PAGE = 100_000

#: How this release stores jobs. Raise it when an earlier release could not work on the jobs of this
#: one without harm; earlier ones then refuse them. See docs/howto/upgrade.md.
FORMAT = 1

_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def _limit(help: str, *, low: int = 1, **facts: str) -> Any:
    return option(None, help, low=low, high=2**40, **facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Politeness(Table):
    """How gently each host is treated, by all workers together."""

    delay_s: float = option(
        1.0,
        "Seconds between requests to one host.",
        low=0,
        high=86_400,
        flag="--delay",
        host="delay_s",
    )
    max_in_flight: int = option(
        1,
        "Concurrent requests to one host.",
        low=1,
        high=100_000,
        flag="--in-flight",
        host="max_in_flight",
    )
    latency_factor: float = option(
        2.0,
        "Make the delay at least this many times as long as the host takes to answer; 0 turns "
        "that off. A delay of 0 stays 0.",
        low=0,
        high=1000,
    )
    max_delay_s: float = option(
        300.0,
        "Longest delay that slow or refused answers can lead to.",
        low=0,
        high=86_400,
    )
    per: Literal["host", "domain", "address"] = option(
        "host",
        "What the delay applies to: each host, all hosts of a registrable domain, or all hosts at "
        "one address. Whether it is `domain` is fixed when the job is created.",
        in_lua=False,
    )
    shared: bool = option(
        False, "Share the delay with other jobs on the same server.", in_lua=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries(Table):
    """What happens to a URL that fails, and to one whose worker vanishes."""

    max_retries: int = option(3, "Retries after the first attempt.", low=0, high=1000)
    max_losses: int = option(
        3, "Give up a URL after this many workers died with it.", low=1, high=1000
    )
    base_s: float = option(
        2.0,
        "Longest delay before the first retry, in seconds.",
        low=0,
        high=86_400,
        flag="--retry-base",
        field="retry_base_ms",
        in_lua=False,
    )
    cap_s: float = option(
        300.0,
        "Longest delay before any retry, in seconds.",
        low=0,
        high=30 * 86_400,
        flag="--retry-cap",
        field="retry_cap_ms",
        in_lua=False,
    )

    def backoff_s(self, attempt: int, *, chance: float) -> float:
        """Full jitter: anywhere from nothing to the exponential step, never above the cap."""
        return min(self.cap_s, self.base_s * 2.0 ** min(attempt, 60)) * chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Table):
    """When the crawl ends, and how much may wait.

    `max_pages` is exact across all workers and shards; setting or lowering it later does not affect
    pages that are done or in flight. In a job with several shards, each gets an even share of
    `max_pending`, `max_items` and `max_pages_per_day`, so one may be full while others have room. A
    page's items and links beyond `max_items_per_page` and `max_links_per_page` are dropped and
    counted: these two always apply, because a page is completed in one step that blocks the server.
    """

    max_pages: int | None = _limit("Maximum pages in total.", flag="--max-pages")
    max_pages_per_day: int | None = _limit(
        "Maximum pages per day, from 00:00 UTC; then the crawl waits for the next day.",
        flag="--max-pages-per-day",
    )
    max_money: float | None = option(
        None,
        "Money that the crawl may spend on proxies; then it is paused.",
        low=0,
        high=1e9,
        flag="--max-money",
        in_lua=False,
    )
    max_pages_per_host: int | None = _limit("Maximum pages per host.", host="max_pages")
    max_depth: int | None = _limit(
        "Maximum number of links from a start URL.", low=0, flag="--max-depth --depth"
    )
    max_pending: int | None = _limit("Maximum URLs in the queue.")
    shape_budget: int | None = option(
        1000,
        "Pages of one URL shape to fetch in their turn; more, up to 10 times as many, come last.",
        low=1,
        high=2**40,
    )
    max_items: int | None = _limit(
        "Maximum items waiting for a loader; beyond it, no URL is handed out. `run` sets 50,000."
    )
    exclude: str | None = option(
        None,
        "Fetch no URL that matches one of these space-separated patterns.",
        in_lua=False,
        repeats=True,
        takes="patterns such as /private/* or re:[?]sort=",
    )
    include: str | None = option(
        None,
        "Follow only links that match one of these space-separated patterns. Start URLs, and those "
        "that are pushed, need not match.",
        in_lua=False,
        repeats=True,
        takes="patterns such as /docs/* or re:/20[0-9]{2}/",
    )
    also_hosts: str | None = option(
        None,
        "Also follow links to these hosts, beyond the spider's scope.",
        in_lua=False,
        repeats=True,
        takes=HOSTS,
    )
    also_include: str | None = option(
        None,
        "Also follow links that match one of these patterns, on hosts in scope, if only the "
        "spider's own patterns refuse them.",
        in_lua=False,
        repeats=True,
        takes="patterns such as /archive/* or re:/20[0-9]{2}/",
    )
    max_items_per_page: int = option(
        10_000,
        "Maximum items from one page; further ones are dropped and counted.",
        low=1,
        high=MAX_PER_PAGE,
        in_lua=False,
    )
    max_links_per_page: int = option(
        5_000,
        "Maximum new links from one page; further ones are dropped and counted.",
        low=1,
        high=MAX_PER_PAGE,
        in_lua=False,
    )

    def __post_init__(self) -> None:
        Table.__post_init__(self)  # super() does not work in a dataclass with slots
        for name in ("exclude", "include"):
            compile_patterns(getattr(self, name) or "", option=name)
        widening(self.also_hosts, self.also_include)

    def excludes(self, url: str, *, is_link: bool = True) -> str | None:
        """Why a URL is not to be fetched, if it is not. What is no link need not match include."""
        if self.exclude and (pattern := first_match(self.exclude, url)):
            return f"it matches {pattern!r} of the option exclude"
        if self.include and is_link and not first_match(self.include, url):
            return "it matches no pattern of the option include"
        return None

    @property
    def patterns(self) -> str:
        """All that `excludes` depends on."""
        return f"{self.exclude or ''}\n{self.include or ''}"

    def excludes_request(self, request: Request) -> str | None:
        """The same for a request that waits: what has no depth was not found by following."""
        return self.excludes(request.url, is_link=request.depth > 0)

    @property
    def widening(self) -> Widening | None:
        """What is added to the spider's scope."""
        return widening(self.also_hosts, self.also_include)


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety(Table):
    """How safe URLs and results must be before workers consider them stored."""

    durability: Literal["primary", "replicated"] = option(
        "primary",
        "When URLs and results are considered stored: when the primary has them, or when a replica "
        "has them too.",
        flag="--durability",
        in_lua=False,
    )

    @property
    def replicated(self) -> bool:
        return self.durability == "replicated"


DAY_S = 86_400.0


def _interval(default: float, help: str) -> Any:
    return option(default, help, low=1, high=3650 * DAY_S, in_lua=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits(Table):
    """Whether and when pages are revisited: the more often they change, the sooner."""

    revisit: bool = option(
        False,
        "Visit pages again; handlers run on those that have changed.",
        flag="--revisit/--no-revisit",
    )
    revisit_prune: bool = option(
        False,
        "After a revisit, remove rows that the page no longer yields. Only in databases.",
        flag="--revisit-prune/--no-revisit-prune",
        in_lua=False,
    )
    revisit_gone: int = option(
        2,
        "A page is gone, and a dead letter, when so many visits in a row were answered 404 or 410.",
        low=1,
        high=100,
        in_lua=False,
    )
    changes_ignore: str | None = option(
        None,
        "Fields whose changes `skitter changes` does not show, separated by spaces.",
        flag="--changes-ignore",
        in_lua=False,
    )
    changes_smallest: float = option(
        0.0,
        "Smallest change to show: a share of a number, or of the words of a text. 0: any.",
        low=0,
        high=1,
        in_lua=False,
    )
    revisit_after_s: float = _interval(DAY_S, "Seconds until a page is visited a second time.")
    revisit_min_s: float = _interval(3600.0, "Shortest time between visits, in seconds.")
    revisit_max_s: float = _interval(14 * DAY_S, "Longest time between visits, in seconds.")

    def __post_init__(self) -> None:
        Table.__post_init__(self)
        if self.revisit_min_s > self.revisit_max_s:
            raise BadOption("revisit_min_s", self.revisit_min_s, "at most revisit_max_s")

    def interval_s(self, last_s: float | None, *, changed: bool) -> float:
        """To the next visit; `last_s`: the last interval. As StormCrawler's AdaptiveScheduler."""
        if last_s is None:
            wanted = self.revisit_after_s
        elif changed:
            wanted = 0.5 * last_s + 0.5 * self.revisit_min_s
        else:
            wanted = 1.5 * last_s
        return min(self.revisit_max_s, max(self.revisit_min_s, wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bloom:
    """Opt-in, lossy dedup: about one new URL in 1/error_rate is mistaken for a known one and
    skipped. That holds up to the capacity, which applies to each shard; `status`, `doctor` and
    `audit` warn when it is exceeded."""

    capacity: int  # URLs per shard up to which the error rate holds
    error_rate: float = 1e-4  # the share of new URLs that are taken for known ones

    BLOCK_BITS = 2**19  # 64 KiB per key: no single huge allocation, no key that blocks the server

    def __post_init__(self) -> None:
        check_number("capacity", self.capacity, low=1, high=10**11, whole=True)
        # Below 1e-6, 64-bit hashes collide.
        check_number("error_rate", self.error_rate, low=1e-6, high=0.5)

    @property
    def hashes(self) -> int:
        """How many bits a URL sets."""
        return max(1, round(-math.log2(self.error_rate)))

    @property
    def blocks(self) -> int:
        """How many keys of 64 KiB the filter has."""
        bits = -self.capacity * math.log(self.error_rate) / math.log(2) ** 2
        return max(1, math.ceil(bits / self.BLOCK_BITS))

    def errors_at(self, urls: int) -> float:
        """The share of new URLs that it skips once it has seen this many."""
        filled = -math.expm1(-self.hashes * urls / (self.blocks * self.BLOCK_BITS))
        return float(filled**self.hashes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Fixed when the job is created: what counts as the same page, and where it is remembered."""

    shards: int = 1  # parts of the queue, which may be on several servers of a cluster
    bloom: Bloom | None = None  # None: remember every URL exactly
    canonical: Canonical = field(default_factory=Canonical)  # which URLs are the same page
    order: Literal["fifo", "lifo"] = "fifo"  # within a host and priority
    by_domain: bool = False  # hosts of one registrable domain count as one: `politeness.per`
    #: Those hosts share a shard, and their cookies. False for jobs of older releases.
    domains_together: bool = False
    #: How Scrapy nodes tell pages apart (identities.py). Empty: by URL, as our own workers do.
    fingerprinter: str = ""
    format: int = 1  # how it is stored; jobs of releases before 0.2 do not say so
    release: str = ""  # of Skitter, which created it

    def __post_init__(self) -> None:
        check_number("shards", self.shards, low=1, high=1024, whole=True)
        if self.order not in ("fifo", "lifo"):
            raise BadOption("order", self.order, "fifo or lifo")

    def shard_of(self, host: str) -> int:
        """The number of the shard that has the URLs of a host."""
        if self.shards == 1:
            return 0
        return shard_of(registrable_domain(host) if self.domains_together else host, self.shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Everything that may change while the job runs."""

    politeness: Politeness = field(default_factory=Politeness)  # how gently each host is treated
    retries: Retries = field(default_factory=Retries)  # how failed pages are retried
    limits: Limits = field(default_factory=Limits)  # when the crawl ends, and how much may wait
    visits: Visits = field(default_factory=Visits)  # whether and when pages are visited again
    safety: Safety = field(default_factory=Safety)  # durability


#: Every option that may change while a job runs: the ones stored on the server.
JOB_OPTIONS: tuple[Option, ...] = (
    *options_of(Politeness, "politeness"),
    *options_of(Retries, "retries"),
    *options_of(Limits, "limits"),
    *options_of(Visits, "visits"),
    *options_of(Safety, "safety"),
)


def check_job_name(name: str) -> str:
    """Return the name, or raise BadJobName: it becomes part of every key, inside a hash tag."""
    if not isinstance(name, str) or not _JOB_NAME.fullmatch(name):
        raise BadJobName(str(name))
    return name


def check_priority(priority: int) -> int:
    """Priorities share a 53-bit score with the order of arrival, so their range is limited."""
    check_number("priority", priority, low=-MAX_PRIORITY, high=MAX_PRIORITY, whole=True)
    return priority
