"""Parquet: typed columns, in groups of rows that readers skip; lists and dicts as such.

The type of a list or a dict is known when all rows are. So rows first go to a draft, with lists and
dicts as JSON; the file is written from that, a group at a time.
"""

from __future__ import annotations

from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec

from skitter.sinks.base import FileFormat, MissingExtra
from skitter.sinks.columns import Kind, fit, json_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skitter.sinks.base import Row

try:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    from skitter.sinks.files.nested import NULL, both, fitted, settled, type_of
except ImportError as error:
    raise MissingExtra("a .parquet file", "parquet") from error

# A row group is held in memory until it is written: cap its rows, and its size if rows are large.
_GROUP_ROWS: Final = 50_000
_GROUP_BYTES: Final = 64 * 2**20
_TYPES: Final = {
    Kind.NULL: pa.null(),
    Kind.BOOL: pa.bool_(),
    Kind.INT: pa.int64(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.TIME: pa.timestamp("us", tz="UTC"),
    Kind.DATE: pa.date32(),
    Kind.JSON: pa.string(),
}


class ParquetFormat(FileFormat):
    """A .parquet file."""

    lead = b"PAR1"

    def __init__(self, file: BinaryIO, columns: Mapping[str, Kind], *, safe: bool) -> None:
        self._columns = dict(columns)
        self._schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])
        self._file = file
        self._nested = {name: NULL for name, kind in columns.items() if kind is Kind.JSON}
        self._draft = TemporaryFile() if self._nested else None  # noqa: SIM115  until it is garbage
        self._writer = pq.ParquetWriter(self._draft or file, self._schema, compression="zstd")
        self._held: list[pa.Table] = []

    def __del__(self) -> None:
        if draft := getattr(self, "_draft", None):
            draft.close()

    def write(self, rows: Sequence[Row]) -> None:
        values = [row.values for row in rows]
        arrays = [
            self._array(name, [each.get(name) for each in values], kind)
            for name, kind in self._columns.items()
        ]
        self._held.append(pa.Table.from_arrays(arrays, schema=self._schema))
        count, size = (sum(getattr(t, name) for t in self._held) for name in ("num_rows", "nbytes"))
        if count >= _GROUP_ROWS or size >= _GROUP_BYTES:
            self._flush()

    def _array(self, name: str, values: list[Any], kind: Kind) -> pa.Array:
        values = [fit(value, kind) for value in values]
        if kind is Kind.JSON:
            for value in values:
                self._nested[name] = both(self._nested[name], type_of(value))
            values = [None if value is None else json_text(value) for value in values]
        return pa.array(values, _TYPES[kind])

    def close(self) -> None:
        self._flush()
        self._writer.close()
        if self._draft:
            with self._draft:
                self._rewrite(self._draft)

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held))
            self._held = []

    def _rewrite(self, draft: Any) -> None:
        """The draft with lists and structs in place of JSON."""
        types = {name: settled(found) for name, found in self._nested.items()}
        schema = pa.schema([(f.name, types.get(f.name, f.type)) for f in self._schema])
        source = pq.ParquetFile(draft)
        with pq.ParquetWriter(self._file, schema, compression="zstd") as writer:
            for number in range(source.num_row_groups):
                group = source.read_row_group(number)
                columns = [_opened(group[f.name], f.type, f.name in types) for f in schema]
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _opened(column: Any, kind: pa.DataType, nested: bool) -> Any:
    if not nested:
        return column
    values = (None if one is None else msgspec.json.decode(one) for one in column.to_pylist())
    return pa.array([fitted(value, kind) for value in values], kind)
