"""Folders of parts: each row is in one of them, whoever is killed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from buckets import s3
from sinks.making import FETCHED_AT, JOB, result, results, row_id, write
from skitter.errors import UsageError
from skitter.sinks import Destination
from skitter.sinks.databases.part_files import Outbox
from skitter.sinks.objects import Folder, _put
from skitter.sinks.registry import open_database


def rows_in(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in sorted(folder.iterdir()):
        if part.suffix == ".parquet":
            found += pq.read_table(part).to_pylist()
        else:
            found += map(json.loads, part.read_bytes().splitlines())
    return sorted(found, key=lambda row: (row["_id"], row["_fetched_at"]))


def add(database: Path, to: str) -> int:
    return asyncio.run(Folder.of(to).add(str(database), job=JOB))


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_each_row_is_in_one_part_and_a_later_visit_is_a_later_row(tmp_path: Path, form: str):
    database, folder = tmp_path / "x.db", tmp_path / "books"
    to = f"file://{folder}/?format={form}&rows=3"
    write(database, results([{"n": n, "tags": [n]} for n in range(7)]))
    assert add(database, to) == 7
    assert [row["_id"] for row in rows_in(folder)] == [row_id(n) for n in range(7)]
    assert len(list(folder.iterdir())) == 3
    assert add(database, to) == 0
    later = replace(result(1, {"n": 100, "tags": [1]}), fetched_at=FETCHED_AT + 60)
    write(database, [later, result(2, {"n": 2, "tags": [2]})], [result(9, {"n": 9})])
    assert add(database, to) == 2
    found = [(row["_id"], row["n"]) for row in rows_in(folder)]
    assert sorted(found) == sorted(
        [(row_id(n), n) for n in (*range(7), 9)] + [(row_id(1), 100)],
    )
    with closing(sqlite3.connect(database)) as known:  # of each row, its last visit
        assert known.execute("SELECT count(*) FROM _skitter_taken").fetchone() == (8,)
    assert add(database, to) == 0


@pytest.mark.parametrize("step", ["decided", "written"])
def test_a_part_is_there_once_though_its_writer_was_killed(tmp_path: Path, step: str):
    database, folder = tmp_path / "x.db", tmp_path / "books"
    to = f"file://{folder}/?format=jsonl&rows=2"
    write(database, results([{"n": n} for n in range(3)]))
    kind = Folder.of(to)
    with closing(open_database(str(database), job=JOB)) as table:
        outbox = Outbox(table, kind.url)
        assert outbox.decide(2, ".jsonl", kind.encode) == 2
        [name, body] = outbox.waiting() or []
        if step == "written":
            kind.open().put(name, body, mode="create")
    # Its rows change before anybody else comes; what was decided stays.
    write(database, [replace(result(0, {"n": 50}), fetched_at=FETCHED_AT + 60)])
    add(database, to)
    found = sorted((row["_id"], row["n"]) for row in rows_in(folder))
    assert found == [(row_id(0), 0), (row_id(0), 50), (row_id(1), 1), (row_id(2), 2)]


def test_a_folder_as_output_gets_what_is_new_at_the_end_of_each_run(tmp_path: Path):
    to = Destination(f"file://{tmp_path}/out/", JOB, tmp_path / ".skitter")

    async def run(number: int) -> None:
        async with to.open() as sink:
            await sink.write([result(number, {"n": number})])
        assert await to.finish() == number + 1

    for number in range(2):
        asyncio.run(run(number))
    assert [row["n"] for row in rows_in(tmp_path / "out")] == [0, 1]


@pytest.mark.parametrize("query", ["format=csv", "rows=0", "rows=x", "part=1", "every=soon"])
def test_a_mistake_in_the_address_is_a_sentence(query: str):
    with pytest.raises(UsageError, match=r"after the folder, only|an interval such as"):
        Folder.of(f"s3://bucket/books/?{query}")


def test_parts_in_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with s3(monkeypatch) as bucket:
        database, to = tmp_path / "x.db", f"{bucket}/books/?format=jsonl&rows=2"
        write(database, results([{"n": n} for n in range(5)]))
        assert add(database, to) == 5
        remote = Folder.of(to).open()
        names = [one["path"] for page in remote.list() for one in page]
        lines = [json.loads(line) for name in sorted(names)
                 for line in bytes(remote.get(name).bytes()).splitlines()]  # fmt: skip
        assert sorted(line["n"] for line in lines) == list(range(5))
        assert len(names) == 3
        body = bytes(remote.get(names[0]).bytes())
        asyncio.run(_put(remote, Folder.of(to), names[0], b"another"))  # no second one
        assert bytes(remote.get(names[0]).bytes()) == body
