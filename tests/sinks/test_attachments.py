"""Rows that name files, when the files come, change, or come again."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from sinks.making import FETCHED_AT, JOB, result, write
from skitter.sinks.objects import Folder
from skitter.sinks.registry import open_database

URL = "http://a.test/x.pdf"


def file(digest: str | None) -> dict[str, Any]:
    path = digest and f"files/{digest}.pdf"
    return {"url": URL, "path": path, "size": 1, "type": "application/pdf", "sha256": digest}


def came(digest: str, *, after_s: int) -> Any:
    told = {**file(digest), "_type": "file", "page": "http://a.test/"}
    return replace(result(90, told), fetched_at=FETCHED_AT + after_s, is_later=after_s > 60)


def test_a_file_that_changed_is_a_change_and_a_folder_gets_its_row_again(
    database: str, tmp_path: Path
):
    folder = tmp_path / "out"
    row = result(1, {"title": "report", "pdf": file(None)})
    parts = []
    for batch in ([row], [came("one", after_s=1)], [came("one", after_s=99)],
                  [came("two", after_s=200)], [came("two", after_s=200), row]):  # fmt: skip
        write(database, batch)
        to = f"file://{folder}/?format=jsonl"
        parts.append(asyncio.run(Folder.of(to).add(database, job=JOB)))
    assert parts == [1, 1, 0, 1, 0], "once for each state of the row"
    last = json.loads(max(folder.iterdir()).read_bytes())
    assert last["pdf"] == file("two"), "later parts have later names"
    with closing(open_database(database, job=JOB)) as table:
        [change] = table.read_changes()
    assert (change.kind, change.field, change.old, change.new) == (
        "changed", "pdf", file("one"), file("two"),
    )  # fmt: skip


def test_a_batch_of_galleries_names_more_files_than_a_statement_takes(database: str):
    blank = {"path": None, "size": None, "type": None, "sha256": None}

    def gallery(page: int) -> Any:
        pictures = [{"url": f"http://a.test/{page}/{n}.jpg", **blank} for n in range(2800)]
        return result(page, {"pictures": pictures})

    told = {**file("one"), "_type": "file", "page": None, "url": "http://a.test/24/2799.jpg"}
    write(database, [replace(result(900, told), fetched_at=FETCHED_AT)])
    write(database, [gallery(page) for page in range(25)])
    with closing(open_database(database, job=JOB)) as table:
        found = [one for page in table.read(batch=10) for one in page.results]
    named = [one["sha256"] for row in found for one in row.item["pictures"]]
    assert (len(named), named.count("one")) == (70_000, 1)
