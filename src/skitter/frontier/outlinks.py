"""The links of a finished page, kept so that they can be offered again without fetching it again.
docs/adr/0011-depth-is-the-shortest-way.md explains why."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import msgspec

from skitter.model import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.offers import Offer

#: Far more than the links of a page, whatever the server says.
MAX_BYTES = 64 * 2**20
#: Deeper than any limit allows: some of the links were refused.
CUT = 2**31


class Outlinks(msgspec.Struct, frozen=True):
    """What complete.lua stores of a page's links."""

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
    links += [(one.priority, one) for one in again]
    if not links:
        return None
    deepest = max([one.depth for one in offers] + [one.depth for one in again])
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
