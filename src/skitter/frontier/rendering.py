"""Which shapes of URLs need a browser: counts by the whole fleet of pages that were tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from skitter.shapes import number_of, shape_of

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier

#: Plain HTML was enough, only a browser brought more, neither brought anything.
Tried = Literal["plain", "browser", "neither"]
TRIED: Final[tuple[Tried, ...]] = ("plain", "browser", "neither")
#: The fewest pages to judge by, and how many times more frequent the usual outcome must be.
FEW, USUAL = 3, 4


@dataclass(frozen=True, slots=True)
class Rendering:
    """How many pages of a shape had which outcome; counts are halved now and then."""

    plain: int = 0
    browser: int = 0
    neither: int = 0

    @property
    def needs_browser(self) -> bool:
        """Plain HTML is not worth trying."""
        return self.browser >= FEW and self.browser > USUAL * self.plain

    @property
    def is_hopeless(self) -> bool:
        """A page without items has none in a browser either."""
        return self.neither >= FEW and self.neither > USUAL * self.browser


def rendering_field(url: str, what: Tried) -> str:
    """The field that an attempt reports."""
    return f"{number_of(shape_of(url))} {what}"


async def read_rendering(frontier: Frontier, host: str, url: str) -> Rendering:
    """What the fleet knows about the shape of a URL."""
    shard = frontier.shard_for(host)
    fields = [rendering_field(url, what) for what in TRIED]
    found = await shard.command("HMGET", "rendering", *fields)
    return Rendering(*(int(one) if one and one.isdigit() else 0 for one in found))
