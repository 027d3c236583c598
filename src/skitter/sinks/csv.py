"""CSV with a header line: UTF-8, commas, quotes where needed, lines end with a line feed.

Spreadsheets take text that begins with = + - @ for a formula, which may send the other cells to a
stranger: in a safe file such text, unless it is a number, begins with an apostrophe.

Columns are the fields in the order in which they first came. A row with a new field makes the file
be written anew with a wider header, and that file takes the old one's place at once: no row ever
stands under the wrong heading. Crawls whose items keep changing shape are better off in a database.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from skitter.sinks.base import RowsRefused
from skitter.sinks.growing import GrowingFile, Head, Record
from skitter.sinks.kinds import text_of
from skitter.sinks.rows import MAX_COLUMNS, Row, rows_of, too_wide

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from skitter.model import Result

_OWN = ("_id", "_url", "_fetched_at")

# owasp.org/www-community/attacks/CSV_Injection; the wide forms are what a Japanese Excel takes.
_FORMULA: Final = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
# Some spreadsheets split at these too, and a formula could begin behind one.
_QUOTED: Final = re.compile('[",;\t\r\n]')


class CsvFile:
    """A .csv file."""

    def __init__(self, path: Path, *, job: str, safe: bool = True) -> None:
        self._file = GrowingFile(path, job=job)
        self.description = f"CSV file {path}"
        self._cell = partial(_cell, safe=safe)
        self._closed = False

    def write(self, results: Sequence[Result]) -> None:
        rows = rows_of(results)
        digests = {row.id: row.digest for row in rows}
        new, stale = self._file.news(digests)
        rows = [row for row in rows if row.id in new]
        if not rows:
            return
        head = self._widen(rows)
        records = [Record(row.id, self._record(row, head.columns), digests[row.id]) for row in rows]
        self._file.append(records, stale=stale, head=head)

    def _widen(self, rows: list[Row]) -> Head:
        """The header, after the file has it."""
        with self._file.ledger.guard():
            columns = self._file.ledger.fact("columns", [])
        wider = _columns_for(rows, columns or list(_OWN))
        head = Head(_encode(map(self._cell, wider)), wider)
        if columns and wider != columns:
            # New columns come last, so that a record grows by as many commas and stays the same.
            commas = b"," * (len(wider) - len(columns))
            self._file.rewrite(lambda record: record[:-1] + commas + b"\n", head=head)
        return head

    def _record(self, row: Row, columns: Iterable[str]) -> bytes:
        values = {"_id": row.id, "_url": row.url, "_fetched_at": row.fetched_at, **row.fields}
        return _encode(self._cell(values.get(column)) for column in columns)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._file.close()


def _columns_for(rows: list[Row], columns: list[str]) -> list[str]:
    wider = dict.fromkeys(columns)  # a set that keeps the order
    refused: list[tuple[Result, str]] = []
    for row in rows:
        fresh = [field for field in row.fields if field not in wider]
        if len(wider) + len(fresh) > MAX_COLUMNS + len(_OWN):
            refused.append((row.result, too_wide(f"it adds {len(fresh):,} columns")))
        else:
            wider.update(dict.fromkeys(fresh))
    if refused:
        raise RowsRefused(refused)
    return list(wider)


def _cell(value: object, *, safe: bool) -> str:
    text = "" if value is None else text_of(value)
    is_number = isinstance(value, int | float) or _NUMBER.fullmatch(text)
    return f"'{text}" if safe and _FORMULA.match(text) and not is_number else text


def _encode(cells: Iterable[str]) -> bytes:
    return ",".join(_quoted(cell) for cell in cells).encode() + b"\n"


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if _QUOTED.search(cell) else cell
