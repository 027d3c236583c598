"""Which methods of a spider may be called by a name from outside.

Anyone who can write to the server chooses the name and the arguments, so `__init__` or
`from_crawler` must not be callable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skitter.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider

#: The callbacks among the methods of Scrapy's own spiders.
_THEIR_CALLBACKS = frozenset(
    {
        *("parse", "_parse", "parse_start_url", "_callback", "_errback"),
        *("_parse_sitemap", "initialized"),
    }
)
_NOT_CALLBACKS = frozenset({"closed"})  # Scrapy's shutdown hook
_NOT_THE_USERS = ("scrapy.", "skitter.scrapy.", "builtins")


def find_callback(spider: Spider, name: str) -> Callable[..., Any] | None:
    """The method of this name if it can be a callback, not one that creates or closes a spider."""
    is_theirs = any(name in one.__dict__ for one in type(spider).__mro__ if not _is_users(one))
    if name.startswith("__") or name in _NOT_CALLBACKS:
        return None
    if is_theirs and name not in _THEIR_CALLBACKS:
        return None
    if isinstance(getattr(type(spider), name, None), property):
        return None
    method = getattr(spider, name, None)
    return method if getattr(method, "__self__", None) is spider and callable(method) else None


def find_public_callback(spider: Spider, name: str) -> Callable[..., Any]:
    """For feed messages. Raises UsageError unless it is a public method of the user's class."""
    users = any(name in one.__dict__ for one in type(spider).__mro__ if _is_users(one))
    method = find_callback(spider, name) if users and not name.startswith("_") else None
    if method is None:
        raise UsageError(
            f"the spider {spider.name!r} has no method {name!r} that a feed may call: use a "
            "public method that its class defines."
        )
    return method


def _is_users(kind: type) -> bool:
    return not f"{kind.__module__}.".startswith(_NOT_THE_USERS)
