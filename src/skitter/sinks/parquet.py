"""Parquet: a directory `out.parquet/` of numbered parts, merged into one when it is closed.

A Parquet file cannot be added to, so each batch is a part. Part and ledger become valid in one step
(ledger.py): the part is written under a hidden name, the ledger records its rows and the move to
its real name. Readers take the directory for one table and never see an unfinished part; a part has
all columns of those before it. Lists and dicts are JSON text.
"""

from __future__ import annotations

import os
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from skitter.sinks.base import BadSink, MissingExtra, RowsRefused
from skitter.sinks.kinds import Kind, fit, json_text, kind_of, widen
from skitter.sinks.ledger import Ledger, Place, sync_directory
from skitter.sinks.rows import MAX_COLUMNS, Row, rows_of, too_wide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from skitter.model import Result

try:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]
except ImportError as error:
    raise MissingExtra("a .parquet file", "parquet") from error

_OWN: Final = {"_id": Kind.TEXT, "_url": Kind.TEXT, "_fetched_at": Kind.TIME}
_KIND: Final = b"skitter.kind"  # in a column's metadata: JSON and text are both strings
_GROUP_ROWS: Final = 50_000  # rows that a merge holds in memory, and that readers skip at once
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


class ParquetParts:
    """A directory of .parquet parts."""

    def __init__(self, path: Path, *, job: str) -> None:
        if path.is_file():
            raise BadSink(f"{path} is a file, and would be a directory of parts: move it away.")
        self.path = path
        self.description = f"Parquet directory {path}"
        self._ledger = Ledger(path, job=job)
        self._closed = False
        try:
            with self._ledger.guard():
                self._recover()
        except BaseException:
            self._ledger.close()
            raise

    def _recover(self) -> None:
        self._ledger.settle()
        if not self.path.is_dir():
            if self._parts:
                self._ledger.forget()  # its owner moved it away, and wants a new one
            self.path.mkdir()
            sync_directory(self.path.parent)
        for draft in self.path.glob(".*.draft"):
            draft.unlink()
        missing = [n for n in self._parts if not self._part(n).exists()]
        if missing:
            raise BadSink(
                f"{self._part(missing[0])} is gone: somebody removed it. Move {self.path} and "
                f"{self.path.name}.state away to begin a new one."
            )
        if self._ledger.fact("stale", 0):
            self._merge()

    @property
    def _parts(self) -> list[int]:
        return list(self._ledger.fact("parts", []))

    def _part(self, number: int) -> Path:
        return self.path / f"part-{number:08}.parquet"

    def _draft(self, number: int) -> Path:
        return self.path / f".part-{number:08}.draft"

    def write(self, results: Sequence[Result]) -> None:
        rows = rows_of(results)
        digests = {row.id: row.digest for row in rows}
        with self._ledger.guard():
            self._ledger.settle()
            known = self._ledger.digests(list(digests))
            rows = [row for row in rows if known.get(row.id) != digests[row.id]]
            if rows:
                self._add_part(rows, digests, stale=sum(row.id in known for row in rows))

    def _add_part(self, rows: list[Row], digests: dict[str, bytes], *, stale: int) -> None:
        kinds = _widened({name: Kind(k) for name, k in self._ledger.fact("kinds", [])}, rows)
        number = self._next_number()
        self._save(number, [_table(rows, kinds)], kinds)
        with self._ledger.transaction():
            self._ledger.record(Place(r.id, number, n, digests[r.id]) for n, r in enumerate(rows))
            self._ledger.note("kinds", list(kinds.items()))
            self._ledger.note("stale", self._ledger.fact("stale", 0) + stale)
            self._note_parts([*self._parts, number])
            self._ledger.plan_moves([self._unveil(number)])
        self._ledger.settle()

    def _next_number(self) -> int:
        return int(self._ledger.fact("last_part", 0)) + 1

    def _note_parts(self, parts: list[int]) -> None:
        self._ledger.note("parts", parts)
        self._ledger.note("last_part", parts[-1])

    def _unveil(self, number: int) -> tuple[Path, Path]:
        return self._relative(self._draft(number)), self._relative(self._part(number))

    def _relative(self, path: Path) -> Path:
        return path.relative_to(self.path.parent)

    def _save(self, number: int, tables: Iterable[pa.Table], kinds: dict[str, Kind]) -> None:
        draft = self._draft(number)
        try:
            save(tables, kinds, draft)
            sync_directory(self.path)  # the ledger is about to rely on the draft's name
        except BaseException:
            draft.unlink(missing_ok=True)  # a full disk needs the room
            raise

    def _merge(self) -> None:
        """One part with the rows that count, in place of all."""
        parts = self._parts
        kinds = {name: Kind(k) for name, k in self._ledger.fact("kinds", [])}
        number = self._next_number()
        with self._ledger.transaction():
            self._save(number, self._live_rows(kinds), kinds)
            places = enumerate(self._ledger.places())
            self._ledger.replace(p._replace(at=number, size=n) for n, p in places)
            self._ledger.note("stale", 0)
            self._note_parts([number])
            gone = [(self._relative(self._part(old)), None) for old in parts]
            self._ledger.plan_moves([*gone, self._unveil(number)])
        self._ledger.settle()

    def _live_rows(self, kinds: dict[str, Kind]) -> Iterator[pa.Table]:
        for number, places in groupby(self._ledger.places(), key=lambda place: place.at):
            live = (place.size for place in places)
            yield from (cast(table, kinds) for table in _pick(self._part(number), live))

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            with self._ledger.guard():
                self._ledger.settle()
                if len(self._parts) > 1 or self._ledger.fact("stale", 0):
                    self._merge()
        finally:
            self._ledger.close()


