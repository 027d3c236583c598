from __future__ import annotations

import time
from typing import TYPE_CHECKING

from skitter.engine.stages.stage import Stage
from skitter.observe.report import some
from skitter.spider.run import HandlerError, HandlerOutput, run_handler

if TYPE_CHECKING:
    from skitter.engine.parts import Parts
    from skitter.engine.visit import Visit


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
        return await run_handler(
            parts.spider, visit.page, known=parts.memory.known, limits=parts.limits()
        )

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
