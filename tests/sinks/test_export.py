"""Copies of a table in files: whole, or not at all, and never over a file that is not ours."""

from __future__ import annotations

import asyncio
import fcntl
import math
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from sinks.making import FETCHED_AT, JOB, copy, lines_of, records_of, result, results, row_id, write
from sinks.test_files import file_size_limit
from skitter.errors import UsageError
from skitter.sinks import BadSink, SinkAway, open_sink
from skitter.sinks.export import Target, export
from skitter.sinks.selection import Condition, Selection
from waiting import until

if TYPE_CHECKING:
    from pathlib import Path


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


ITEMS: list[Any] = [
    {"title": "A", "tags": ["x"], "price": 1.5},
    {"title": "B", "Title": "clash"},
    {"title": "C", "stock": 3},
]


def test_a_table_is_copied_to_json_lines(database: str, tmp_path: Path):
    write(database, results(ITEMS))
    assert copy(database, tmp_path / "o.jsonl") == 3
    own = {"_id", "_url", "_fetched_at"}
    found = lines_of(tmp_path / "o.jsonl")
    assert [{k: v for k, v in row.items() if k not in own} for row in found] == ITEMS
    assert [row["_id"] for row in found] == [row_id(n) for n in range(3)]


def test_an_export_is_the_file_that_a_loader_writes(database: str, tmp_path: Path):
    items = [
        {"a": 1, "b": None},
        {"a": None, "b": "x"},
        {"a": 2.5},
        {"never": None},
        {"n": math.nan},
    ]
    write(database, results(items))
    write(tmp_path / "loaded.jsonl", results(items))
    copy(database, tmp_path / "exported.jsonl")
    own = ("_id", "_url", "_fetched_at")
    loaded, exported = (
        [{k: v for k, v in row.items() if k not in own} for row in lines_of(tmp_path / name)]
        for name in ("loaded.jsonl", "exported.jsonl")
    )
    assert exported == loaded == [{"a": 1}, {"b": "x"}, {"a": 2.5}, {}, {}]


def test_rows_are_in_order_of_arrival(database: str, tmp_path: Path):
    """Pages by the time at which they were fetched, the items of a page by their number."""
    items = [result(5, {"n": n}, index=n) for n in range(11)]
    items.append(replace(result(1, {"n": 11}), fetched_at=FETCHED_AT + 60))
    write(database, items[6:], items[:6])
    write(tmp_path / "loaded.jsonl", items[:6], items[6:])
    copy(database, tmp_path / "exported.jsonl")
    for name in ("loaded.jsonl", "exported.jsonl"):
        assert [row["n"] for row in lines_of(tmp_path / name)] == list(range(12)), name


def test_columns_come_in_the_order_of_the_table(database: str, tmp_path: Path):
    write(database, results([{"title": "A", "price": 1, "author": "B"}]))
    copy(database, tmp_path / "o.csv")
    header = (tmp_path / "o.csv").read_text().splitlines()[0]
    assert header == "_id,_url,_fetched_at,title,price,author"


def test_a_table_is_copied_to_csv_and_to_one_parquet_file(database: str, tmp_path: Path):
    write(database, results(ITEMS))
    copy(database, tmp_path / "o.csv")
    assert [row["title"] for row in records_of(tmp_path / "o.csv")] == ["A", "B", "C"]
    copy(database, tmp_path / "o.parquet")
    assert (tmp_path / "o.parquet").is_file()
    assert pq.read_table(tmp_path / "o.parquet").column("stock").to_pylist() == [None, None, 3]


def test_a_copy_takes_the_place_of_an_older_one_and_leaves_nothing_else(tmp_path: Path):
    write(tmp_path / "x.db", results(ITEMS))
    target = tmp_path / "out" / "o.jsonl"
    target.parent.mkdir()
    for _ in range(2):
        copy(tmp_path / "x.db", target)
    assert len(lines_of(target)) == 3
    assert names_in(target.parent) == ["o.jsonl"]


async def test_only_the_rows_of_the_job_are_copied(tmp_path: Path):
    for job in ("one", "two"):
        async with open_sink(str(tmp_path / "x.db"), job=job, table="t") as sink:
            await sink.write([result(0, {"from": job})])
    await export(str(tmp_path / "x.db"), Target(tmp_path / "o.jsonl"), job="two", table="t")
    assert [row["from"] for row in lines_of(tmp_path / "o.jsonl")] == ["two"]


def test_nothing_is_created_by_looking(tmp_path: Path):
    with pytest.raises(BadSink, match="there is no database"):
        copy(tmp_path / "x.db", tmp_path / "o.csv")
    assert names_in(tmp_path) == []
    write(tmp_path / "x.db", [result(0, 1)], table="other")
    with pytest.raises(BadSink, match="no table 'books'"):
        copy(tmp_path / "x.db", tmp_path / "o.csv")


def test_an_empty_table_is_an_empty_file(tmp_path: Path):
    write(tmp_path / "x.db", [])
    assert copy(tmp_path / "x.db", tmp_path / "o.jsonl") == 0
    assert (tmp_path / "o.jsonl").read_bytes() == b""


