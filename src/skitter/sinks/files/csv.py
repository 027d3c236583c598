"""CSV with a header line: UTF-8, commas, quotes where needed, lines ending in a line feed.

Spreadsheets read text that begins with = + - @ as a formula, which may send the other cells to a
stranger: a safe file puts an apostrophe in front of such text, unless it is a number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO, Final

from skitter.sinks.base import FileFormat
from skitter.sinks.columns import Kind, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skitter.sinks.base import Row

# owasp.org/www-community/attacks/CSV_Injection; Japanese Excel also accepts the full-width forms.
_FORMULA: Final = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER: Final = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?")
# Some spreadsheets split at these too, and a formula could begin after one.
_QUOTED: Final = re.compile('[",;\t\r\n]')


class CsvFormat(FileFormat):
    """A .csv file."""

    lead = b"_id,_url,_fetched_at"

    def __init__(self, file: BinaryIO, columns: Mapping[str, Kind], *, safe: bool) -> None:
        self._file, self._columns, self._safe = file, list(columns), safe
        self._put(self._columns)

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            values = row.values
            self._put(values.get(column) for column in self._columns)

    def _put(self, values: Iterable[object]) -> None:
        cells = (_quoted(_cell(value, safe=self._safe)) for value in values)
        self._file.write(",".join(cells).encode() + b"\n")


def _cell(value: object, *, safe: bool) -> str:
    text = "" if value is None else text_of(value)
    is_number = isinstance(value, int | float) or _NUMBER.fullmatch(text)
    return f"'{text}" if safe and _FORMULA.match(text) and not is_number else text


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if _QUOTED.search(cell) else cell
