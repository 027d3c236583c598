"""What a caller may say per call, checked twice: at the caller, where a mistake is told in a
sentence and nothing reaches the queue, and in the worker, which trusts no message."""

from __future__ import annotations

from collections.abc import Iterator, Set
from datetime import datetime
from typing import Any, Literal, Self

import msgspec

from skitter.celery.registry import LEASE_S, MAX_PUMPS, cached_spider
from skitter.celery.security import check_out
from skitter.errors import BadOption, UsageError
from skitter.settings import Politeness, check_job_name, check_number, check_priority
from skitter.urls import identify


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all our tasks understand."""

    spider: str = ""  # a file, file.py:name or package.module:name; empty: the default record
    browser: bool = False  # its pages need one: they have a queue of their own

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Raises UsageError, naming the option."""
        options = cls.read(given)
        options.check()
        return options

    @classmethod
    def read(cls, given: dict[str, Any]) -> Self:
        """The same, without a look at its values: nothing is loaded."""
        try:
            return msgspec.convert(given, cls)
        except msgspec.ValidationError as error:
            raise UsageError(f"an option of the task is wrong: {error}.") from None

    def check(self) -> None:
        """What a type cannot say."""
        cached_spider(self.spider)

    @property
    def place(self) -> str:
        """Where its items go."""
        return ""


class ScrapeOptions(Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One page."""

    priority: int = 0  # among all pages of the job; more is sooner
    headers: dict[str, str] = {}
    #: What becomes of a page that failed for good: an exception, or a record with `error`. Empty:
    #: a record in a chord, where one exception would throw away all other results.
    errors: Literal["", "raise", "record"] = ""

    def check(self) -> None:
        Options.check(self)
        check_priority(self.priority)


class Pace(Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a new job treats each host; None: as the spider says, or the app. And how soon the URLs
    of a process that was killed come back."""

    delay_s: float | None = None
    max_in_flight: int | None = None
    lease_s: float = LEASE_S

    def check(self) -> None:
        Options.check(self)
        self.over(Politeness())
        check_number("lease_s", self.lease_s, low=1, high=3600)

    def over(self, usual: Politeness) -> Politeness:
        """This, and the usual where this says nothing."""
        return Politeness(
            delay_s=usual.delay_s if self.delay_s is None else self.delay_s,
            max_in_flight=self.max_in_flight or usual.max_in_flight,
        )


class ManyOptions(Pace, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Many pages."""

    job: str = "pages"
    out: str = ""  # an output's name, or a file; empty: items wait for `skitter load`
    priority: int = 0

    @property
    def place(self) -> str:
        return self.out

    def check(self) -> None:
        Pace.check(self)
        check_out(self.out)
        check_job_name(self.job)
        check_priority(self.priority)


class MapOptions(Pace, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Many pages, and a reducer."""

    pumps: int | None = None  # None: as many as the work is worth

    def check(self) -> None:
        Pace.check(self)
        check_pumps(self.pumps)


class CrawlOptions(Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole crawl."""

    job: str = ""  # empty: the spider's name
    out: str = ""
    pumps: int | None = None
    obey_robots: bool = True
    lease_s: float = LEASE_S

    @property
    def place(self) -> str:
        return self.out

    def check(self) -> None:
        Options.check(self)
        check_out(self.out)
        check_pumps(self.pumps)
        check_number("lease_s", self.lease_s, low=1, high=3600)
        if self.job:
            check_job_name(self.job)


def check_pumps(pumps: int | None) -> None:
    if pumps is not None:
        check_number("pumps", pumps, low=1, high=MAX_PUMPS, whole=True)


def check_pages(urls: Any) -> None:
    """Raises BadURL for the first that is none."""
    if not isinstance(urls, list | tuple):
        raise BadOption("urls", urls, "a list of URLs")
    for url in urls:
        if not isinstance(url, str):
            raise BadOption("url", url, "text")
        identify(url)


def check_times(options: dict[str, Any]) -> None:
    """Celery's own options: it would say something about `timedelta`, or `isoformat`."""
    countdown, eta = options.get("countdown"), options.get("eta")
    if not isinstance(countdown, int | float | None):
        raise BadOption("countdown", countdown, "a number of seconds")
    if not isinstance(eta, datetime | None):
        raise BadOption("eta", eta, "a datetime")


def listed(urls: Any) -> Any:
    """A generator or a set as a list; whatever else as it came."""
    return list(urls) if isinstance(urls, Iterator | Set) else urls
