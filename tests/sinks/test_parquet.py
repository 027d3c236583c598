"""Parquet files, written from a database."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from sinks.making import copy_of, result, results, row_id

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "items.parquet"


def rows_in(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def test_types_are_kept(path: Path):
    item = {
        "title": "Ünïcode",
        "pages": 352,
        "long": 2**63 - 1,
        "price": 12.5,
        "inf": math.inf,
        "sold": True,
        "cover": b"\x00",
        "seen": datetime(2024, 2, 3, 4, 5, 6, 789, tzinfo=UTC),
        "day": date(2024, 2, 3),
    }
    copy_of(path, [result(0, {**item, "tags": ["a", None], "none": None, "huge": 2**64})])
    (row,) = rows_in(path)
    assert {name: row[name] for name in item} == item
    assert (row["_id"], row["_url"]) == (row_id(0), "https://books.example/0")
    assert row["_fetched_at"] == datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=UTC)
    assert (row["tags"], row["huge"]) == (["a", None], str(2**64))


def test_lists_and_dicts_are_lists_and_structs(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skitter.sinks.files.parquet._GROUP_ROWS", 2)
    monkeypatch.setattr("skitter.sinks.export._ROWS_AT_A_TIME", 2)
    rows = [
        {"tags": ["a", "b"], "size": {"w": 1, "h": 2}, "offers": [{"price": 1}], "odd": [1]},
        {"tags": [], "size": {"w": 1.5, "unit": "cm"}, "offers": [{"price": 2, "of": "x"}]},
        {"tags": None, "size": None, "offers": None, "odd": {"a": []}, "none": [None, {}]},
        {"tags": ["c"], "odd": "text", "mixed": [1, "a", [2]]},
    ]
    copy_of(path, results(rows))
    found = rows_in(path)
    assert [row["tags"] for row in found] == [["a", "b"], [], None, ["c"]]
    assert [row["size"] for row in found][:2] == [
        {"w": 1.0, "h": 2, "unit": None}, {"w": 1.5, "h": None, "unit": "cm"},
    ]  # fmt: skip
    assert found[0]["offers"] == [{"price": 1, "of": None}]
    assert [row["odd"] for row in found] == ["[1]", None, '{"a":[]}', "text"]
    assert (found[2]["none"], found[3]["mixed"]) == ([None, "{}"], ["1", "a", "[2]"])
    assert pq.ParquetFile(path).num_row_groups > 1


def test_columns_that_meet_two_types_hold_both(path: Path):
    copy_of(
        path,
        [result(0, {"x": 1, "y": 1, "z": "text", "w": True})],
        [result(1, {"x": 2.5, "y": "b", "z": [1], "new": 5})],
        [result(2, {"x": None, "y": None})],
        [result(3, {"w": 2, "x": 2**53 + 1})],
    )
    fields = ("x", "y", "z", "w", "new")
    assert [tuple(row[field] for field in fields) for row in rows_in(path)] == [
        ("1.0", "1", "text", "true", None),
        ("2.5", "b", "[1]", None, 5),
        (None, None, None, None, None),
        (str(2**53 + 1), None, None, "2", None),
    ]


def test_odd_names_of_fields_work(path: Path):
    item = {"": 1, "Name": 2, "name": 3, "ü" * 100: 4, "_id": 5, "a.b": 6}
    copy_of(path, [result(0, item)], [result(1, item)])
    assert all(set(range(1, 7)) <= set(row.values()) for row in rows_in(path))


def test_a_file_has_groups_of_rows_by_number_and_by_size(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("skitter.sinks.export._ROWS_AT_A_TIME", 2)
    for limit in ("_GROUP_ROWS", "_GROUP_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(
                f"skitter.sinks.files.parquet.{limit}", 4 if limit == "_GROUP_ROWS" else 300
            )
            copy_of(path, results([{"n": n} for n in range(10)]))
        assert pq.ParquetFile(path).num_row_groups > 1
        assert [row["n"] for row in rows_in(path)] == list(range(10))


def test_no_rows_are_a_file_with_columns(path: Path):
    copy_of(path, [])
    assert pq.read_table(path).column_names == ["_id", "_url", "_fetched_at"]