def save(tables: Iterable[pa.Table], kinds: dict[str, Kind], to: Path) -> None:
    """Write one file, durably, in groups of rows that readers can skip."""
    schema = _schema(kinds)
    with to.open("wb") as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for group in _groups(tables):
                writer.write_table(group)
        file.flush()
        os.fsync(file.fileno())


def cast(table: pa.Table, kinds: dict[str, Kind]) -> pa.Table:
    """The rows of a part with the columns that all parts together have."""
    columns = [_cast_column(table, name, kind) for name, kind in kinds.items()]
    return pa.Table.from_arrays(columns, schema=_schema(kinds))


def _pick(part: Path, live: Iterator[int]) -> Iterator[pa.Table]:
    """The rows of a part with those numbers, which ascend; never all of it in memory."""
    first, wanted = 0, next(live, None)
    with pq.ParquetFile(part) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            numbers = []
            while wanted is not None and wanted < first + table.num_rows:
                numbers.append(wanted - first)
                wanted = next(live, None)
            first += table.num_rows
            yield table if len(numbers) == table.num_rows else table.take(numbers)


def _cast_column(table: pa.Table, name: str, kind: Kind) -> pa.ChunkedArray | pa.Array:
    index = table.schema.get_field_index(name)
    if index < 0:
        return pa.nulls(table.num_rows, _TYPES[kind])
    old = Kind(table.schema.field(index).metadata[_KIND].decode())
    column = table.column(index)
    if _TYPES[old] == _TYPES[kind] and (kind is Kind.JSON) == (old is Kind.JSON):
        return column
    return _array(column.to_pylist(), kind)  # JSON is the widest: it is never the old one here


def _widened(kinds: dict[str, Kind], rows: list[Row]) -> dict[str, Kind]:
    wider = dict(kinds or _OWN)
    refused: list[tuple[Result, str]] = []
    for row in rows:
        fresh = row.fields.keys() - wider.keys()
        if len(wider) + len(fresh) > MAX_COLUMNS + len(_OWN):
            refused.append((row.result, too_wide(f"it adds {len(fresh):,} columns")))
            continue
        for field, value in row.fields.items():
            wider[field] = widen(wider.get(field, Kind.NULL), kind_of(value))
    if refused:
        raise RowsRefused(refused)
    return wider


def _table(rows: list[Row], kinds: dict[str, Kind]) -> pa.Table:
    own: list[list[Any]] = [
        [row.id for row in rows],
        [row.url for row in rows],
        [row.fetched_at for row in rows],
    ]
    fields = [name for name in kinds if name not in _OWN]
    values = own + [[row.fields.get(field) for row in rows] for field in fields]
    arrays = [_array(v, k) for v, k in zip(values, kinds.values(), strict=True)]
    return pa.Table.from_arrays(arrays, schema=_schema(kinds))


def _array(values: list[Any], kind: Kind) -> pa.Array:
    fitted = [fit(value, kind) for value in values]
    if kind is Kind.JSON:
        fitted = [None if value is None else json_text(value) for value in fitted]
    return pa.array(fitted, _TYPES[kind])


def _schema(kinds: dict[str, Kind]) -> pa.Schema:
    return pa.schema(
        [pa.field(name, _TYPES[kind], metadata={_KIND: kind.value}) for name, kind in kinds.items()]
    )


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(each.num_rows for each in held) >= _GROUP_ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)
