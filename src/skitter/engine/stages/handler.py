"""What the spider finds on a page, and which of its links are new."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from skitter.engine.stages.stage import Stage
from skitter.engine.visit import Completed
from skitter.fetch.robots import product_token
from skitter.observe.report import some
from skitter.spider.items import Rejected, storable
from skitter.spider.run import HandlerError, HandlerOutput, run_handler
from skitter.spider.scope import Refused

if TYPE_CHECKING:
    from skitter.engine.parts import Parts
    from skitter.engine.visit import Outcome, Visit


class AllLinks:
    """Whatever link it is, it is known."""

    def __contains__(self, _: object) -> bool:
        return True


class Handler(Stage):
    """Runs the spider's handler, which finds items and links."""

    @classmethod
    def bind(cls, parts: Parts) -> Handler:
        is_auto = parts.frontier and parts.spider.is_adaptive
        return AutoHandler(parts) if is_auto else Handler(parts)

    async def handle(self, visit: Visit) -> HandlerOutput:
        began = time.perf_counter()
        try:
            with self.parts.spans.handle(visit.page.request):
                visit.output = await self.run(visit)
                return visit.output
        finally:
            self.parts.figures.time("handler", 1000 * (time.perf_counter() - began))

    async def run(self, visit: Visit) -> HandlerOutput:
        parts = self.parts
        known = parts.memory.known if parts.spider.follows_links else AllLinks()
        return await run_handler(parts.spider, visit.page, known=known, limits=parts.limits())

    def tell(self, visit: Visit) -> str:
        if (output := visit.output) is None:
            return str(visit.error or "")
        return f"found {some(len(output.items), 'item')} and {some(output.links, 'link')}"


class AutoHandler(Handler):
    """With render="auto": if plain HTML brings too little, a browser gets the page too."""

    async def run(self, visit: Visit) -> HandlerOutput:
        adaptive, failure = self.parts.adaptive, None
        if not adaptive.applies(visit.page.request):
            return await super().run(visit)
        try:
            output = await super().run(visit)
        except HandlerError as error:
            output, failure = HandlerOutput(), error
        again = await adaptive.try_again(visit, output)
        if failure is not None and again is None:
            raise failure
        visit.links = [again] if again else []
        return output


class Answers(Stage):
    """Makes one item of what becomes of a page, for the caller who asked for it."""

    needs = "a spider that answers callers"

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        return cls(parts) if parts.spider.hooks.answer else None

    async def ended(self, visit: Visit, outcome: Outcome) -> Outcome | None:
        if not isinstance(outcome, Completed):
            return None
        done, output = outcome.completion, outcome.output
        if done.links and (outcome.skipped or output is None):  # where it leads is visited
            return None
        answer = self.parts.spider.hooks.answer
        assert answer is not None
        items, request = list(done.items), visit.lease.request
        why = "" if items else outcome.skipped or _why_nothing(visit, output)
        found, _ = storable(answer(request, items, why))
        if isinstance(found, Rejected):  # each item is small enough, but not all together
            found = answer(request, [], found.reason)
        return replace(outcome, completion=replace(done, items=[found]))


def _why_nothing(visit: Visit, output: HandlerOutput | None) -> str:
    if output and output.rejected:
        return f"its item was rejected: {output.rejected[0].reason}"
    refused = output.refused if output else []
    return next((why.reason for url, why in refused if url == visit.page.url), "")


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
