"""What handlers did, counted by the fleet: their pages, what they yielded, selectors that matched.

A count is named by what, handler, and perhaps a selector: "pages book", "found listing .next a".
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skitter.frontier.frontier import Frontier

#: Counts per job. Selectors may be made from data: they must leave room for the handlers.
KEEP: Final = 1000
KEEP_SELECTORS: Final = 500
_OF_SELECTORS: Final = ("tried ", "found ")


async def count_handled(frontier: Frontier, counts: Mapping[str, int]) -> None:
    selectors = [one for one in counts.items() if one[0].startswith(_OF_SELECTORS)]
    handlers = [one for one in counts.items() if not one[0].startswith(_OF_SELECTORS)]
    for rows, keep in ((handlers, KEEP), (selectors, KEEP_SELECTORS)):
        if rows:
            await frontier.home.handled(rows, keep=keep)


async def read_handled(frontier: Frontier) -> Counter[str]:
    """All counts since the job was created."""
    counts = await frontier.home.read_hash("handled")
    return Counter({name: int(by) for name, by in counts.items() if by.isdecimal()})
