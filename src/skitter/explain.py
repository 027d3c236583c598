"""Where a URL is and why, as the command line and the HTTP API explain it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from skitter.fetch.robots import explain_rules
from skitter.frontier.audit.rules import is_fingerprint
from skitter.frontier.audit.why import Explanation, why, why_fingerprint
from skitter.frontier.transport.sync import in_thread
from skitter.settings import resolve
from skitter.spider.named_files import APART

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier


async def explain_url(
    frontier: Frontier, url: str, *, method: str = "GET", body: bytes = b""
) -> Explanation:
    """By its URL, its fingerprint, or the fingerprint that an engine gave it."""
    if is_fingerprint(url):
        return await why_fingerprint(frontier, url)
    found = await why(frontier, url, method=method, body=body, robots=_read_robots)
    # Importing Scrapy takes a second, which must not delay others served by this process.
    is_open = found.state in ("unknown", "refused")
    if is_open:
        file = await why(frontier, url, unique=APART, robots=_read_robots)
        if file.state not in ("unknown", found.state):
            return file
    others = await in_thread(_identities, url) if is_open else []
    for identity in others:
        other = await why(frontier, url, identity=identity, robots=_read_robots)
        if other.state != "unknown" and not _was_refused(found, other):
            return other
    return found


def _was_refused(found: Explanation, other: Explanation) -> bool:
    """Scrapy ends a request that a middleware ignored like any other, without a response."""
    return found.state == "refused" and other.state == "done" and other.done is None


def _read_robots(stored: bytes, url: str, name: str | None) -> str:
    return explain_rules(stored, url, name or resolve().fetch.user_agent)


def _identities(url: str) -> list[str]:
    """Scrapy's own fingerprint of it, if Scrapy is installed."""
    if find_spec("scrapy") is None:
        return []
    from skitter.scrapy.dupefilter import identities

    return identities(url)
