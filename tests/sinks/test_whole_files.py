"""JSON and Excel files, written from a database."""

from __future__ import annotations

import json
import math
import zipfile
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from sinks.making import copy, copy_of, result, results, row_id, write
from skitter.sinks.base import BadSink

if TYPE_CHECKING:
    from pathlib import Path

ITEM = {
    "text": "=1+1",
    "n": 5,
    "long": 2**53 + 1,
    "price": 2.5,
    "inf": math.inf,
    "sold": True,
    "seen": datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC),
    "old": date(1850, 1, 2),
    "tags": ["a"],
}
_CELL = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def cells(path: Path, sheet: int = 1) -> list[list[str]]:
    """The texts and numbers of a sheet, row by row."""
    with zipfile.ZipFile(path) as book:
        tree = ElementTree.fromstring(book.read(f"xl/worksheets/sheet{sheet}.xml"))
    assert not list(tree.iter(f"{_CELL}f"))  # no formula
    return [
        ["".join(cell.itertext()) for cell in row.iter(f"{_CELL}c")]
        for row in tree.iter(f"{_CELL}row")
    ]


def test_a_json_file_is_an_array_of_rows_and_written_again(tmp_path: Path):
    path = copy_of(tmp_path / "x.json", results([ITEM, {"n": None, "tags": {"a": [1]}}]))
    rows = json.loads(path.read_bytes())
    assert [row["_id"] for row in rows] == [row_id(0), row_id(1)]
    assert (rows[0]["tags"], rows[0]["text"], rows[1]["tags"]) == (["a"], "=1+1", {"a": [1]})
    assert "inf" not in rows[0]
    assert json.loads(copy_of(tmp_path / "none.json", []).read_bytes()) == []
    copy(tmp_path / "x.db", path)
    assert json.loads(path.read_bytes()) == rows


def test_an_excel_file_has_text_numbers_and_times_and_no_formula(tmp_path: Path):
    path = copy_of(tmp_path / "x.xlsx", results([ITEM]))
    head, row = cells(path)
    assert head[:3] == ["_id", "_url", "_fetched_at"]
    found = dict(zip(head, row, strict=True))
    assert round(float(found.pop("_fetched_at")), 4) == 45244.9259
    assert round(float(found.pop("seen")), 4) == 45325.1702
    assert found == {
        "_id": row_id(0),
        "_url": "https://books.example/0",
        "text": "=1+1",
        "n": "5",
        "long": str(2**53 + 1),
        "price": "2.5",
        "inf": "inf",
        "sold": "1",
        "old": "1850-01-02",
        "tags": '["a"]',
    }


def test_a_full_sheet_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skitter.sinks.files.xlsx.MOST_ROWS", 3)
    path = copy_of(tmp_path / "x.xlsx", results([{"n": n} for n in range(3)]))
    assert [len(cells(path, sheet)) for sheet in (1, 2)] == [3, 2]


def test_a_text_that_excel_cannot_hold_is_an_error_and_leaves_no_file(tmp_path: Path):
    write(tmp_path / "x.db", [result(0, {"text": "x" * 32_768})])
    with pytest.raises(BadSink, match=r"holds at most 32,767 characters, .*books.example/0"):
        copy(tmp_path / "x.db", tmp_path / "x.xlsx")
    assert not (tmp_path / "x.xlsx").exists()
