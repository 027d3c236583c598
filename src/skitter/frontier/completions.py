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
    for one in sealed:
        for link in one.links:
            args += link.arguments
    for one in sealed:
        if one.outlinks:
            args.append(one.outlinks.packed)
        args += one.items
    return args