def test_a_file_that_a_loader_writes_is_not_overwritten(tmp_path: Path):
    write(tmp_path / "x.db", [result(0, 1)])
    write(tmp_path / "o.jsonl", [result(0, 1)])
    with pytest.raises(BadSink, match="is a loader's output"):
        copy(tmp_path / "x.db", tmp_path / "o.jsonl")
    with pytest.raises(BadSink, match="only a database"):
        copy(tmp_path / "o.jsonl", tmp_path / "p.jsonl")
    with pytest.raises(BadSink, match="is a database"):
        copy(tmp_path / "x.db", tmp_path / "y.db")


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.parquet"])
def test_a_file_of_somebody_else_is_not_overwritten(name: str, tmp_path: Path):
    write(tmp_path / "x.db", [result(0, 1)])
    (tmp_path / name).write_text("precious")
    with pytest.raises(BadSink, match="was not written by Skitter: choose another name"):
        copy(tmp_path / "x.db", tmp_path / name)
    assert (tmp_path / name).read_text() == "precious"


def test_a_full_disk_leaves_the_old_file_and_no_draft(tmp_path: Path):
    write(tmp_path / "x.db", results([{"text": "x" * 2000} for _ in range(40)]))
    target = tmp_path / "out" / "o.csv"
    target.parent.mkdir()
    copy(tmp_path / "x.db", target)
    before = target.read_bytes()
    with file_size_limit(50_000), pytest.raises(SinkAway, match="cannot be written"):
        copy(tmp_path / "x.db", target)
    assert target.read_bytes() == before
    assert names_in(target.parent) == ["o.csv"]


async def test_the_second_of_two_exports_to_one_file_waits_and_has_the_newer_rows(tmp_path: Path):
    write(tmp_path / "x.db", [result(0, {"n": 0})])
    target = Target(tmp_path / "o.csv")
    with target.lock.open("wb") as draft:
        fcntl.flock(draft, fcntl.LOCK_EX)
        second = asyncio.create_task(export(str(tmp_path / "x.db"), target, job=JOB))
        _, still = await asyncio.wait([second], timeout=0.3)
        assert still
        write(tmp_path / "x.db", [result(1, {"n": 1})])
    assert await second == 2
    assert len(records_of(target.path)) == 2


async def test_an_export_that_is_broken_off_leaves_nothing(tmp_path: Path):
    write(tmp_path / "x.db", results([{"n": n} for n in range(5000)]))
    target = Target(tmp_path / "o.csv")
    task = asyncio.create_task(export(str(tmp_path / "x.db"), target, job=JOB))
    await asyncio.to_thread(until, target.lock.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert names_in(tmp_path) == ["x.db"]


@pytest.mark.parametrize("name", ["o.csv", "o.jsonl", "o.parquet"])
def test_an_export_does_not_hold_all_rows_in_memory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("skitter.sinks.files.parquet._GROUP_BYTES", 2**20)
    rows = results([{"text": f"{n}" * 2500} for n in range(4000)])
    write(tmp_path / "x.db", rows)
    size = sum(len(row.item["text"]) for row in rows)
    assert size > 30 * 2**20
    tracemalloc.start()
    try:
        copy(tmp_path / "x.db", tmp_path / name)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size / 2


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("price<10", [1]),
        ("price >= 10", [0]),
        ("title=b 1", [1]),
        ("title!=b 1", [0, 2]),
        ("_url=https://books.example/2", [2]),
        ("sold=true", [0]),
    ],
)
def test_some_rows_are_exported(tmp_path, said, kept):
    database, path = tmp_path / "x.db", tmp_path / "some.csv"
    write(
        database,
        results(
            [{"title": "b 0", "price": 10, "sold": True}, {"title": "b 1", "price": 9}, {"n": 1}]
        ),
    )
    selection = Selection(columns=("price", "title"), where=(Condition.of(said),))
    rows = asyncio.run(export(str(database), Target(path), job=JOB, selection=selection))
    found = records_of(path)
    assert [row["_id"] for row in found] == [row_id(n) for n in kept]
    assert rows == len(kept)
    assert list(found[0]) == ["_id", "_url", "_fetched_at", "price", "title"]


def test_a_number_is_not_compared_with_what_is_none(tmp_path):
    """It was, as text: no row was the silent answer."""
    write(tmp_path / "x.db", results([{"price": 1.5}]))
    selection = Selection(where=(Condition.of("price<ten"),))
    run = export(str(tmp_path / "x.db"), Target(tmp_path / "x"), job=JOB, selection=selection)
    with pytest.raises(UsageError, match="price is a number, and 'ten' is none"):
        asyncio.run(run)


def test_a_selection_of_what_is_not_there_is_a_mistake(tmp_path):
    write(tmp_path / "x.db", results([{"title": "b"}]))
    for selection in (Selection(columns=("name",)), Selection(where=(Condition("name", "=", ""),))):
        with pytest.raises(UsageError, match="no field 'name': they have title"):
            asyncio.run(
                export(
                    str(tmp_path / "x.db"), Target(tmp_path / "y.csv"), job=JOB, selection=selection
                )
            )
    for said in ("price", "price==9", "price<>9", "price=>9"):
        with pytest.raises(UsageError, match="--where is FIELD=VALUE"):
            Condition.of(said)
    late = Selection(changed_since=FETCHED_AT + 1)
    to = Target(tmp_path / "y.csv")
    assert asyncio.run(export(str(tmp_path / "x.db"), to, job=JOB, selection=late)) == 0
