"""What users name, and copies of a table in files."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from sinks.making import JOB, lines_of, records_of, result, results, row_id, write
from skitter.errors import BadJobName, UsageError
from skitter.sinks import BadSink, MissingExtra, open_sink
from skitter.sinks.export import export

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("x.db", "SQLite file {}/x.db, table books"),
        ("x.sqlite", "SQLite file {}/x.sqlite, table books"),
        ("x.JSONL", "JSON Lines file {}/x.JSONL"),
        ("x.csv", "CSV file {}/x.csv"),
        ("x.parquet", "Parquet directory {}/x.parquet"),
    ],
)
async def test_the_form_of_a_name_says_what_it_is(name: str, description: str, tmp_path: Path):
    async with open_sink(str(tmp_path / name), job=JOB) as sink:
        assert sink.description == description.format(tmp_path)


async def test_a_sqlite_url_is_relative_with_three_slashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    async with open_sink("sqlite:///x.data", job=JOB) as sink:
        await sink.write([result(0, 1)])
    assert (tmp_path / "x.data").exists()


async def test_a_description_of_postgresql_has_no_password(postgres: str):
    dsn = postgres.replace("postgres@", "postgres:hunter2@")
    async with open_sink(dsn, job=JOB, table="t") as sink:
        assert sink.description.startswith("postgresql at 127.0.0.1:")
        assert sink.description.endswith("table t")
        assert "hunter2" not in sink.description


@pytest.mark.parametrize("dsn", ["", "x", "x.txt", "mysql://root:hunter2@h/d", "s3://b/x.jsonl"])
async def test_anything_else_is_refused_with_the_forms_that_work(dsn: str):
    with pytest.raises(UsageError, match="postgresql://user") as caught:
        async with open_sink(dsn, job=JOB):
            pass
    assert "items.parquet" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("dsn", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:x.db"])
async def test_sqlite_without_a_file_is_refused(dsn: str):
    with pytest.raises(BadSink, match="three slashes"):
        async with open_sink(dsn, job=JOB):
            pass


@pytest.mark.parametrize("table", ["", "a b", 'a"b', "a.b", "x" * 64, "_skitter_columns"])
async def test_an_odd_name_of_a_table_is_refused(table: str, tmp_path: Path):
    with pytest.raises(BadSink, match="name of a table"):
        async with open_sink(str(tmp_path / "x.db"), job=JOB, table=table):
            pass


async def test_a_table_of_a_file_is_refused(tmp_path: Path):
    with pytest.raises(BadSink, match="only for a database"):
        async with open_sink(str(tmp_path / "x.csv"), job=JOB, table="t"):
            pass


async def test_a_bad_job_name_is_refused(tmp_path: Path):
    with pytest.raises(BadJobName):
        async with open_sink(str(tmp_path / "x.csv"), job="no spaces"):
            pass


async def test_a_missing_extra_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'skitter\[postgres\]'"):
        async with open_sink("postgresql://h/d", job=JOB):
            pass
    monkeypatch.delitem(sys.modules, "skitter.sinks.parquet", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'skitter\[parquet\]'"):
        async with open_sink(str(tmp_path / "x.parquet"), job=JOB):
            pass


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


ITEMS: list[Any] = [
    {"title": "A", "tags": ["x"], "price": 1.5},
    {"title": "B", "Title": "clash"},
    {"title": "C", "stock": 3},
]


async def test_a_table_is_copied_to_json_lines(database: str, tmp_path: Path):
    write(database, results(ITEMS))
    seen: list[int] = []
    rows = await export(database, job=JOB, to=tmp_path / "o.jsonl", on_progress=seen.append)
    assert rows == 3
    assert seen == [3]
    own = {"_id", "_url", "_fetched_at"}
    found = lines_of(tmp_path / "o.jsonl")
    assert [{k: v for k, v in row.items() if k not in own} for row in found] == ITEMS
    assert [row["_id"] for row in found] == [row_id(n) for n in range(3)]


async def test_an_export_is_the_file_that_a_loader_writes(database: str, tmp_path: Path):
    items = [
        {"a": 1, "b": None},
        {"a": None, "b": "x"},
        {"a": 2.5},
        {"never": None},
        {"n": math.nan},
    ]
    write(database, results(items))
    write(tmp_path / "loaded.jsonl", results(items))
    await export(database, job=JOB, to=tmp_path / "exported.jsonl")
    own = ("_id", "_url", "_fetched_at")
    loaded, exported = (
        [{k: v for k, v in row.items() if k not in own} for row in lines_of(tmp_path / name)]
        for name in ("loaded.jsonl", "exported.jsonl")
    )
    assert exported == loaded == [{"a": 1}, {"b": "x"}, {"a": 2.5}, {}, {}]


async def test_formulas_are_defused_in_an_exported_csv_unless_asked(tmp_path: Path):
    write(tmp_path / "x.db", results([{"x": "=1+1"}]))
    for csv_safe, cell in ((True, "'=1+1"), (False, "=1+1")):
        await export(str(tmp_path / "x.db"), job=JOB, to=tmp_path / "o.csv", csv_safe=csv_safe)
        assert records_of(tmp_path / "o.csv")[0]["x"] == cell


async def test_columns_come_in_the_order_of_the_table(database: str, tmp_path: Path):
    write(database, results([{"title": "A", "price": 1, "author": "B"}]))
    await export(database, job=JOB, to=tmp_path / "o.csv")
    header = (tmp_path / "o.csv").read_text().splitlines()[0]
    assert header == "_id,_url,_fetched_at,title,price,author"


async def test_a_table_is_copied_to_csv_and_to_one_parquet_file(database: str, tmp_path: Path):
    write(database, results(ITEMS))
    await export(database, job=JOB, to=tmp_path / "o.csv")
    assert [row["title"] for row in records_of(tmp_path / "o.csv")] == ["A", "B", "C"]
    await export(database, job=JOB, to=tmp_path / "o.parquet")
    assert (tmp_path / "o.parquet").is_file()
    assert pq.read_table(tmp_path / "o.parquet").column("stock").to_pylist() == [None, None, 3]


async def test_a_copy_takes_the_place_of_an_older_one_and_leaves_nothing_else(tmp_path: Path):
    write(tmp_path / "x.db", results(ITEMS))
    target = tmp_path / "out" / "o.jsonl"
    target.parent.mkdir()
    for _ in range(2):
        await export(str(tmp_path / "x.db"), job=JOB, to=target)
    assert len(lines_of(target)) == 3
    assert names_in(target.parent) == ["o.jsonl"]


async def test_a_copy_streams_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skitter.sinks.export._BATCH", 10)
    write(tmp_path / "x.db", results([{"n": n} for n in range(95)]))
    seen: list[int] = []
    await export(
        str(tmp_path / "x.db"), job=JOB, to=tmp_path / "o.parquet", on_progress=seen.append
    )
    assert seen == [*range(10, 100, 10), 95]
    assert pq.read_table(tmp_path / "o.parquet").num_rows == 95


async def test_only_the_rows_of_the_job_are_copied(tmp_path: Path):
    for job in ("one", "two"):
        async with open_sink(str(tmp_path / "x.db"), job=job, table="t") as sink:
            await sink.write([result(0, {"from": job})])
    await export(str(tmp_path / "x.db"), job="two", table="t", to=tmp_path / "o.jsonl")
    assert [row["from"] for row in lines_of(tmp_path / "o.jsonl")] == ["two"]


async def test_nothing_is_created_by_looking(tmp_path: Path):
    with pytest.raises(BadSink, match="there is no database"):
        await export(str(tmp_path / "x.db"), job=JOB, to=tmp_path / "o.csv")
    assert names_in(tmp_path) == []
    write(tmp_path / "x.db", [result(0, 1)], table="other")
    with pytest.raises(BadSink, match="no table 'books'"):
        await export(str(tmp_path / "x.db"), job=JOB, to=tmp_path / "o.csv")


async def test_an_empty_table_is_an_empty_file(tmp_path: Path):
    write(tmp_path / "x.db", [])
    assert await export(str(tmp_path / "x.db"), job=JOB, to=tmp_path / "o.jsonl") == 0
    assert (tmp_path / "o.jsonl").read_bytes() == b""
    with pytest.raises(BadSink, match="no rows"):
        await export(str(tmp_path / "x.db"), job=JOB, to=tmp_path / "o.parquet")


async def test_a_file_that_a_loader_writes_is_not_overwritten(tmp_path: Path):
    write(tmp_path / "x.db", [result(0, 1)])
    write(tmp_path / "o.jsonl", [result(0, 1)])
    with pytest.raises(BadSink, match="a loader writes"):
        await export(str(tmp_path / "x.db"), job=JOB, to=tmp_path / "o.jsonl")
    with pytest.raises(BadSink, match="only a database"):
        await export(str(tmp_path / "o.jsonl"), job=JOB, to=tmp_path / "p.jsonl")
    with pytest.raises(BadSink, match="is a database"):
        await export(str(tmp_path / "x.db"), job=JOB, to=tmp_path / "y.db")
