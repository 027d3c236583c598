from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.engine.stages.stage import Stage
from skitter.fetch.robots import product_token
from skitter.observe.report import some
from skitter.spider.scope import Refused

if TYPE_CHECKING:
    from skitter.engine.visit import Visit
    from skitter.spider.run import HandlerOutput


class Links(Stage):
    """Drops links that a cached robots.txt disallows; sorts out those that the frontier has."""

    async def handled(self, visit: Visit, output: HandlerOutput) -> None:
        if self.parts.robots.is_obeyed:
            self._drop_disallowed(output)
        links, visit.again = self.parts.memory.split(output.requests)
        visit.links = [*links, *visit.links]

    def _drop_disallowed(self, output: HandlerOutput) -> None:
        """If robots.txt is not cached, or so long that it would hold up other pages, it is checked
        before the fetch."""
        robots = self.parts.robots
        output.requests, disallowed = robots.split(output.requests)
        if disallowed:
            why = Refused(product_token(robots.user_agent), "robots")
            output.refused += [(link.url, why) for link in disallowed]

    def tell(self, visit: Visit) -> str:
        return f"{some(len(visit.links), 'link')} for the frontier" if visit.output else ""
