"""Handlers that yielded nothing, and selectors that matched nothing, in one run of the fleet. Pure.

A page without a next one, or without an item, is no mistake. So in a job that once had a match, or
once yielded something, it takes some pages to say so.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from skitter.report import some
from skitter.spider.intent import not_yielded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from skitter.spider.spider import Spider

ENOUGH: Final = 20
#: A handler that fails with one error on this many pages, and on all of them, will on the others.
FIRST_PAGES: Final = 10


class Yields(msgspec.Struct, frozen=True):
    """What handlers did in a run: counts by what, handler, and perhaps selector."""

    now: Counter[str]
    ever: Counter[str]  # since the job was created

    @classmethod
    def between(cls, before: Mapping[str, int], after: Counter[str]) -> Yields:
        return cls(Counter({name: n - before.get(name, 0) for name, n in after.items()}), after)

    def total(self, what: str) -> int:
        return sum(self.named(what).values())

    @property
    def has_pages(self) -> bool:
        """Whether a handler ever ran."""
        return any(name.startswith("pages ") for name in self.ever)

    def handled(self, what: str, handler: str) -> int:
        return self.now[f"{what} {handler}"]

    def idle(self) -> dict[str, int]:
        """Handlers that yielded nothing -> how often they ran."""
        return {
            handler: ran
            for handler, ran in self.named("pages").items()
            if self._never(ran, f"items {handler}", f"links {handler}")
        }

    def unmatched(self) -> dict[tuple[str, str], int]:
        """Handler and selector without any match -> on how many pages it was tried."""
        found = {}
        for name, tried in self.named("tried").items():
            handler, _, selector = name.partition(" ")
            if self._never(tried, f"found {name}"):
                found[handler, selector] = tried
        return found

    def _never(self, tries: int, *names: str) -> bool:
        if tries <= 0 or any(self.now[name] for name in names):
            return False
        return tries >= ENOUGH or not any(self.ever[name] for name in names)

    def named(self, what: str) -> dict[str, int]:
        """Handler, or handler and selector -> how often."""
        return {
            name.partition(" ")[2]: n
            for name, n in self.now.items()
            if name.partition(" ")[0] == what
        }


def too_many_errors(
    yields: Yields, kinds: Iterable[str], *, limit: int | None, watched: bool
) -> str:
    """Why a run should stop; empty: it should not. `kinds`: of handlers' errors so far. Without a
    limit, only if somebody is watching: a fleet goes on, as other handlers may do well."""
    if limit is not None:
        failed = yields.total("failed")
        return f"{some(failed, 'handler error')} (--max-errors {limit})" if failed >= limit else ""
    for handler, failed in yields.named("failed").items() if watched else ():
        same = [kind for kind in kinds if kind.startswith(f"handler {handler} failed")]
        if failed >= FIRST_PAGES and not yields.handled("pages", handler) and len(same) == 1:
            return f"all {failed:,} pages so far ended with the same error, {same[0]}"
    return ""


def describe_idle(spider: Spider, yields: Yields) -> Iterator[str]:
    """`handler book ran 269 times and yielded nothing`, and where it makes something."""
    for handler, ran in yields.idle().items():
        place = not_yielded(spider.handlers.get(handler))
        hint = f" (not yielded: {place})" if place else ""
        yield f"handler {handler} ran {some(ran, 'time')} and yielded nothing{hint}"


def describe_unmatched(yields: Yields) -> Iterator[str]:
    for (handler, selector), tried in yields.unmatched().items():
        yield f"{selector!r} in handler {handler}, on {some(tried, 'page')}"
