"""Pages that are done and offer their links again, less deep than before.

Bounded, and safe at any point: links are offered before their page is taken off the list, and to
offer one twice changes nothing. If a client is killed between the two, another continues.
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

#: Pages at a time, and links after which no further page is begun.
PAGES, LINKS = 20, 2000
#: Of what is kept of their links: a page may have megabytes of it.
MOST_BYTES = 2**20
TTL_MS = 5000


class _Page(msgspec.Struct, frozen=True):
    fingerprint: bytes
    depth: int
    offers: list[Offer]


async def reopen(
    shard: Shard, layout: Layout, add: Callable[[Sequence[Offer]], Awaitable[list[Added]]]
) -> int:
    """Offer the links of some pages again. Returns of how many; 0: another client does it."""
    rows = await shard.reopen(most=PAGES, most_bytes=MOST_BYTES, ttl_ms=TTL_MS)
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
        except UsageError:  # it was never offered: it was known by its URL
            continue
    return offers


def _rest(page: _Page, answers: list[Added]) -> str:
    """The limit above which more of its links may go in; empty: all went in."""
    pairs = zip(page.offers, answers, strict=True)
    refused = [one.depth for one, said in pairs if said is Added.DEEP]
    return str(min(refused) - 1) if refused else ""
