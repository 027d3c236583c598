"""Parquet: parts while it is written, one file when it is closed."""

from __future__ import annotations

import math
from contextlib import closing
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from sinks.making import JOB, result, results, row_id, write
from sinks.test_files import file_size_limit
from skitter.sinks.base import BadSink, RowsRefused, SinkAway, SinkBusy
from skitter.sinks.dsn import open_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "items.parquet"


def rows_in(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def parts_in(path: Path) -> list[str]:
    return sorted(part.name for part in path.iterdir())


def test_types_are_kept(path: Path):
    item = {
        "title": "Ünïcode",
        "pages": 352,
        "long": 2**63 - 1,
        "price": 12.5,
        "nan": math.inf,
        "sold": True,
        "cover": b"\x00",
        "seen": datetime(2024, 2, 3, 4, 5, 6, 789, tzinfo=UTC),
        "day": date(2024, 2, 3),
    }
    write(path, [result(0, {**item, "tags": ["a", None], "none": None, "huge": 2**64})])
    (row,) = rows_in(path)
    assert {name: row[name] for name in item} == item
    assert (row["_id"], row["_url"]) == (row_id(0), "https://books.example/0")
    assert row["_fetched_at"] == datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=UTC)
    assert (row["tags"], row["none"], row["huge"]) == ('["a",null]', None, str(2**64))


def test_each_batch_is_a_part_and_closing_makes_one_of_them(path: Path):
    with closing(open_store(str(path), job=JOB)) as store:
        for number in range(3):
            store.write([result(number, {"n": number})])
        assert parts_in(path) == [f"part-{n:08}.parquet" for n in (1, 2, 3)]
        assert len(rows_in(path)) == 3
    assert parts_in(path) == ["part-00000004.parquet"]
    assert [row["n"] for row in rows_in(path)] == [0, 1, 2]


def test_rows_that_come_again_make_no_part(path: Path):
    rows = results([{"n": n} for n in range(4)])
    write(path, rows[:2], rows[2:], rows[1:3])
    write(path, rows)
    assert [row["n"] for row in rows_in(path)] == [0, 1, 2, 3]


def test_a_row_that_comes_again_changed_takes_the_place_of_the_old_one(path: Path):
    write(path, results([{"n": 0}, {"n": 1}]), [result(0, {"n": 7})], [result(0, {"n": 8})])
    assert sorted((row["_id"], row["n"]) for row in rows_in(path)) == [
        (row_id(0), 8),
        (row_id(1), 1),
    ]


def test_columns_are_added_and_widened_without_losing_old_rows(path: Path):
    write(
        path,
        [result(0, {"x": 1, "y": 1, "z": "text", "w": True})],
        [result(1, {"x": 2.5, "y": "b", "z": [1], "new": 5})],
        [result(2, {"x": None, "y": None})],
    )
    write(path, [result(3, {"w": 2, "x": 2**53 + 1})])
    fields = ("x", "y", "z", "w", "new")
    assert [tuple(row[field] for field in fields) for row in rows_in(path)] == [
        ("1.0", "1", '"text"', "true", None),
        ("2.5", "b", "[1]", None, 5),
        (None, None, None, None, None),
        (str(2**53 + 1), None, None, "2", None),
    ]


def test_odd_names_of_fields_work(path: Path):
    item = {"": 1, "Name": 2, "name": 3, "ü" * 100: 4, "_id": 5, "a.b": 6}
    write(path, [result(0, item)], [result(1, item)])
    assert all(set(range(1, 7)) <= set(row.values()) for row in rows_in(path))


def test_a_full_disk_leaves_whole_parts_and_the_rest_can_be_written_later(path: Path):
    rows = results([{"text": f"{n}" * 3000} for n in range(60)])
    noise = [result(99, {"raw": bytes((n * n * 7 + n // 3) % 251 for n in range(200_000))})]
    with closing(open_store(str(path), job=JOB)) as store:
        store.write(rows)
        with file_size_limit(4000), pytest.raises(SinkAway):
            store.write(noise)
        assert len(rows_in(path)) == 60
        store.write(noise)
    assert len(rows_in(path)) == 61


def test_a_second_writer_is_told_that_there_is_one(path: Path):
    with closing(open_store(str(path), job=JOB)), pytest.raises(SinkBusy):
        open_store(str(path), job=JOB)


def test_a_file_or_a_directory_that_is_not_ours_is_left_alone(path: Path):
    path.mkdir()
    (path / "precious").touch()
    with pytest.raises(BadSink, match="is there already"):
        open_store(str(path), job=JOB)
    (path / "precious").unlink()
    path.rmdir()
    path.write_text("precious")
    with pytest.raises(BadSink, match="is a file"):
        open_store(str(path), job=JOB)


def test_a_part_that_somebody_removed_is_named(path: Path):
    write(path, [result(0, {"n": 1})])
    (path / "part-00000001.parquet").unlink()
    with pytest.raises(BadSink, match=r"part-00000001\.parquet is gone"):
        open_store(str(path), job=JOB)


def test_a_row_with_2000_columns_is_refused_with_advice(path: Path):
    with closing(open_store(str(path), job=JOB)) as store:
        with pytest.raises(RowsRefused, match="2,000 fields"):
            store.write([result(0, {f"f{n}": n for n in range(2000)})])
        store.write([result(0, {f"f{n}": n for n in range(1000)})])
        with pytest.raises(RowsRefused, match="it adds 1 columns"):
            store.write([result(1, {"g": 1})])


def test_a_merge_reads_files_of_many_row_groups(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skitter.sinks.parquet._GROUP_ROWS", 3)
    rows = results([{"n": n} for n in range(10)])
    write(path, rows[:4], rows[4:8], rows[8:])
    write(path, [result(n, {"n": -n}) for n in (0, 5, 9)])
    assert sorted(row["n"] for row in rows_in(path)) == [-9, -5, 0, 1, 2, 3, 4, 6, 7, 8]
    assert len(parts_in(path)) == 1
