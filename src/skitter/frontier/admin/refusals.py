"""Links kept out of a crawl: counts by kind, and the reasons for the newest ones."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from skitter.errors import BadURL
from skitter.frontier.wire import clip, cut, decode, encode
from skitter.urls import fingerprint, identify

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.urls import Canonical

#: At most this many are kept, and at least the newest half of it. About 300 bytes each.
KEPT: Final = 10_000
#: Per call: this keeps the server busy for a millisecond.
BATCH: Final = 500


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """Why a link was not followed."""

    kind: str  # robots, scope, depth, nofollow, ...
    reason: str
    found_on: str
    url: str = ""  # of the link; older releases did not keep it


async def record_refusals(frontier: Frontier, refusals: dict[str, Refusal]) -> None:
    """Record links that were kept out, by URL."""
    canonical = frontier.layout.canonical
    rows = [
        (_fingerprint(url, canonical), one.kind, encode(_shortened(one, url)))
        for url, one in refusals.items()
    ]
    for first in range(0, len(rows), BATCH):
        await frontier.home.refuse(rows[first : first + BATCH], keep=KEPT)


async def newest_refusals(frontier: Frontier) -> list[Refusal]:
    """The refusals that are still known, in no order: KEPT at most."""
    keys, found = frontier.home.keys, list[Refusal]()
    for part in ("new", "old"):
        for packed in await frontier.server.command("HVALS", keys.key("refused", part)):
            with suppress(ValueError):  # as below
                found.append(msgspec.convert(decode(packed), Refusal))
    return found


async def find_refusal(frontier: Frontier, fp: str) -> Refusal | None:
    """Why a link was kept out; None: it was not, or too long ago."""
    keys, server = frontier.home.keys, frontier.server
    for part in ("new", "old"):
        if packed := await server.command("HGET", keys.key("refused", part), fp):
            try:
                return msgspec.convert(decode(packed), Refusal)
            except ValueError:  # msgspec's errors are ValueErrors
                return None
    return None


def _fingerprint(url: str, canonical: Canonical) -> str:
    """The fingerprint that `why` looks up; for an invalid URL, any unique one will do."""
    try:
        return fingerprint(identify(url, canonical).canonical)
    except BadURL:
        return fingerprint(clip(url))


def _shortened(one: Refusal, url: str) -> Refusal:
    return Refusal(one.kind, cut(one.reason), clip(one.found_on), clip(url))
