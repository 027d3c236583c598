"""What went wrong, and how often: reasons that differ only in their values count as one."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skitter.engine.stalls import BLOCKING
from skitter.frontier.admin.dead import dead_letters
from skitter.frontier.admin.log import Event, read_log
from skitter.redact import redact_text

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier

#: A handler's error, as worded by engine/verdict.py: handler, exception, message, and place.
_HANDLER = re.compile(
    r"(?P<head>handler \S+ failed: [\w.]+)(?P<said>.*?)(?P<place> \(\S+:\d+.*\))?"
)
#: As worded by worker/delivery.py and loading.py. Without a field, the user's own hook said so.
_REJECTED = re.compile(r"an item from (?P<url>\S+) was rejected: (?P<why>.+)", re.DOTALL)
_PLACE = re.compile(r"[^\s(]+:\d+: ")
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
        url, _, reason = event.text.partition(": ")  # worker/delivery.py
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
