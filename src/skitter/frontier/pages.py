"""The outcome of finished pages: a line each, for the newest pages of each shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from skitter.frontier.wire import clip

if TYPE_CHECKING:
    from skitter.frontier.shard import Shard
    from skitter.model import Response

REDIRECT = "-> "
NOTHING = "-"


class DonePage(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one page."""

    at: float  # seconds since the epoch, by the server's clock
    worker: str
    status: int
    elapsed_s: float
    size_bytes: int
    items: int
    usage: str = ""  # which use of it is reserved, as in page.usage
    note: str = ""  # why its handler did not run
    redirects_to: str = ""


def page_facts(response: Response, *, items: int, usage: str = "", note: str = "") -> str:
    """What a worker reports. The server prepends the time and the worker's name."""
    elapsed_ms = round(1000 * response.elapsed_s)
    line = f"{response.status} {elapsed_ms} {len(response.body)} {items} {usage or NOTHING}"
    return f"{line} {clip(note)}" if note else line


async def find_page(shard: Shard, fp: str) -> DonePage | None:
    """None: it is not done, was done too long ago, or its engine does not report outcomes."""
    for part in ("new", "old"):
        line: bytes | None = await shard.server.command("HGET", shard.keys.key("pages", part), fp)
        if line:
            return open_page(line.decode("utf-8", "replace"))
    return None


def open_page(line: str) -> DonePage | None:
    """None: it cannot be read."""
    try:
        at, worker, status, elapsed_ms, size_bytes, items, usage, *rest = line.split(" ", 7)
        note = rest[0] if rest else ""
        is_redirect = note.startswith(REDIRECT)
        return DonePage(
            at=float(at),
            worker=worker,
            status=int(status),
            elapsed_s=int(elapsed_ms) / 1000,
            size_bytes=int(size_bytes),
            items=int(items),
            usage="" if usage == NOTHING else usage,
            note="" if is_redirect else note,
            redirects_to=note.removeprefix(REDIRECT) if is_redirect else "",
        )
    except (ValueError, OverflowError):
        return None
