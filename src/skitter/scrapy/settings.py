"""A node's options, read once from Scrapy's settings.

Settings may be text from a command line; errors name the setting.
"""

from __future__ import annotations

import codecs
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from skitter.errors import BadOption, UsageError
from skitter.scrapy.compatibility import check_settings, warn_of_leftovers
from skitter.scrapy.connection import server_settings
from skitter.settings import JobOptions, Layout, Politeness, Settings, check_job_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy import Spider
    from scrapy.settings import BaseSettings


class Unusable(UsageError, ValueError):
    """A setting or an attribute that makes no sense: a ValueError, as in scrapy-redis."""


class BadValue(BadOption, Unusable):
    """The same for a value outside its range."""


def number(name: str, value: Any, *, low: float, high: float) -> float:
    """Raises BadOption, naming the setting."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not low <= found <= high:
        raise BadValue(name, value, f"a number from {low:,} to {high:,}")
    return found


def whole(name: str, value: Any, *, low: int, high: int) -> int:
    """Raises BadOption, naming the setting."""
    found = number(name, value, low=low, high=high)
    if not found.is_integer():
        raise BadValue(name, value, f"a whole number from {low:,} to {high:,}")
    return int(found)


def whole_setting(settings: BaseSettings, name: str) -> int:
    """0 if it is not set. Raises BadOption, naming it."""
    return whole(name, settings.get(name) or 0, low=0, high=10**7)


def fill(name: str, template: str, /, **values: str) -> str:
    """A key with its %(...)s filled in. Raises UsageError, naming the setting."""
    try:
        return template % values
    except (KeyError, TypeError, ValueError):
        known = " and ".join(f"%({value})s" for value in values)
        raise Unusable(
            f"{name} = {template!r} cannot be filled in: it may contain {known}, and "
            "%% for a literal %."
        ) from None


def encoding(name: str, value: Any) -> str:
    """Raises UsageError, naming the setting."""
    try:
        codecs.lookup(str(value))
    except LookupError:
        raise Unusable(
            f"{name} = {value!r} is not an encoding that Python knows: use utf-8, for example."
        ) from None
    return str(value)


Order = Literal["priority", "fifo", "lifo"]
#: By scrapy-redis's names and ours.
QUEUES: dict[str, Order] = {
    "PriorityQueue": "priority",
    "SpiderPriorityQueue": "priority",
    "FifoQueue": "fifo",
    "SpiderQueue": "fifo",
    "LifoQueue": "lifo",
    "SpiderStack": "lifo",
}
_QUEUE_PLACES = ("scrapy_redis.queue", "skitter.scrapy", "skitter.scrapy.queue")
DEFAULT_LEASE_S = 60.0
DEFAULT_STUCK_S = 600.0
DEFAULT_BLOCKED_REST_S = 60.0
DEFAULT_START_S = 60.0
DAY_S, MAX_IN_FLIGHT = 86_400, 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """The options of one node."""

    job: str
    server: Settings
    order: Order
    politeness: Politeness
    slots: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    concurrency: int = 16
    lease_s: float = DEFAULT_LEASE_S
    persist: bool = False
    flush_on_start: bool = False
    stuck_s: float = DEFAULT_STUCK_S  # end the process if its engine hangs this long; 0: never
    blocked_rest_s: float = DEFAULT_BLOCKED_REST_S  # pause for a host that shows a block page
    start_s: float = DEFAULT_START_S  # how long a node that starts waits for its server
    fingerprinter: str = ""  # identities.py; empty: nothing is filtered
    limits_per: str = "job"  # or "node": Scrapy's downloaders keep them, each for itself
    archive: str = ""  # the folder of kept pages; empty: none is kept
    archive_store: str = ""  # the object store that it is copied to
    spider: str = ""  # its name
    run: int = 0  # its number, if whoever started the nodes knows it
    linger_s: float = 0.0  # how long the queue must stay empty before the crawl ends

    @property
    def layout(self) -> Layout:
        return Layout(order="lifo" if self.order == "lifo" else "fifo")

    @property
    def job_options(self) -> JobOptions:
        return JobOptions(politeness=self.politeness)

    def max_in_flight(self, slot: str) -> int:
        """How many requests of a download slot may be in flight."""
        found: int = self.slots.get(slot, {}).get("max_in_flight", self.politeness.max_in_flight)
        return found

    def delay_s(self, slot: str) -> float:
        """The delay that the frontier enforces between two requests of a download slot."""
        found: float = self.slots.get(slot, {}).get("delay_s", self.politeness.delay_s)
        return found

    @property
    def prefetch(self) -> int:
        """Leases beyond what the downloader takes at once. None with delays: a request held back
        past its turn would be fetched too close to the next."""
        waits = self.politeness.delay_s > 0 or any(
            slot.get("delay_s") for slot in self.slots.values()
        )
        return 0 if waits else self.concurrency


def read_options(settings: BaseSettings, spider: Spider) -> NodeOptions:
    """Raises UsageError for a setting that cannot be honoured, saying what to use instead."""
    check_settings(settings, spider.name)
    warn_of_leftovers(settings, spider)
    politeness, slots = _politeness(settings, spider), _slots(settings)
    if (per := settings.get("SKITTER_LIMITS_PER") or "job") == "node":
        politeness, slots = Politeness(delay_s=0, max_in_flight=MAX_IN_FLIGHT), {}
    elif per != "job":
        raise BadValue("SKITTER_LIMITS_PER", per, "job or node")
    store = str(settings.get("SKITTER_ARCHIVE_STORE") or "")
    return NodeOptions(
        job=job_name(settings, spider.name),
        spider=spider.name,
        server=server_settings(settings),
        order=queue_order(settings.get("SCHEDULER_QUEUE_CLASS") or "PriorityQueue"),
        politeness=politeness,
        slots=slots,
        limits_per=per,
        concurrency=whole_setting(settings, "CONCURRENT_REQUESTS") or 1000,  # 0: no limit
        lease_s=_seconds(settings, "SKITTER_LEASE_S", DEFAULT_LEASE_S, low=0.1),
        stuck_s=_seconds(settings, "SKITTER_STUCK_S", DEFAULT_STUCK_S),
        blocked_rest_s=_seconds(settings, "SKITTER_BLOCKED_REST_S", DEFAULT_BLOCKED_REST_S),
        start_s=_seconds(settings, "SKITTER_START_S", DEFAULT_START_S),
        archive=str(settings.get("SKITTER_ARCHIVE") or ("archive" if store else "")),
        archive_store=store,
        persist=settings.getbool("SCHEDULER_PERSIST"),
        flush_on_start=settings.getbool("SCHEDULER_FLUSH_ON_START"),
        run=whole_setting(settings, "SKITTER_RUN"),
        linger_s=number(
            "SCHEDULER_IDLE_BEFORE_CLOSE",
            settings.get("SCHEDULER_IDLE_BEFORE_CLOSE") or 0,
            low=0,
            high=DAY_S,
        ),
    )


def _seconds(settings: BaseSettings, name: str, default: float, *, low: float = 0) -> float:
    return number(name, settings.get(name, default), low=low, high=DAY_S)


def job_name(settings: BaseSettings, spider: str) -> str:
    """SKITTER_JOB, or the queue's key without its `:requests` suffix."""
    if named := settings.get("SKITTER_JOB"):
        return check_job_name(fill("SKITTER_JOB", str(named), spider=spider))
    template = str(settings.get("SCHEDULER_QUEUE_KEY") or "%(spider)s:requests")
    key = fill("SCHEDULER_QUEUE_KEY", template, spider=spider)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", key.removesuffix(":requests")).strip("-")
    return check_job_name(name)


