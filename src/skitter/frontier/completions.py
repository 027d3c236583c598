"""Completions: checked and encoded for complete.lua, with links that may be offered again."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.errors import BadOption, ServerFull, TooBig, UsageError
from skitter.frontier.requests import WEIGHT_BYTES, Offer, offer
from skitter.frontier.transport.messages import NOT_PLAIN, encode, pack_feedback
from skitter.model import Added, Completion, Lease, Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from skitter.frontier.transport.shard import Shard
    from skitter.settings import Layout


#: Far more than the links of a page, whatever the server says.
MAX_BYTES = 64 * 2**20
#: Deeper than any limit allows: some of the links were refused.
CUT = 2**31


class Outlinks(msgspec.Struct, frozen=True):
    """What complete.lua stores of a page's links, so that they can be offered again without a
    fetch.

    docs/adr/0011-depth-is-the-shortest-path.md explains why.
    """

    depth: int  # the page's depth when they were offered
    reach: int  # how much deeper the deepest link is
    packed: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, list[tuple[int, Request]]]).decode


def pack_outlinks(
    depth: int, offers: Sequence[Offer], again: Sequence[Request], *, is_cut: bool
) -> Outlinks | None:
    """Pack the links of a page, those offered and those already known. None: it has none."""
    links: list[tuple[int, object]] = [(one.priority, msgspec.Raw(one.body)) for one in offers]
    links += [(request.priority, request) for request in again]
    if not links:
        return None
    deepest = max([one.depth for one in offers] + [request.depth for request in again])
    reach = CUT if is_cut else max(0, deepest - depth)
    # Links of one page are similar: even the fastest level shrinks them to a fifth.
    return Outlinks(depth, reach, zlib.compress(_encode((depth, links)), 1))


def open_outlinks(packed: bytes, depth: int) -> list[Request]:
    """The links, with depths as on a page of that depth. Empty if they cannot be read."""
    try:
        before, links = _decode(zlib.decompressobj().decompress(packed, MAX_BYTES))
    except (ValueError, zlib.error):  # msgspec's errors are ValueErrors
        return []
    return [
        msgspec.structs.replace(link, priority=priority, depth=max(0, depth + link.depth - before))
        for priority, link in links
    ]


MAX_ITEM_BYTES = 8 * 1024 * 1024
#: The most links sent with a completion; a page with more sends the rest ahead.
MAX_LINKS = 2000
MAX_LINK_BYTES = 2 * 1024 * 1024


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """A completion, checked and encoded."""

    shard: int
    lease: Lease
    feedback: bytes
    links: list[Offer]  # of the lease's own shard: sent with the completion
    ahead: list[Offer]  # of other shards, or too many: sent first
    items: list[bytes]
    size_bytes: int  # of links and items
    again: list[Request]  # known links: not offered, but kept as outlinks
    outlinks: Outlinks | None = None  # all links, if the job keeps depths

    @property
    def grows(self) -> bool:
        """Whether it makes the server store more than before."""
        return bool(self.links or self.items or self.outlinks)

    @property
    def brings(self) -> str:
        """`brings` in complete.lua; empty is by far the fastest to parse."""
        if not (self.links or self.items or self.outlinks):
            return ""
        brings = f"{len(self.links)} {len(self.items)}"
        kept = self.outlinks
        return f"{brings} {kept.depth} {kept.reach}" if kept else brings

    @property
    def arguments(self) -> tuple[str, str, str, bytes]:
        """One row of EACH in complete.lua."""
        return self.lease.fingerprint, self.lease.token, self.brings, self.feedback

    @property
    def weight(self) -> int:
        size_bytes = self.size_bytes + (len(self.outlinks.packed) if self.outlinks else 0)
        return 1 + len(self.links) + len(self.items) + size_bytes // WEIGHT_BYTES


def seal(completion: Completion, layout: Layout, *, raw: bool = False) -> Sealed:
    """Check and encode. Raw: the items are already bytes, for a list with readers of its own."""
    return seal_offers(
        completion, [offer(link, layout) for link in completion.links], layout, raw=raw
    )


def seal_offers(
    completion: Completion, offers: Sequence[Offer], layout: Layout, *, raw: bool
) -> Sealed:
    """The same with links that were already checked; `completion.links` is ignored."""
    lease = completion.lease
    shard = layout.shard_of(lease.host)
    here = [one for one in offers if one.shard == shard]
    surplus, size_bytes = _surplus(here)
    items = [_check_item(item, lease, raw=raw) for item in completion.items]
    return Sealed(
        shard=shard,
        lease=lease,
        feedback=pack_feedback(completion.feedback),
        links=here[surplus:],
        ahead=here[:surplus] + [one for one in offers if one.shard != shard],
        items=items,
        size_bytes=size_bytes + sum(map(len, items)),
        again=list(completion.again),
    )


def _surplus(offers: Sequence[Offer]) -> tuple[int, int]:
    """How many links to send ahead, and the size of the rest, which fit into the completion."""
    size_bytes = 0
    for count, one in enumerate(reversed(offers)):
        if count == MAX_LINKS or size_bytes + one.size_bytes > MAX_LINK_BYTES:
            return len(offers) - count, size_bytes
        size_bytes += one.size_bytes
    return 0, size_bytes


def keep_outlinks(sealed: Sealed, *, is_cut: bool) -> Sealed:
    """Add all links, for a job that keeps depths. Cut: some of them were refused."""
    offers = [*sealed.ahead, *sealed.links]
    depth = sealed.lease.request.depth
    packed = pack_outlinks(depth, offers, sealed.again, is_cut=is_cut)
    return msgspec.structs.replace(sealed, outlinks=packed)


def encode_item(item: Any, lease: Lease) -> bytes:
    """Encode for the item stream. Raises BadOption."""
    try:
        # The item carries the URL, as the frontier forgets a request that is done.
        return encode({"url": lease.url, "item": item})
    except NOT_PLAIN as error:
        raise BadOption(
            f"the item from {lease.url}", item, f"made of plain values ({error})"
        ) from None


def _check_item(item: Any, lease: Lease, *, raw: bool) -> bytes:
    data: bytes = item if raw else encode_item(item, lease)
    if len(data) > MAX_ITEM_BYTES:
        raise TooBig(f"an item from {lease.url}", size_bytes=len(data), limit_bytes=MAX_ITEM_BYTES)
    return data


def completion_rest(sealed: Sequence[Sealed]) -> list[object]:
    """REST of complete.lua: all links, then all items."""
    args: list[object] = []
    for completion in sealed:
        for link in completion.links:
            args += link.arguments
    for completion in sealed:
        if completion.outlinks:
            args.append(completion.outlinks.packed)
        args += completion.items
    return args


#: Pages at a time, and the number of links after which no further page is begun.
PAGES, LINKS = 20, 2000
#: Of packed links per call: a page may have megabytes.
MAX_OFFER_BYTES = 2**20
TTL_MS = 5000


class _Page(msgspec.Struct, frozen=True):
    fingerprint: bytes
    depth: int
    offers: list[Offer]


async def reopen(
    shard: Shard, layout: Layout, add: Callable[[Sequence[Offer]], Awaitable[list[Added]]]
) -> int:
    """Offer the links of some pages again, at a smaller depth. Returns how many pages; 0: another
    client does it.

    Bounded, and safe to interrupt: links are offered before their page is taken off the list, and
    offering one twice changes nothing. If a client is killed in between, another continues.
    """
    rows = await shard.reopen(limit=PAGES, max_bytes=MAX_OFFER_BYTES, ttl_ms=TTL_MS)
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
    refused = [link.depth for link, said in pairs if said is Added.DEEP]
    return str(min(refused) - 1) if refused else ""
