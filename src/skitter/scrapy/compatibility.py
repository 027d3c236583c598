"""What Skitter does with each setting and method of scrapy-redis: docs/reference/scrapy.md.

Nothing is ignored silently: a setting is honoured, not needed (as the table says), or refused with
a hint at what to use instead.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from skitter.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy import Spider
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)
DUPEFILTERS = (
    "skitter.scrapy.RFPDupeFilter",
    "skitter.scrapy.dupefilter.RFPDupeFilter",
    "scrapy_redis.dupefilter.RFPDupeFilter",
    "scrapy.dupefilters.RFPDupeFilter",
    "scrapy.dupefilters.BaseDupeFilter",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One setting. `refuse(value, spider)` returns why a value is refused, or an empty string."""

    name: str
    becomes: str
    refuse: Callable[[Any, str], str] = lambda value, spider: ""


def _never(instead: str) -> Callable[[Any, str], str]:
    return lambda value, spider: instead


def _dupefilter_key(value: Any, spider: str) -> str:
    plain = str(value) % {"spider": spider}
    return (
        "" if plain.endswith(":dupefilter") else "queue and dupefilter are one job: use SKITTER_JOB"
    )


def _true(instead: str) -> Callable[[Any, str], str]:
    return lambda value, spider: (
        instead if value and str(value).lower() not in ("0", "false") else ""
    )


SETTINGS = (
    Row(
        "REDIS_URL",
        "honoured, also redis+sentinel:// and redis+cluster://, with TLS rediss+...; wins over "
        "REDIS_HOST and REDIS_PORT. What it does not say (login, database, TLS) is read from the "
        "settings below",
    ),
    Row("REDIS_HOST", "honoured"),
    Row("REDIS_PORT", "honoured"),
    Row("REDIS_DB", "honoured, including 0; refused with a cluster unless it is 0"),
    Row("REDIS_PASSWORD", "honoured"),
    Row(
        "REDIS_PARAMS",
        "honoured: host, port, db, username, password, unix_socket_path, ssl, and the ssl_ options "
        "that a URL can have. Time-outs and retries are Skitter's own. Others, such as redis_cls, "
        "are refused: use REDIS_URL",
    ),
    Row("REDIS_ENCODING", "honoured, for messages of the feed"),
    Row(
        "REDIS_DECODE_RESPONSES",
        "refused if true: requests are bytes",
        _true("replies are decoded where they are text: leave it out"),
    ),
    Row(
        "SCHEDULER_PERSIST",
        "honoured. False: the last node removes the job once the crawl has finished, never sooner",
    ),
    Row("SCHEDULER_FLUSH_ON_START", "honoured, unless other nodes are at work on the job"),
    Row(
        "SCHEDULER_QUEUE_CLASS",
        "honoured: PriorityQueue, FifoQueue, LifoQueue, under scrapy_redis.queue too. Order holds "
        "within a download slot; slots take turns",
    ),
    Row(
        "SCHEDULER_QUEUE_KEY",
        "honoured: names the job. Without it the job has the name of the spider",
    ),
    Row(
        "SCHEDULER_DUPEFILTER_KEY",
        "refused if it does not end in :dupefilter: queue and dupefilter are one job (SKITTER_JOB)",
        _dupefilter_key,
    ),
    Row(
        "SCHEDULER_DUPEFILTER_CLASS",
        "refused: scrapy-redis never read it; use DUPEFILTER_CLASS",
        _never("scrapy-redis never read it: use DUPEFILTER_CLASS"),
    ),
    Row(
        "SCHEDULER_IDLE_BEFORE_CLOSE",
        "honoured, for every kind of queue and without blocking: seconds an empty queue is watched",
    ),
    Row(
        "SCHEDULER_SERIALIZER",
        "refused: requests travel as msgpack, callbacks by name. Pass plain values in meta",
        _never("requests travel as msgpack, callbacks by name: leave it out, pass plain values"),
    ),
    Row(
        "DUPEFILTER_CLASS",
        "honoured: ours, scrapy-redis's and Scrapy's own mean the frontier's; a subclass of ours "
        "may override request_fingerprint, log, open and close; BaseDupeFilter filters nothing. "
        "Others are refused: use REQUEST_FINGERPRINTER_CLASS",
    ),
    Row("DUPEFILTER_DEBUG", "honoured"),
    Row("REDIS_START_URLS_KEY", "honoured"),
    Row("REDIS_START_URLS_AS_SET", "honoured; the key's own type decides"),
    Row("REDIS_START_URLS_AS_ZSET", "honoured; the key's own type decides. Scores are priorities"),
    Row(
        "REDIS_START_URLS_BATCH_SIZE",
        "honoured: fewer than twice as many messages wait in the queue per node, the others in "
        "their key. redis_batch_size takes precedence",
    ),
    Row("REDIS_KEY_CHECK_INTERVAL", "not needed: every read begins with the first key"),
    Row(
        "MAX_IDLE_TIME_BEFORE_CLOSE",
        "honoured: seconds without activity in the whole cluster",
    ),
    Row("REDIS_ITEMS_KEY", "honoured"),
    Row("REDIS_ITEMS_SERIALIZER", "honoured"),
    Row("STATS_KEY", "honoured by skitter.scrapy.RedisStatsCollector"),
)


