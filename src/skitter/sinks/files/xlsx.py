"""Excel: a sheet of rows, and another one after each 1,048,575. Needs the extra `xlsx`.

Text is stored as text: nothing in it is run as a formula. Lists and dicts are JSON text; times are
in UTC.
"""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from skitter.sinks.base import BadSink, FileFormat, MissingExtra
from skitter.sinks.columns import EXACT_IN_FLOAT, Kind, fit, text_of, utc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skitter.sinks.base import Row

try:
    from xlsxwriter import Workbook  # type: ignore[import-untyped]
except ImportError as error:
    raise MissingExtra("a .xlsx file", "xlsx") from error

# support.microsoft.com: Excel specifications and limits
MOST_ROWS: Final = 1_048_576
MOST_TEXT: Final = 32_767
FIRST_YEAR: Final = 1900
_OPTIONS: Final = {
    "constant_memory": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
}


class XlsxFormat(FileFormat):
    """A .xlsx file."""

    lead = b"PK"

    def __init__(self, file: BinaryIO, columns: Mapping[str, Kind], *, safe: bool) -> None:
        self._columns = dict(columns)
        self._book = Workbook(file, _OPTIONS)
        formats = {"time": "yyyy-mm-dd hh:mm:ss", "date": "yyyy-mm-dd"}
        self._formats = {
            name: self._book.add_format({"num_format": form}) for name, form in formats.items()
        }
        self._begin_sheet()

    def _begin_sheet(self) -> None:
        self._sheet, self._at = self._book.add_worksheet(), 1
        for number, name in enumerate(self._columns):
            self._sheet.write_string(0, number, name)

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if self._at == MOST_ROWS:
                self._begin_sheet()
            values = row.values
            for number, (name, kind) in enumerate(self._columns.items()):
                self._put(number, fit(values.get(name), kind), row.url)
            self._at += 1

    def _put(self, column: int, value: Any, url: str) -> None:
        sheet, at = self._sheet, self._at
        if value is None or value != value:  # NaN
            return
        if isinstance(value, bool):
            sheet.write_boolean(at, column, value)
        elif isinstance(value, int | float) and abs(value) <= EXACT_IN_FLOAT:
            sheet.write_number(at, column, value)
        elif isinstance(value, date) and value.year >= FIRST_YEAR:
            is_time = isinstance(value, datetime)
            moment = utc(value).replace(tzinfo=None) if isinstance(value, datetime) else value
            sheet.write_datetime(at, column, moment, self._formats["time" if is_time else "date"])
        else:
            sheet.write_string(at, column, self._checked(text_of(value), url))

    def close(self) -> None:
        self._book.close()

    def _checked(self, text: str, url: str) -> str:
        if len(text) > MOST_TEXT:
            for sheet in self._book.worksheets():  # nobody closes a workbook that is given up
                sheet.row_data_fh.close()
                Path(sheet.row_data_filename).unlink(missing_ok=True)
            raise BadSink(
                f"an Excel cell holds at most {MOST_TEXT:,} characters, and an item from {url} has "
                f"{len(text):,} in one field: choose .csv, .json or .parquet."
            )
        return text
