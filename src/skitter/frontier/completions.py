"""Completions, checked and encoded for complete.lua."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from skitter.errors import BadOption, TooBig
from skitter.frontier.offers import WEIGHT_BYTES, Offer, offer
from skitter.frontier.outlinks import Outlinks, pack_outlinks
from skitter.frontier.wire import NOT_PLAIN, encode, pack_feedback
from skitter.model import Completion, Lease, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.settings import Layout

MAX_ITEM_BYTES = 8 * 1024 * 1024
#: Links that travel inside a completion; a page with more sends the others ahead of it.
MAX_LINKS = 2000
MAX_LINK_BYTES = 2 * 1024 * 1024


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """A completion, checked and encoded."""

    shard: int
    lease: Lease
    feedback: bytes
    links: list[Offer]  # of the lease's own shard: they go into the completion
    ahead: list[Offer]  # of other shards, or too many: they go first
    items: list[bytes]
    size_bytes: int  # of links and items
    again: list[Request]  # links that are known, and kept with the others
    outlinks: Outlinks | None = None  # all of them, if the job keeps depths

    @property
    def grows(self) -> bool:
        """Whether the server will hold more after it than before."""
        return bool(self.links or self.items or self.outlinks)

    @property
    def brings(self) -> str:
        """As in complete.lua; empty is by far the quickest to read."""
        if not (self.links or self.items or self.outlinks):
            return ""
        brings = f"{len(self.links)} {len(self.items)}"
        kept = self.outlinks
        return f"{brings} {kept.depth} {kept.reach}" if kept else brings

    @property
    def arguments(self) -> tuple[str, str, str, bytes]:
        """As EACH in complete.lua."""
        return self.lease.fingerprint, self.lease.token, self.brings, self.feedback

    @property
    def weight(self) -> int:
        size_bytes = self.size_bytes + (len(self.outlinks.packed) if self.outlinks else 0)
        return 1 + len(self.links) + len(self.items) + size_bytes // WEIGHT_BYTES


def seal(completion: Completion, layout: Layout, *, raw: bool = False) -> Sealed:
    """Check and encode. Raw: the items are bytes already, for a list that others read."""
    return seal_offers(
        completion, [offer(link, layout) for link in completion.links], layout, raw=raw
    )


def seal_offers(
    completion: Completion, offers: Sequence[Offer], layout: Layout, *, raw: bool
) -> Sealed:
    """The same for those who check their links one by one; those of the completion are left out."""
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
    """How many of the first go ahead: the last ones, of so many bytes, fit into a completion."""
    size_bytes = 0
    for count, one in enumerate(reversed(offers)):
        if count == MAX_LINKS or size_bytes + one.size_bytes > MAX_LINK_BYTES:
            return len(offers) - count, size_bytes
        size_bytes += one.size_bytes
    return 0, size_bytes


def keep_outlinks(sealed: Sealed, *, is_cut: bool) -> Sealed:
    """With all its links, for a job that keeps depths. Cut: some were refused on their way."""
    offers = [*sealed.ahead, *sealed.links]
    depth = sealed.lease.request.depth
    packed = pack_outlinks(depth, offers, sealed.again, is_cut=is_cut)
    return msgspec.structs.replace(sealed, outlinks=packed)


def encode_item(item: Any, lease: Lease) -> bytes:
    """As the item stream holds it. Raises BadOption."""
    try:
        # The address travels with the item: the frontier forgets a request that is done.
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
    """As REST in complete.lua: all links, then all items."""
    args: list[object] = []
    for one in sealed:
        for link in one.links:
            args += link.arguments
    for one in sealed:
        if one.outlinks:
            args.append(one.outlinks.packed)
        args += one.items
    return args
