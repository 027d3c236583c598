from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.engine.stages.stage import Stage
from skitter.fetch.robots import product_token
from skitter.report import some
from skitter.spider.scope import Refused

if TYPE_CHECKING:
    from skitter.engine.visit import Visit
    from skitter.model import Request
    from skitter.spider.run import HandlerOutput


class Links(Stage):
    """Drops links that a cached robots.txt disallows; sorts out those that the frontier has."""

    async def handled(self, visit: Visit, output: HandlerOutput) -> None:
        links, visit.again = self.parts.memory.split(self._without_disallowed(output))
        visit.links = [*links, *visit.links]

    def _without_disallowed(self, output: HandlerOutput) -> list[Request]:
        """If robots.txt is not cached, or so long that it would hold up other pages, it is checked
        before the fetch."""
        robots = self.parts.robots
        if not robots.is_obeyed:
            return output.requests
        allowed, disallowed = robots.split(output.requests)
        if disallowed:
            why = Refused(product_token(robots.user_agent), "robots")
            output.refused += [(link.url, why) for link in disallowed]
        return allowed

    def tell(self, visit: Visit) -> str:
        return f"{some(len(visit.links), 'link')} for the frontier" if visit.output else ""
