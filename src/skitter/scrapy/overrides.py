"""What people override in classes of scrapy-redis, and would be called by nobody here: refused by
name, when the spider opens, with what to override instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SEEN = (
    "what was seen is decided in the frontier, in one step with taking it in; override "
    "request_fingerprint, set REQUEST_FINGERPRINTER_CLASS, or yield requests with dont_filter"
)
_MADE = "components are made by from_crawler; override that"
_FEED = "the scheduler reads the feed, all the time; override make_request_from_data"

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
    """Raises UsageError for the first of these names that `kind` defines otherwise than `base`."""
    for name, instead in refused.items():
        if _plain(kind, name) is not _plain(base, name):
            raise UsageError(
                f"{kind.__name__}.{name} cannot be honoured, nothing would call it: {instead}."
            )


def _plain(kind: type, name: str) -> object:
    """The function itself: a bound class method is another object each time."""
    found = getattr(kind, name, None)
    return getattr(found, "__func__", found)
