"""What pages ask of robots, and which of it this crawl obeys.

docs/howto/robots.md gives the reasons for the defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from skitter.engine.stages.stage import Stage
from skitter.fetch.robots import product_token
from skitter.spider.page.signals import has_signals, spell
from skitter.spider.scope import Refused
from skitter.urls import identify

if TYPE_CHECKING:
    from skitter.engine.parts import Parts
    from skitter.engine.verdict import Verdict
    from skitter.engine.visit import Outcome, Visit
    from skitter.model import Request
    from skitter.spider.page import Page
    from skitter.spider.run import HandlerOutput

#: Key of `Request.meta`: the page that named this one as its canonical form.
CANONICAL_OF: Final = "_canonical_of"


class Directives(Stage):
    """Reads what a page says about its use, and obeys nofollow, noindex and canonical."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        options = parts.config.fetch
        self.robot = product_token(options.user_agent)  # our name
        self.nofollow, self.noindex = options.obey_nofollow, options.obey_noindex
        self.follows_canonical = options.follow_canonical
        self.reserved = frozenset(options.skip_reserved)  # uses that this crawl is for

    async def judged(self, visit: Visit, verdict: Verdict) -> Outcome | None:
        page = visit.page
        page.robot, page.robots_usage = self.robot, visit.by_robots
        if visit.by_robots or has_signals(page.headers, page.body):  # most pages say nothing
            await page.prepare()
            visit.usage = spell(page.usage)
            if visit.usage and (why := self._reserved_by(page)):
                return visit.skipped(why)
        if self.follows_canonical and (link := self._canonical_of(page)):
            return visit.skipped(Refused(f"it is a copy of {link.url}", "canonical"), link)
        return None

    async def handled(self, visit: Visit, output: HandlerOutput) -> None:
        """Drop the links and items that the page asks robots not to take."""
        page = visit.page
        if self.nofollow and output.requests:
            self._drop_links(page, output)
        if self.noindex and output.items and "noindex" in page.directives:
            output.items = []
            output.refused.append((page.url, Refused("it says noindex", "noindex")))

    def tell(self, visit: Visit) -> str:
        return f"it says {visit.usage}" if visit.usage else "it says nothing about its use"

    def _reserved_by(self, page: Page) -> Refused | None:
        """Why its handler does not run, if the page reserves a use this crawl is for."""
        kept = sorted(use for use in self.reserved if page.usage.get(use) is False)
        return Refused(f"it reserves {', '.join(kept)}", "usage") if kept else None

    def _canonical_of(self, page: Page) -> Request | None:
        """A request for the page that this one is a copy of, if it may be fetched; None if another
        page named this one canonical, as two pages may name each other."""
        request = page.request
        if not request.is_plain or CANONICAL_OF in request.meta:
            return None
        url = page.canonical
        if url is None or identify(url).canonical == identify(page.url).canonical:
            return None
        meta = request.meta | {CANONICAL_OF: page.url}
        link = msgspec.structs.replace(request, url=url, parent=page.url, meta=meta)
        if isinstance(self.parts.allows(link, parent=page.url), Refused):
            return None
        robots = self.parts.robots
        return link if not robots.is_obeyed or robots.split([link])[0] else None

    def _drop_links(self, page: Page, output: HandlerOutput) -> None:
        if "nofollow" in page.directives:
            kept, why = [], Refused("its page says nofollow", "nofollow")
        else:
            marked = page.nofollow_links()
            kept = [request for request in output.requests if request.url not in marked]
            why = Refused("the link is marked nofollow", "nofollow")
        left = set(map(id, kept))
        output.refused += [
            (request.url, why) for request in output.requests if id(request) not in left
        ]
        output.requests = kept