def queue_order(named: object) -> Order:
    """The order that a queue class, or its dotted name, stands for."""
    if isinstance(named, type):
        named = f"{named.__module__}.{named.__qualname__}"
    place, _, name = str(named).rpartition(".")
    if name not in QUEUES or (place and place not in _QUEUE_PLACES):
        raise UsageError(
            f"SCHEDULER_QUEUE_CLASS = {named!r} is not one of ours: use "
            "'skitter.scrapy.PriorityQueue', 'skitter.scrapy.FifoQueue' or "
            "'skitter.scrapy.LifoQueue'."
        )
    return QUEUES[name]


def _politeness(settings: BaseSettings, spider: Spider) -> Politeness:
    """Attributes of the spider win, as in Scrapy's downloader."""
    delay: tuple[str, Any] = ("download_delay", getattr(spider, "download_delay", None))
    if delay[1] is None:
        delay = ("DOWNLOAD_DELAY", settings.get("DOWNLOAD_DELAY") or 0)
    limit: tuple[str, Any] = (
        "max_concurrent_requests",
        getattr(spider, "max_concurrent_requests", None),
    )
    if not limit[1]:
        name = "CONCURRENT_REQUESTS_PER_DOMAIN"
        limit = (name, whole_setting(settings, name) or MAX_IN_FLIGHT)
    return Politeness(
        delay_s=number(*delay, low=0, high=DAY_S),
        max_in_flight=whole(*limit, low=1, high=MAX_IN_FLIGHT),
    )


def _slots(settings: BaseSettings) -> dict[str, dict[str, Any]]:
    """DOWNLOAD_SLOTS as options of the frontier."""
    slots = {}
    for name, own in settings.getdict("DOWNLOAD_SLOTS").items():
        place = f"DOWNLOAD_SLOTS[{name!r}]"
        values: dict[str, Any] = {}
        if "delay" in own:
            values["delay_s"] = number(f"{place}['delay']", own["delay"], low=0, high=DAY_S)
        if "concurrency" in own:
            option, limit = f"{place}['concurrency']", own["concurrency"]
            values["max_in_flight"] = whole(option, limit, low=1, high=MAX_IN_FLIGHT)
        slots[name] = values
    return slots
