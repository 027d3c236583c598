"""A web of any size that takes no memory: everything is computed from numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

TIMEOUT_S = 30.0
SLOW_S = 5.0
#: Links from a page to others of its host, and hosts that a host's first page links to.
PAGES_A_PAGE, HOSTS_A_HOST = 6, 10
#: Links to pages of any host, favouring large ones: most of them are known.
ANYWHERE = 4
_MIX = 2654435761  # Knuth's multiplier: scatters consecutive numbers


class Place(NamedTuple):
    """A page of a host. Host 0 is the largest; page 0 is a host's first page."""

    host: int
    page: int

    @property
    def url(self) -> str:
        return f"https://www.site-{self.host:07}.example/catalogue/{self.page:08}.html"


class Answer(NamedTuple):
    """How long a host took, and whether there is a page."""

    seconds: float
    ok: bool


def place_of(url: str) -> Place:
    _, _, name, _, page = url.split("/")
    return Place(int(name[9:16]), int(page[:8]))


@dataclass(frozen=True)
class Web:
    """`urls` pages on `hosts` hosts: the r-th largest has a share of 1/r."""

    hosts: int
    urls: int
    dead: float = 0.02  # share of hosts that never answer
    slow: float = 0.08  # share of hosts that take about five seconds
    failing: float = 0.02  # share of answers that are errors

    @cached_property
    def _largest(self) -> float:
        return self.urls / (math.log(self.hosts) + 0.5772)

    def size(self, host: int) -> int:
        """The number of pages of the host."""
        return max(1, round(self._largest / (host + 1)))

    def latency_s(self, host: int) -> float:
        """The host's average response time; TIMEOUT_S: it is dead."""
        kind = (host * _MIX % 2**32) / 2**32
        if kind < self.dead:
            return TIMEOUT_S
        if kind < self.dead + self.slow:
            return SLOW_S
        return 0.05 * 20 ** ((host * _MIX // 7 % 2**16) / 2**16)  # 50 ms to 1 s

    def answer(self, place: Place, chance: Random) -> Answer:
        mean = self.latency_s(place.host)
        if mean == TIMEOUT_S:
            return Answer(TIMEOUT_S, ok=False)
        seconds = min(TIMEOUT_S, mean * (0.5 + chance.expovariate(2)))
        return Answer(seconds, chance.random() >= self.failing)

    def links(self, place: Place, chance: Random) -> Iterator[Place]:
        host, page = place
        size = self.size(host)
        first = page * PAGES_A_PAGE + 1
        for child in range(first, min(size, first + PAGES_A_PAGE)):
            yield Place(host, child)
        if page == 0:
            first = host * HOSTS_A_HOST + 1
            for other in range(first, min(self.hosts, first + HOSTS_A_HOST)):
                yield Place(other, 0)
        for _ in range(ANYWHERE):
            other = int(self.hosts ** chance.random()) - 1
            yield Place(other, int(self.size(other) * chance.random() ** 3))
