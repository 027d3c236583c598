"""Links the frontier is known to have: a link on every page costs a look-up, not a call.

memory = LinkMemory(lambda: frontier.epoch, lambda: frontier.keeps_depths)
if key in memory.known: ...            # leave it out
epoch = frontier.epoch                 # before the call that adds links
memory.add([(key, depth)], epoch=epoch)  # after it was answered
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable

    from skitter.model import Request

K = TypeVar("K")
UNKNOWN: Final = 2**31  # deeper than anything


@dataclass(slots=True)
class LinkMemory(Generic[K]):
    """Keys of links (URLs, fingerprints) -> the least depth at which the frontier took them.

    When full, it forgets the older half; in a new epoch, everything. A forgotten link is offered
    again, and the frontier knows it. One remembered but missing in the frontier would be lost.

    In a job that keeps depths, a page may turn out to be less deep after it is done, and so may its
    links. So only links one step from a seed are left out: there is no shorter way to them.

    One thread refreshes and adds; another may ask `key in memory` meanwhile.
    """

    epoch: Callable[[], Hashable] = lambda: None  # the frontier's
    keeps_depths: Callable[[], bool] = lambda: False
    size: int = 100_000
    _depths: dict[K, int] = field(default_factory=dict)  # oldest first
    _epoch: Hashable = None
    _deepest: int = UNKNOWN  # of links that may be left out

    def refresh(self) -> None:
        """Forget everything in a new epoch: the frontier may have lost what it had."""
        if self._epoch != (now := self.epoch()):
            self._depths.clear()  # first, or the other thread would find what is gone
            self._epoch = now
        self._deepest = 1 if self.keeps_depths() else UNKNOWN

    def __contains__(self, key: object) -> bool:
        """Whether a link may be left out, as of the last refresh."""
        depth = self._depths.get(key)  # type: ignore[arg-type]
        return depth is not None and depth <= self._deepest

    @property
    def known(self) -> Container[K]:
        """The links that may be left out now."""
        self.refresh()
        return self._depths if self._deepest == UNKNOWN else self  # a dict is fastest

    def has(self, key: K, *, depth: int) -> bool:
        """Whether the frontier has it, at this depth or less."""
        return self._depths.get(key, UNKNOWN) <= depth

    def has_any(self, key: K) -> bool:
        """Whether the frontier has it, at any depth."""
        return key in self._depths

    def add(self, links: Iterable[tuple[K, int]], *, epoch: Hashable) -> None:
        """Remember links that the frontier took in that epoch, with their depths."""
        self.refresh()
        if epoch != self._epoch:
            return
        depths = self._depths
        for key, depth in links:
            if depth < depths.get(key, UNKNOWN):
                depths[key] = depth
        if len(depths) > self.size:
            for key in list(islice(depths, len(depths) // 2)):
                del depths[key]


class RequestMemory(LinkMemory[str]):
    """A memory of plain GETs, by URL."""

    __slots__ = ()

    def split(self, links: list[Request]) -> tuple[list[Request], list[Request]]:
        """Links to offer, and links the frontier has at the same depth or less."""
        if not self.keeps_depths():
            return links, []
        self.refresh()
        parts: tuple[list[Request], list[Request]] = [], []
        for one in links:
            parts[one.is_plain and self.has(one.url, depth=one.depth)].append(one)
        return parts

    def add_requests(self, links: Iterable[Request], *, epoch: Hashable) -> None:
        self.add([(one.url, one.depth) for one in links if one.is_plain], epoch=epoch)
