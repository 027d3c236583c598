"""Items of several types in one table: the field `_type` says which. A file that is written at the
end gets one more file for each type, with the columns of that type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skitter.sinks.names import OWN, TYPE

if TYPE_CHECKING:
    from collections.abc import Generator

    from skitter.sinks.sql import Page, SqlTable

_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class OfType:
    """The rows of one type, and its columns."""

    table: SqlTable
    name: str
    columns: frozenset[str]

    def read(self, *, batch: int) -> Generator[Page]:
        for page in self.table.read(batch=batch):
            columns = {name: kind for name, kind in page.columns.items() if name in self.columns}
            rows = [one for one in page.results if one.item.get(TYPE) == self.name]
            yield type(page)(columns, rows)


def types_of(table: SqlTable) -> list[OfType]:
    """The types in a table, each with the columns that its rows fill; none if it has no types."""
    filled: dict[str, set[str]] = {}
    for page in table.read(batch=_BATCH):
        if TYPE not in page.columns:
            return []
        for one in page.results:
            if name := one.item.get(TYPE):
                names = (field for field, value in one.item.items() if value is not None)
                filled.setdefault(str(name), set(OWN)).update(names)
    return [
        OfType(table, name, frozenset(names - {TYPE})) for name, names in sorted(filled.items())
    ]
