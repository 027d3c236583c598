"""CSV files, written from a database."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sinks.making import copy, copy_of, records_of, result, results, row_id, write

if TYPE_CHECKING:
    from pathlib import Path


def test_a_row_says_which_page_it_came_from_and_when(tmp_path: Path):
    (row,) = records_of(copy_of(tmp_path / "x.csv", [result(1, {"title": "A"})]))
    assert row == {
        "_id": row_id(1),
        "_url": "https://books.example/1",
        "_fetched_at": "2023-11-14T22:13:20.250000Z",
        "title": "A",
    }


def test_a_new_field_shifts_no_column(tmp_path: Path):
    path = copy_of(
        tmp_path / "x.csv",
        [result(0, {"title": 'say "hi", you\r\nthere', "price": 1.5})],
        [result(1, {"stock": 3, "title": "B"})],
        [result(2, {"price": 2, "colour": None, "title": ""})],
    )
    assert path.read_bytes().splitlines()[0] == b"_id,_url,_fetched_at,title,price,stock"
    fields = ("title", "price", "stock")
    assert [tuple(row[field] for field in fields) for row in records_of(path)] == [
        ('say "hi", you\r\nthere', "1.5", ""),
        ("B", "", "3"),
        ("", "2.0", ""),
    ]


def test_fields_with_our_names_are_kept_under_another(tmp_path: Path):
    (row,) = records_of(copy_of(tmp_path / "x.csv", [result(0, {"_id": "mine", "_url": "u"})]))
    assert row["_id"] == row_id(0)
    assert "mine" in row.values()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(items=st.lists(st.dictionaries(st.text(), st.text(), max_size=5), max_size=5))
def test_any_text_survives_a_csv_file(
    tmp_path_factory: pytest.TempPathFactory, items: list[dict[str, str]]
):
    path = copy_of(tmp_path_factory.mktemp("any") / "x.csv", results(items), csv_safe=False)
    assert [{k: v for k, v in row.items() if k[:1] != "_" and v} for row in records_of(path)] == [
        {k: v for k, v in item.items() if k[:1] != "_" and v} for item in items
    ]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("=HYPERLINK(A1;B1)", "'=HYPERLINK(A1;B1)"),
        ("+49 30 1234", "'+49 30 1234"),
        ("-x", "'-x"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("-5", "-5"),
        ("+3.5e-4", "+3.5e-4"),
        (-5, "-5"),
        (-math.inf, "-inf"),
        (b"\xf8", "'+A=="),
        ("a=b", "a=b"),
        ("'quoted'", "'quoted'"),
        ("", ""),
    ],
)
def test_a_spreadsheet_finds_no_formula_in_a_csv_file(tmp_path: Path, value: Any, cell: str):
    (row,) = records_of(copy_of(tmp_path / "x.csv", [result(0, {"=name": value})]))
    assert row["'=name"] == cell


def test_a_semicolon_begins_no_cell_of_its_own(tmp_path: Path):
    """Where a comma divides whole numbers from fractions, spreadsheets split at semicolons."""
    path = copy_of(tmp_path / "x.csv", [result(0, {"x": "a;=1+1"})])
    assert b',"a;=1+1"\n' in path.read_bytes()


def test_formulas_stay_as_they_are_if_somebody_asks_for_that(tmp_path: Path):
    write(tmp_path / "x.db", results([{"x": "=1+1"}]))
    for csv_safe, cell in ((True, "'=1+1"), (False, "=1+1")):
        copy(tmp_path / "x.db", tmp_path / "o.csv", csv_safe=csv_safe)
        assert records_of(tmp_path / "o.csv")[0]["x"] == cell