#: Settings of our own: default and meaning.
OURS = {
    "SKITTER_JOB": ("the spider's name", "the name of the job"),
    "SKITTER_LEASE_S": ("60", "seconds until the requests of a dead node return to the queue"),
    "SKITTER_ARCHIVE": ("", "keep the pages that callbacks see in this folder, as WARC files"),
    "SKITTER_ARCHIVE_STORE": (
        "",
        "keep pages, and copy finished WARC files there: s3://BUCKET/FOLDER",
    ),
    "SKITTER_DIR": ("", "start an embedded server in this directory"),
    "SKITTER_FEED_SCHEMES": ("http, https", "what addresses from a feed may begin with"),
    "SKITTER_GUARD": ("True", "send no requests to private addresses"),
    "SKITTER_ALLOW_HOSTS": ("", "exceptions to that: names, with or without a port"),
    "SKITTER_TRUST_START": (
        "True",
        "start URLs may be private addresses and files; False: only those that the class has",
    ),
    "SKITTER_PROXIES": ("", 'hosts that `meta["proxy"]` may name; `*`: any'),
    "SKITTER_LIMITS_PER": (
        "job",
        "whether delays and limits per domain hold for all nodes together, or for each `node`",
    ),
    "SKITTER_META_TYPES": (
        "",
        "how to send values of your own types in `meta`: `{class: (to_plain, from_plain)}`",
    ),
    "SKITTER_RUN": (
        "",
        "the number of this run: what `start` yields is fetched once by all nodes that have it",
    ),
    "SKITTER_STUCK_S": (
        "600",
        "seconds after which a process whose engine hangs is ended; 0: never",
    ),
    "SKITTER_START_S": ("60", "seconds that a node waits for its server when it starts"),
    "SKITTER_BLOCKED_REST_S": ("60", "seconds to leave a host alone after it showed a block page"),
}


#: Settings of our own that had another name, and still work.
RENAMED = {"SKITTER_ALLOWED_HOSTS": "SKITTER_ALLOW_HOSTS"}


def _nearly_theirs(name: str) -> list[str]:
    """What a setting was probably meant to be; most others belong to the project."""
    known = [row.name for row in SETTINGS]
    if name in known or not name.startswith(("REDIS_", "SCHEDULER_", "MAX_IDLE_")):
        return []
    return get_close_matches(name, known, n=1, cutoff=0.9)


def check_settings(settings: BaseSettings, spider: str) -> None:
    """Raises UsageError for the first setting that cannot be honoured."""
    for name in settings:
        if name in RENAMED:
            logger.warning("the setting %s is called %s now: rename it.", name, RENAMED[name])
        elif name.startswith("SKITTER_") and name not in OURS:
            hint = did_you_mean(name, OURS) or f"there are {', '.join(OURS)}."
            if name == "SKITTER_REDIS_URL":
                hint = "it is a variable of the environment; the setting is REDIS_URL."
            raise UsageError(f"there is no setting {name}: {hint}")
        elif close := _nearly_theirs(name):
            logger.warning("there is no setting %s: did you mean %s?", name, close[0])
    for row in SETTINGS:
        value = settings.get(row.name)
        if value is None or value == "":
            continue
        if instead := row.refuse(value, spider):
            raise UsageError(f"{row.name} = {value!r} cannot be honoured: {instead}.")


def warn_of_leftovers(settings: BaseSettings, spider: Spider) -> None:
    """What still is scrapy-redis's own works, without what Skitter's does."""
    if any(kind.__module__ == "scrapy_redis.spiders" for kind in type(spider).__mro__):
        logger.warning(
            "the spider %r still reads its feed with scrapy_redis: only when it is idle, and what "
            "it has taken is lost if its process dies. Import its class from skitter.scrapy.",
            spider.name,
        )
    for named in settings.getdict("ITEM_PIPELINES"):
        where = named if isinstance(named, str) else named.__module__
        if where.startswith("scrapy_redis."):
            logger.warning(
                "ITEM_PIPELINES still names scrapy_redis's pipeline: the items of a page are "
                "stored twice if its node is killed. Name skitter.scrapy.RedisPipeline."
            )


