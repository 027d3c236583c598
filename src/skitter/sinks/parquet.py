"""Parquet: typed columns, in groups of rows that readers skip. Lists and dicts are JSON text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Final

from skitter.sinks.base import FileFormat, MissingExtra
from skitter.sinks.columns import Kind, fit, json_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skitter.sinks.base import Row

try:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]
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
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")
        self._held: list[pa.Table] = []

    def write(self, rows: Sequence[Row]) -> None:
        values = [row.values for row in rows]
        arrays = [
            _array([each.get(name) for each in values], kind)
            for name, kind in self._columns.items()
        ]
        self._held.append(pa.Table.from_arrays(arrays, schema=self._schema))
        count, size = (sum(getattr(t, name) for t in self._held) for name in ("num_rows", "nbytes"))
        if count >= _GROUP_ROWS or size >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held))
            self._held = []


def _array(values: list[Any], kind: Kind) -> pa.Array:
    fitted = [fit(value, kind) for value in values]
    if kind is Kind.JSON:
        fitted = [None if value is None else json_text(value) for value in fitted]
    return pa.array(fitted, _TYPES[kind])
