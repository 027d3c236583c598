"""Pages that failed: the first of each kind, for whoever repairs the spider. For the whole fleet,
on the server, in bounded space."""

from __future__ import annotations

import zlib
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skitter.errors import SkitterError
from skitter.frontier.dead import kind_of, revive
from skitter.frontier.records.health import find_worse
from skitter.frontier.transport.messages import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.model import DeadLetter

MAX_BODY_BYTES: Final = 2 * 2**20
MAX_WAITING: Final = 100
RECENT: Final = 20


class FailedPage(msgspec.Struct, frozen=True, kw_only=True):
    """What a handler failed on, or a site answered instead of a page. Without secrets, but for
    those in its body."""

    fingerprint: str
    url: str
    reason: str
    at: float
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    is_cut: bool = False  # the body was larger
    traceback: str = ""
    screenshot: bytes | None = None  # if the page was rendered with one
    request: dict[str, Any] = {}  # what differs from a plain one


@dataclass(slots=True)
class FailedPages:
    """Those of one worker, until a heartbeat sends them."""

    most: int  # of each kind
    max_mb: int  # of all, on the server
    #: The last pages that are done: their handlers, their items, and what makes one of these.
    recent: deque[tuple[str, Sequence[Any], Callable[[str], FailedPage]]] = field(
        default_factory=lambda: deque(maxlen=RECENT)
    )
    _found: dict[str, FailedPage] = field(default_factory=dict)
    _kinds: Counter[str] = field(default_factory=Counter)  # as far as this worker knows

    def wants(self, reason: str) -> bool:
        return len(self._found) < MAX_WAITING and self._kinds[kind_of(reason)] < self.most

    def add(self, page: FailedPage) -> None:
        self._kinds[kind_of(page.reason)] += page.fingerprint not in self._found
        self._found[page.fingerprint] = page

    async def send(self, frontier: Frontier) -> None:
        """A full server keeps none: a page's result is worth more than its copy."""
        await self._add_examples(frontier)
        found, self._found = self._found, {}
        for page in found.values():
            row = page.fingerprint, kind_of(page.reason), zlib.compress(encode(page), 1)
            try:
                await frontier.home.keep_failed(
                    [row], most=self.most, max_bytes=self.max_mb * 2**20
                )
            except SkitterError as error:
                if error.retryable:
                    return

    async def _add_examples(self, frontier: Frontier) -> None:
        """Of what got worse, if anything did. The others stay: what they show may only be counted
        by the next time."""
        worse = await find_worse(frontier) if self.recent else []
        for one in [*self.recent] if worse else ():
            handler, items, make = one
            kinds = [
                finding.kind
                for finding in worse
                if handler == finding.handler and finding.is_shown_by(items)
            ]
            for kind in filter(self.wants, kinds):
                self.add(make(kind))
            if kinds:
                self.recent.remove(one)


async def failed_pages(frontier: Frontier) -> list[FailedPage]:
    """All of them, the oldest first; without those that cannot be read."""
    stored = await frontier.home.command("HVALS", "failed")
    return sorted(filter(None, map(_opened, stored)), key=lambda page: page.at)


async def find_failed(frontier: Frontier, url_or_fingerprint: str) -> FailedPage | None:
    """By the URL as it was requested, or the fingerprint."""
    if packed := await frontier.home.command("HGET", "failed", url_or_fingerprint):
        return _opened(packed)
    found = [page for page in await failed_pages(frontier) if page.url == url_or_fingerprint]
    return found[-1] if found else None


async def forget_failed(frontier: Frontier, fingerprints: Iterable[str]) -> None:
    """They are handled again: others of their kind may be kept."""
    if fps := list(fingerprints):
        await frontier.home.command("HDEL", "failed", *fps)
        await frontier.home.command("HDEL", "failed_of", *fps)


async def retry(frontier: Frontier, letters: Sequence[DeadLetter]) -> int:
    """Make dead letters pending again. Returns how many came back. Raises QueueFull, as a push of
    them would, if a tenant's quota has no room for all."""
    quotas = frontier.quotas
    await quotas.refresh()
    room = await quotas.room(len(letters))
    count = await revive(frontier, letters[:room])
    await quotas.were_known(room - count)
    await forget_failed(frontier, [letter.fingerprint for letter in letters[:room]])
    if room < len(letters):
        raise await frontier.full(added=count)
    return count


def _opened(packed: bytes) -> FailedPage | None:
    try:
        unpacked = zlib.decompressobj().decompress(packed, 64 * 2**20)
        return msgspec.convert(decode(unpacked), FailedPage)
    except (ValueError, zlib.error):  # msgspec's errors are ValueErrors
        return None
