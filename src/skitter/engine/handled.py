"""What handlers did, counted in memory until the next heartbeat sends it to the server."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skitter.frontier.admin.handled import count_handled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skitter.frontier.frontier import Frontier

LONGEST_NAME: Final = 200
#: Between two heartbeats. Handlers have a dozen each; selectors may be made from data.
MAX_COUNTS: Final = 300


@dataclass(slots=True)
class Handled:
    """What the handlers of this process did since its last successful heartbeat."""

    default: str = ""  # the handler of requests that name none
    _counts: Counter[str] = field(default_factory=Counter)
    _unsent: dict[str, int] = field(default_factory=dict)

    def add_page(
        self, handler: str | None, *, items: int, links: int, selectors: Mapping[str, bool]
    ) -> None:
        """A page is done, and the server knows it. `selectors`: whether each matched."""
        name, counts = handler or self.default, self._counts
        counts[f"pages {name}"] += 1
        if items:
            counts[f"items {name}"] += items
        if links:
            counts[f"links {name}"] += links
        for selector, matched in selectors.items():
            tried = f"tried {name} {selector[:LONGEST_NAME]}"
            if tried in counts or len(counts) < MAX_COUNTS:
                counts[tried] += 1
                if matched:
                    counts[f"found {name} {selector[:LONGEST_NAME]}"] += 1

    def add_failed(self, handler: str) -> None:
        self._counts[f"failed {handler}"] += 1

    async def send(self, frontier: Frontier) -> None:
        """What the server did not take is sent first the next time. (Of two calls, the first may be
        repeated: zero stays zero, which is what counts.)"""
        if not self._unsent:
            self._unsent, self._counts = dict(self._counts), Counter()
        if self._unsent:
            await count_handled(frontier, self._unsent)
            self._unsent = {}
