"""Finished pages that offer their links again, at a smaller depth.

Bounded, and safe to interrupt: links are offered before their page is taken off the list, and
offering one twice changes nothing. If a client is killed in between, another continues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from skitter.errors import ServerFull, UsageError
from skitter.frontier.offers import Offer, offer
from skitter.frontier.outlinks import open_outlinks
from skitter.model import Added

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from skitter.frontier.shard import Shard
    from skitter.settings import Layout

#: Pages at a time, and the number of links after which no further page is begun.
PAGES, LINKS = 20, 2000
#: Of packed links per call: a page may have megabytes.
MAX_BYTES = 2**20
TTL_MS = 5000


class _Page(msgspec.Struct, frozen=True):
    fingerprint: bytes
    depth: int
    offers: list[Offer]


async def reopen(
    shard: Shard, layout: Layout, add: Callable[[Sequence[Offer]], Awaitable[list[Added]]]
) -> int:
    """Offer the links of some pages again. Returns how many pages; 0: another client does it."""
    rows = await shard.reopen(limit=PAGES, max_bytes=MAX_BYTES, ttl_ms=TTL_MS)
    if not rows:
        return 0
    pages: list[_Page] = []
    for fp, depth, packed in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        if sum(len(page.offers) for page in pages) >= LINKS:
            break
        pages.append(_Page(fp, int(depth), _offers(packed, int(depth), layout)))
    try:
        answers = await add([one for page in pages for one in page.offers])
    except ServerFull:
        return 0  # they stay reopenable until there is room
    done = []
    for page in pages:
        mine, answers = answers[: len(page.offers)], answers[len(page.offers) :]
        if Added.CLOSED not in mine:
            done.append((page.fingerprint, str(page.depth), _rest(page, mine)))
    await shard.reopened(done)
    return len(pages)


def _offers(packed: bytes, depth: int, layout: Layout) -> list[Offer]:
    offers = []
    for link in open_outlinks(packed, depth):
        try:
            offers.append(offer(link, layout))
        except UsageError:  # never offered before: it was recognized by its URL
            continue
    return offers


def _rest(page: _Page, answers: list[Added]) -> str:
    """The depth limit above which more of its links would go in; empty: all did."""
    pairs = zip(page.offers, answers, strict=True)
    refused = [one.depth for one, said in pairs if said is Added.DEEP]
    return str(min(refused) - 1) if refused else ""
