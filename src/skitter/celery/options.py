"""What a caller may set per call. Checked twice: at the caller, where a mistake raises before
anything is sent, and in the worker, which trusts no message."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from skitter.celery.registry import LEASE_S, MAX_PUMPS, cached_spider
from skitter.celery.security import check_out
from skitter.errors import BadOption, UsageError
from skitter.settings import Politeness, check_job_name, check_number, check_priority
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import Callable

#: By name, beyond what its type says. None is never checked.
CHECKS: dict[str, Callable[[Any], object]] = {
    "spider": cached_spider,
    "priority": check_priority,
    "job": check_job_name,
    "out": check_out,
    "delay_s": lambda value: Politeness(delay_s=value),
    "max_in_flight": lambda value: Politeness(max_in_flight=value),
    "lease_s": lambda value: check_number("lease_s", value, low=1, high=3600),
    "pumps": lambda value: check_number("pumps", value, low=1, high=MAX_PUMPS, whole=True),
}


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of all our tasks."""

    spider: str = ""  # a file, file.py:name or package.module:name; empty: the default record
    browser: bool = False  # pages that need a browser have a queue of their own

    @classmethod
    def read(cls, given: dict[str, Any]) -> Self:
        """Raises UsageError, naming the option. Loads nothing."""
        try:
            return msgspec.convert(given, cls)
        except msgspec.ValidationError as error:
            raise UsageError(f"an option of the task is wrong: {error}.") from None

    def check(self) -> None:
        """Raises UsageError. Loads the spider."""
        for name, check in CHECKS.items():
            value = getattr(self, name, None)
            if value is not None:
                check(value)


class ScrapeOptions(Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one page."""

    priority: int = 0  # among all pages of the job; higher is sooner
    headers: dict[str, str] = {}
    #: What a page that failed for good becomes: an exception, or a record with `error`. Empty: a
    #: record in a chord, where one exception would discard all other results.
    errors: Literal["", "raise", "record"] = ""


class PageOptions(Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of many pages."""

    delay_s: float | None = None  # None: as the spider says, or the app
    max_in_flight: int | None = None
    lease_s: float = LEASE_S

    def politeness(self, usual: Politeness) -> Politeness:
        return Politeness(
            delay_s=usual.delay_s if self.delay_s is None else self.delay_s,
            max_in_flight=self.max_in_flight or usual.max_in_flight,
        )


class ManyOptions(PageOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of scrape_many."""

    job: str = "pages"
    out: str = ""  # an output's name, or a file; empty: items wait for `skitter load`
    priority: int = 0


class MapOptions(PageOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of map_reduce."""

    pumps: int | None = None  # None: as many as the work needs


class CrawlOptions(Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a whole crawl."""

    job: str | None = None  # None: the spider's name
    out: str = ""
    pumps: int | None = None
    obey_robots: bool = True
    lease_s: float = LEASE_S


def check_urls(urls: Any) -> None:
    """Raises BadURL for the first that is not one."""
    if not isinstance(urls, list | tuple):
        raise BadOption("urls", urls, "a list of URLs")
    for url in urls:
        if not isinstance(url, str):
            raise BadOption("url", url, "text")
        identify(url)


def check_times(options: dict[str, Any]) -> None:
    """Celery's own options: its errors would be about `timedelta` or `isoformat`."""
    countdown, eta = options.get("countdown"), options.get("eta")
    if not isinstance(countdown, int | float | None):
        raise BadOption("countdown", countdown, "a number of seconds")
    if not isinstance(eta, datetime | None):
        raise BadOption("eta", eta, "a datetime")
