"""What went wrong in a crawl: failures by kind, and handlers that found nothing."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from skitter.engine.watchdog import BLOCKING
from skitter.frontier.dead import Filter, dead_letters
from skitter.frontier.workers import Event, read_log
from skitter.observe.report import some
from skitter.redact import redact, redact_text
from skitter.spider.source import not_yielded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from skitter.frontier.frontier import Frontier
    from skitter.spider.spider import Spider


#: A handler's error, as worded by engine/verdict.py: handler, exception, message, and place.
_HANDLER = re.compile(
    r"(?P<head>handler \S+ failed: [\w.]+)(?P<said>.*?)(?P<place> \(\S+:\d+.*\))?"
)
#: As worded by engine/delivery.py and loading.py. Without a field, the user's own hook said so.
_REJECTED = re.compile(r"an item from (?P<url>\S+) was rejected: (?P<why>.+)", re.DOTALL)
_PLACE = re.compile(r"(?<![^\s(])[^\s(]+:\d+: ")
_URL = re.compile(r"https?://\S+")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
LONGEST = 160
MAX_REMARKS = 20
LOOK_AT = 10_000  # dead letters; more would take longer than anybody waits for a report


def kind_of(reason: str) -> str:
    """The reason without the parts that differ from page to page. Pure."""
    handler = _HANDLER.fullmatch(reason)
    # Our own errors are sentences, without the name of an exception.
    if handler and handler["place"] and (not handler["said"] or handler["said"][0] == ":"):
        return f"{handler['head']}{handler['place']}"[:LONGEST]
    return _QUOTED.sub("'...'", _URL.sub("...", redact_text(reason)))[:LONGEST]


async def dead_reasons(frontier: Frontier) -> dict[str, int]:
    """The number of dead letters of each kind, most frequent first."""
    found: Counter[str] = Counter()
    async for letter in dead_letters(frontier):
        found[kind_of(letter.reason)] += 1
        if found.total() >= LOOK_AT:
            break
    return dict(found.most_common())


async def vanished(frontier: Frontier, *, since_s: float) -> list[str]:
    """URLs given up since then because their workers vanished, as lua/lib/reap.lua words it."""
    letters = dead_letters(frontier, Filter(reason="its worker vanished"))
    return [redact(letter.url) async for letter in letters if letter.at >= since_s][:LOOK_AT]


@dataclass(slots=True)
class HandlerErrors:
    """Handler errors since the crawl started, as logged by workers, counted by kind."""

    counts: Counter[str] = field(default_factory=Counter)
    last: dict[str, str] = field(default_factory=dict)  # kind -> its last error; newest kind last
    _remarks: dict[str, str] = field(default_factory=dict)  # on mistakes that cost no page, by kind
    _said: int = 0
    _after: str = ""

    async def read(self, frontier: Frontier, *, since_s: float) -> list[str]:
        """Read what is new in the log. Returns an error for each kind not seen before."""
        self._after = self._after or f"{int(since_s * 1000)}-0"
        known = set(self.counts)
        while events := await read_log(frontier, self._after):
            self._after = events[-1].id
            for event in events:
                self.add(event)
        return [self.last[kind] for kind in self.counts if kind not in known]

    def remarks(self) -> list[str]:
        """New kinds of rejected items and of handlers that block."""
        before, self._said = self._said, len(self._remarks)
        return list(self._remarks.values())[before:]

    def add(self, event: Event) -> None:
        self._add_remark(event)
        url, _, reason = event.text.partition(": ")  # engine/delivery.py
        if not _HANDLER.fullmatch(reason):
            return
        kind = kind_of(reason)
        self.counts[kind] += 1
        self.last.pop(kind, None)
        self.last[kind] = f"{reason}, on {url}"

    def _add_remark(self, event: Event) -> None:
        rejected = _REJECTED.fullmatch(event.text) if event.level != "info" else None
        place = _PLACE.search(event.text)
        if rejected:
            named = rejected["why"].partition(":")[0]
            kind = f"{named} {place[0]}" if place else kind_of(rejected["why"])
            text = f"rejected: {rejected['why']}, from {rejected['url']}"
        elif event.text.startswith(BLOCKING):
            kind = text = event.text.removeprefix(BLOCKING)
            kind = place[0] if place else text
            text = f"blocked: {text}"
        else:
            return
        if len(self._remarks) < MAX_REMARKS:
            self._remarks.setdefault(kind, redact_text(text))

    def lines(self, limit: int) -> list[str]:
        """The newest kinds, each with its last error and its count."""
        newest = list(self.last.items())[-limit:]
        return [f"{self.counts[kind]:,} x {text}" for kind, text in reversed(newest)]


ENOUGH: Final = 20
#: A handler that fails with one error on this many pages, and on all of them, will on the others.
FIRST_PAGES: Final = 10


class Yields(msgspec.Struct, frozen=True):
    """What handlers did in a run: counts by what, handler, and perhaps selector.

    A page without a next one, or without an item, is no mistake. So in a job that once had a match,
    or once yielded something, it takes some pages to say so.
    """

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
