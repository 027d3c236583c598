"""Where a page leads: kept of a page that is done, so that its links can be offered again without
fetching it again. docs/adr/0011-depth-is-the-shortest-way.md tells what for."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import msgspec

from skitter.model import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.offers import Offer

#: Farther than any limit allows: some of the links were refused.
CUT = 2**31


class Outlinks(msgspec.Struct, frozen=True):
    """What complete.lua keeps of the links of a page."""

    depth: int  # that of the page when they were offered
    reach: int  # how far beyond it the farthest is
    packed: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, list[tuple[int, Request]]]).decode


def pack_outlinks(
    depth: int, offers: Sequence[Offer], again: Sequence[Request], *, is_cut: bool
) -> Outlinks | None:
    """The links of a page, those that were offered and those that are known. None: it has none."""
    links: list[tuple[int, object]] = [(one.priority, msgspec.Raw(one.body)) for one in offers]
    links += [(one.priority, one) for one in again]
    if not links:
        return None
    deepest = max([one.depth for one in offers] + [one.depth for one in again])
    reach = CUT if is_cut else max(0, deepest - depth)
    # Links of one page are much alike: the quickest level takes them to a fifth.
    return Outlinks(depth, reach, zlib.compress(_encode((depth, links)), 1))


def open_outlinks(packed: bytes, depth: int) -> list[Request]:
    """The links as those of a page of that depth. Empty, if it cannot be read."""
    try:
        before, links = _decode(zlib.decompress(packed))
    except (ValueError, zlib.error):  # msgspec's errors are ValueErrors
        return []
    return [
        msgspec.structs.replace(link, priority=priority, depth=max(0, depth + link.depth - before))
        for priority, link in links
    ]
