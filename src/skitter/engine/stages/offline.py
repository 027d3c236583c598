from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self, cast

from skitter.engine.stages.stage import Stage
from skitter.spider.scope import Refused

if TYPE_CHECKING:
    from skitter.archive.playback import ArchiveFetcher
    from skitter.engine.parts import Parts
    from skitter.engine.visit import Visit
    from skitter.spider.run import HandlerOutput

_MISSING: Final = Refused("it is not in the archive", "archive")


class Offline(Stage):
    """Drops links to pages that are not in the archive."""

    needs = "skitter replay"

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        return cls(parts) if parts.config.archive.offline else None

    async def handled(self, visit: Visit, output: HandlerOutput) -> None:
        links, has = output.requests, cast("ArchiveFetcher", self.parts.client).has
        output.requests = [link for link in links if has(link)]
        output.refused += [(link.url, _MISSING) for link in links if not has(link)]