#: Attributes and methods of scrapy-redis's spiders.
ATTRIBUTES = (
    Row("redis_key", "honoured; %(name)s is filled in; a list is read in order; empty: refused"),
    Row("redis_batch_size", "honoured: messages read at once, a large batch in steps of 1,000"),
    Row("redis_encoding", "honoured"),
    Row("max_idle_time", "honoured: seconds without activity in the whole cluster"),
    Row(
        "make_request_from_data",
        "honoured: a request, several, or none; a message that raises becomes a dead letter",
    ),
    Row("server", "honoured: a blocking client, created on first use"),
    Row("start_urls", "honoured, along with the feed: fetched once per run, by one of the nodes"),
    Row(
        "next_requests, fetch_data, pop_list_queue, pop_priority_queue, count_size",
        "honoured if called: messages that they take are yours to look after. Refused if "
        "overridden: the scheduler reads the feed all the time. Override make_request_from_data",
    ),
    Row(
        "schedule_next_requests, spider_idle",
        "honoured: called when idle; the defaults have nothing left to do, unless SCHEDULER is not "
        "Skitter's: then they read the feed, as in scrapy-redis",
    ),
    Row(
        "start_requests",
        "honoured if called: a batch of the feed, like next_requests. Scrapy's own before 2.16",
    ),
    Row("setup_redis", "honoured"),
    Row("rules", "as in Scrapy; a LinkExtractor without Rule(...) is refused, with a hint"),
)

#: Functions and methods of other classes that users call or override.
METHODS = (
    Row(
        "get_redis, get_redis_from_settings, from_settings",
        "honoured, in skitter.scrapy.connection: a blocking client of redis-py, or of the "
        "redis_cls of a script's REDIS_PARAMS",
    ),
    Row(
        "SETTINGS_PARAMS_MAP, defaults, utils",
        "honoured, in skitter.scrapy.connection, skitter.scrapy.defaults and skitter.scrapy.utils",
    ),
    Row(
        "picklecompat, and constructors that take a server and a key",
        "not needed: the frontier takes the place of these internals. Queue classes, Base among "
        "them, are names",
    ),
    Row("RedisPipeline.item_key", "honoured if overridden"),
    Row(
        "RedisPipeline._process_item",
        "honoured if overridden: called in a thread, with self.server. What it stores is stored at "
        "least once, and not atomically with the page",
    ),
    Row("RFPDupeFilter.request_fingerprint, log, open, close", "honoured if overridden"),
    Row(
        "RFPDupeFilter.request_seen, clear",
        "refused if overridden: the frontier decides what was seen. Override "
        "request_fingerprint, or yield requests with dont_filter",
    ),
    Row("Scheduler.flush", "refused if overridden: SCHEDULER_FLUSH_ON_START, or `skitter purge`"),
    Row(
        "from_settings, from_spider",
        "refused if overridden, in any of these classes: Scrapy calls from_crawler",
    ),
)

#: Tests of scrapy-redis 0.9.1 that fail under our names, as they pin how it works inside.
PINNED = (
    Row(
        "test_queue.py: 2, test_scrapy_redis.py: 6 of queues",
        "a queue is a Redis key of pickles. Here it is part of the job",
    ),
    Row(
        "test_dupefilter.py: 7, test_scrapy_redis.py: 1 of dupefilters",
        "RFPDupeFilter(server, key) is a Redis set; close deletes it. Here the frontier decides "
        "what was seen, as it accepts a request",
    ),
    Row(
        "test_scrapy_redis.py: 2 of schedulers",
        "a scheduler works without a crawl, and makes a round trip for each request",
    ),
    Row(
        "test_spiders.py: 1 of clients",
        "setup_redis creates a client. Here spider.server is created on first use",
    ),
    Row("test_picklecompat.py: 1", "pickle. Here nothing is pickled"),
    Row("test_package_import.py: 1", "the name and the address of its author"),
)


# --- overrides that nothing would call: refused when the spider opens, with a hint ----------------

_SEEN = (
    "the frontier decides what was seen, as it accepts a request; override request_fingerprint, "
    " set REQUEST_FINGERPRINTER_CLASS, or yield requests with dont_filter"
)
_MADE = "components are created by from_crawler: override that"
_FEED = "the scheduler reads the feed all the time; override make_request_from_data"

DUPEFILTER = {
    "request_seen": _SEEN,
    "clear": "the job is removed as a whole, by SCHEDULER_PERSIST = False or `skitter purge`",
    "from_settings": _MADE,
    "from_spider": _MADE,
}
SCHEDULER = {
    "from_settings": _MADE,
    "flush": "set SCHEDULER_FLUSH_ON_START, or run `skitter purge`",
}
PIPELINE = {"from_settings": _MADE}
SPIDER = {
    "next_requests": _FEED,
    "fetch_data": _FEED,
    "count_size": "ask `skitter status`, or spider.server",
    "pop_list_queue": _FEED,
    "pop_priority_queue": _FEED,
}


def refuse_overrides(kind: type, base: type, refused: Mapping[str, str]) -> None:
    """Raises UsageError for the first of these names that `kind` overrides."""
    for name, instead in refused.items():
        if _plain(kind, name) is not _plain(base, name):
            raise UsageError(
                f"{kind.__name__}.{name} cannot be honoured, because nothing would call it: "
                f"{instead}."
            )


def _plain(kind: type, name: str) -> object:
    """The underlying function: a bound class method is a new object on each access."""
    found = getattr(kind, name, None)
    return getattr(found, "__func__", found)
