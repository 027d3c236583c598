"""Some rows and columns of a table, for an export."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from skitter.errors import UsageError
from skitter.sinks.columns import OWN, Kind, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from skitter.model import Result
    from skitter.sinks.databases.sql import SqlTable
    from skitter.sinks.databases.stored_table import Page

_COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
#: Other languages write == and <>.
_WHERE: Final = re.compile(r"(?s)([^=<>]+?)\s*(!=|<=|>=|=|<|>)(?![=<>])\s*(.*)")


@dataclass(frozen=True, slots=True)
class Condition:
    """`price>10`: numbers are compared as such, all else as text."""

    field: str
    sign: str
    value: str

    @classmethod
    def of(cls, text: str) -> Condition:
        if not (found := _WHERE.fullmatch(text.strip())):
            raise UsageError(f"--where is FIELD=VALUE, with =, !=, <, <=, > or >=: not {text!r}.")
        return cls(*found.groups())

    def holds(self, result: Result) -> bool:
        """Not for a row without the field, unless by `!=`."""
        value = result.url if self.field == "_url" else result.item.get(self.field)
        if value is None:
            return self.sign == "!="
        numbers = _number(value), _number(self.value)
        if None not in numbers:
            return _COMPARED[self.sign](*numbers)
        return _COMPARED[self.sign](text_of(value), self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to export; empty: all."""

    columns: tuple[str, ...] = ()
    where: tuple[Condition, ...] = ()
    changed_since: float = 0.0  # seconds since the epoch

    def has(self, result: Result) -> bool:
        return result.fetched_at >= self.changed_since and all(
            condition.holds(result) for condition in self.where
        )

    def of(self, table: SqlTable) -> Selected:
        return Selected(table, self)


@dataclass(frozen=True, slots=True)
class Selected:
    """The rows of a table that were selected."""

    table: SqlTable
    what: Selection

    def read(self, *, batch: int) -> Generator[Page]:
        for page in self.table.read(batch=batch):
            rows = [self._cut(result) for result in page.results if self.what.has(result)]
            yield type(page)(self._columns(page.columns), rows)

    def _cut(self, result: Result) -> Result:
        if not (fields := self.what.columns):
            return result
        return replace(result, item={name: result.item.get(name) for name in fields})

    def _columns(self, known: dict[str, Kind]) -> dict[str, Kind]:
        fields = self.what.columns
        used = {*fields, *(condition.field for condition in self.what.where)}
        if unknown := sorted(used - known.keys()):
            there = ", ".join(name for name in known if name not in OWN)
            raise UsageError(f"the rows have no field {unknown[0]!r}: they have {there}.")
        for condition in self.what.where:
            is_number = known[condition.field] in (Kind.INT, Kind.LONG, Kind.FLOAT)
            if is_number and condition.sign[0] in "<>" and _number(condition.value) is None:
                raise UsageError(
                    f"--where: {condition.field} is a number, and {condition.value!r} is none."
                )
        own = [name for name in OWN if name in known]
        return {name: known[name] for name in (*own, *fields)} if fields else known


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
