"""Results to write, and what sinks hold afterwards."""

from __future__ import annotations

import asyncio
import csv
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from skitter.model import Result
from skitter.sinks.export import Target, export
from skitter.sinks.registry import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

JOB = "books"
FETCHED_AT = 1_700_000_000.25


def result(number: int, item: Any, *, index: int = 0) -> Result:
    return Result(
        id=f"{number}-{index}",
        fingerprint=f"{number:016x}",
        index=index,
        url=f"https://books.example/{number}",
        item=item,
        fetched_at=FETCHED_AT,
    )


def results(items: Sequence[Any]) -> list[Result]:
    return [result(number, item) for number, item in enumerate(items)]


def row_id(number: int, index: int = 0) -> str:
    return f"{number:016x}-{index}"


def write(
    dsn: str | Path, *batches: Sequence[Result], table: str | None = None, job: str = JOB
) -> None:
    """Open, write the batches, close."""
    with closing(open_store(str(dsn), job=job, table=table)) as store:
        for batch in batches:
            store.write(batch)


def copy(database: str | Path, to: Path, *, csv_safe: bool = True) -> int:
    """Export the rows of the job."""
    return asyncio.run(export(str(database), Target(to, csv_safe=csv_safe), job=JOB))


def copy_of(to: Path, *batches: Sequence[Result], csv_safe: bool = True) -> Path:
    """A file of these rows, by way of a database."""
    database = to.with_suffix(".db")
    write(database, *batches)
    copy(database, to, csv_safe=csv_safe)
    return to


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def records_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


def rows_of(path: Path, table: str = JOB) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(f'SELECT * FROM "{table}" ORDER BY _id')]
