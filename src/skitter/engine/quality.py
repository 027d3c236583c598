"""What handlers find, counted in memory until the next heartbeat sends it to the server."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from skitter.frontier.admin.quality import (
    MAX_COLUMNS,
    MAX_HANDLERS,
    Observed,
    column,
    observe,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skitter.frontier.frontier import Frontier

MAX_SHAPES = 500
#: Types whose falsy values still count as filled.
_NUMBERS = frozenset({int, float, bool})
_KINDS: dict[type, str] = {
    str: "text",
    int: "number",
    float: "number",
    bool: "bool",
    list: "list",
    tuple: "list",
    dict: "object",
}

#: Field names, then the types of their values; None: empty.
Shape = tuple[Any, ...]


@dataclass(slots=True)
class _Found:
    """What one handler found."""

    pages: int = 0
    items: int = 0
    blocked: int = 0
    #: Items by field names and value types: one look-up per item, not per field.
    shapes: dict[Shape, int] = field(default_factory=dict)
    columns: Counter[str] = field(default_factory=Counter)

    def add(self, item: Mapping[str, Any]) -> None:
        if len(item) > MAX_COLUMNS:
            item = dict(islice(item.items(), MAX_COLUMNS))
        values = item.values()
        shape: Shape
        if all(values):
            shape = (*item, *map(type, values))
        else:
            shape = (*item, *[type(v) if v or type(v) in _NUMBERS else None for v in values])
        shapes = self.shapes
        shapes[shape] = shapes.get(shape, 0) + 1
        if len(shapes) > MAX_SHAPES:
            self.unfold()

    def unfold(self) -> None:
        """Turn shapes into columns. Field names may be data, so only the first ones are kept."""
        for shape, count in self.shapes.items():
            half = len(shape) // 2
            for name, kind in zip(shape[:half], shape[half:], strict=True):
                if kind is not None:
                    key = column(name, _KINDS.get(kind, kind.__name__))
                    if key in self.columns or len(self.columns) < MAX_COLUMNS:
                        self.columns[key] += count
        self.shapes.clear()

    def observed(self, handler: str) -> Observed:
        self.unfold()
        return Observed(handler, self.pages, self.items, self.blocked, dict(self.columns))


@dataclass(slots=True)
class FoundItems:
    """What this process found since its last successful heartbeat."""

    default: str = ""  # the handler of requests that name none
    _handlers: dict[str, _Found] = field(default_factory=dict)
    _unsent: list[Observed] = field(default_factory=list)

    def add_page(
        self, handler: str | None, items: Sequence[Mapping[str, Any]], *, unread: int = 0
    ) -> None:
        """A page is done, and the server knows it. Unread: items whose fields are unknown."""
        found = self._of(handler)
        found.pages += 1
        found.items += len(items) + unread
        for item in items:
            found.add(item)

    def add_blocked(self, handler: str | None) -> None:
        self._of(handler).blocked += 1

    def _of(self, handler: str | None) -> _Found:
        name = handler or self.default
        found = self._handlers.get(name)
        if found is None:
            found = _Found()
            if len(self._handlers) < MAX_HANDLERS:
                self._handlers[name] = found
        return found

    async def send(self, frontier: Frontier) -> None:
        """What the server did not take is sent first the next time."""
        if not self._unsent:
            found, self._handlers = self._handlers, {}
            self._unsent = [one.observed(name) for name, one in found.items()]
        if self._unsent:
            await observe(frontier, self._unsent)
            self._unsent = []
