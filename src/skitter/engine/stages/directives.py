"""What pages ask of robots, and which of it this crawl obeys.

docs/howto/robots.md gives the reasons for the defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import msgspec

from skitter.fetch.robots import product_token
from skitter.page.signals import has_signals, spell
from skitter.spider.scope import Refused
from skitter.urls import identify

if TYPE_CHECKING:
    from skitter.model import Request
    from skitter.page import Page
    from skitter.settings import FetchOptions
    from skitter.spider.run import HandlerOutput

#: Key of `Request.meta`: the page that named this one as its canonical form.
CANONICAL_OF: Final = "_canonical_of"


@dataclass(frozen=True, slots=True, kw_only=True)
class Directives:
    """Which directives are obeyed. All of them are recorded."""

    robot: str = "skitter"  # our name
    nofollow: bool = False
    noindex: bool = False
    canonical: bool = False
    reserved: frozenset[str] = frozenset()  # uses that this crawl is for

    @classmethod
    def of(cls, options: FetchOptions) -> Self:
        return cls(
            robot=product_token(options.user_agent),
            nofollow=options.obey_nofollow,
            noindex=options.obey_noindex,
            canonical=options.follow_canonical,
            reserved=frozenset(options.skip_reserved),
        )

    async def read(self, page: Page, by_robots: str) -> str:
        """What the page says about its use, spelled for the record; most pages say nothing."""
        page.robot, page.robots_usage = self.robot, by_robots
        if not by_robots and not has_signals(page.headers, page.body):
            return ""
        await page.prepare()
        return spell(page.usage)

    def reserved_by(self, page: Page) -> Refused | None:
        """Why its handler does not run, if the page reserves a use this crawl is for."""
        kept = sorted(use for use in self.reserved if page.usage.get(use) is False)
        return Refused(f"it reserves {', '.join(kept)}", "usage") if kept else None

    def canonical_of(self, page: Page) -> Request | None:
        """A request for the page that this one is a copy of; None if another page named this one
        canonical, as two pages may name each other."""
        request = page.request
        if not self.canonical or not request.is_plain or CANONICAL_OF in request.meta:
            return None
        url = page.canonical
        if url is None or identify(url).canonical == identify(page.url).canonical:
            return None
        meta = request.meta | {CANONICAL_OF: page.url}
        return msgspec.structs.replace(request, url=url, parent=page.url, meta=meta)

    def obey(self, page: Page, output: HandlerOutput) -> None:
        """Drop the links and items that the page asks robots not to take."""
        if self.nofollow and output.requests:
            self._drop_links(page, output)
        if self.noindex and output.items and "noindex" in page.directives:
            output.items = []
            output.refused.append((page.url, Refused("it says noindex", "noindex")))

    def _drop_links(self, page: Page, output: HandlerOutput) -> None:
        if "nofollow" in page.directives:
            kept, why = [], Refused("its page says nofollow", "nofollow")
        else:
            marked = page.nofollow_links()
            kept = [one for one in output.requests if one.url not in marked]
            why = Refused("the link is marked nofollow", "nofollow")
        left = set(map(id, kept))
        output.refused += [(one.url, why) for one in output.requests if id(one) not in left]
        output.requests = kept
