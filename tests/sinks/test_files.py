"""JSON Lines files: what is in them, whose they are, and what never happens to them."""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sinks.making import JOB, lines_of, result, results, row_id, write
from skitter.sinks.base import BadSink, RowsRefused, SinkAway, SinkBusy
from skitter.sinks.registry import open_store
from waiting import Child

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip

HOLDER = """
import sys
from skitter.sinks.registry import open_store
store = open_store(sys.argv[1], job="books")
print("open", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "items.jsonl"


def ids_in(path: Path) -> list[str]:
    return [row["_id"] for row in lines_of(path)]


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """A disk that is full: writes beyond the limit fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_row_says_which_page_it_came_from_and_when(path: Path):
    write(path, [result(1, {"title": "A"})])
    (row,) = lines_of(path)
    assert row == {
        "_id": row_id(1),
        "_url": "https://books.example/1",
        "_fetched_at": "2023-11-14T22:13:20.250000Z",
        "title": "A",
    }


def test_rows_that_come_again_are_not_written_again(path: Path):
    rows = results([{"n": n} for n in range(10)])
    write(path, rows[:6])
    before = path.read_bytes()
    write(path, rows[4:6], rows[:3])
    assert path.read_bytes() == before
    write(path, rows[3:])
    assert ids_in(path) == [row.fingerprint + "-0" for row in rows]


def test_a_row_of_a_dead_loader_that_comes_after_others_is_still_known(path: Path):
    rows = results([{"n": n} for n in range(3)])
    write(path, rows[:1], rows[1:2], rows[2:], rows[:1])
    assert ids_in(path) == [row_id(n) for n in range(3)]


def test_a_row_that_comes_again_changed_takes_the_place_of_the_old_one(path: Path):
    write(path, results([{"n": "old"}, {"n": "same"}]))
    write(path, [result(0, {"n": "new"})], [result(0, {"n": "newer"})])
    assert {row["_id"]: row["n"] for row in lines_of(path)} == {
        row_id(0): "newer",
        row_id(1): "same",
    }
    assert len(lines_of(path)) == 2


def test_a_row_that_changes_back_is_there_once(path: Path):
    write(path, [result(0, {"n": "a"})], [result(0, {"n": "b"})], [result(0, {"n": "a"})])
    assert [row["n"] for row in lines_of(path)] == ["a"]


def test_the_same_row_twice_in_a_batch_is_written_once(path: Path):
    write(path, [result(0, {"n": "first"}), result(0, {"n": "last"})])
    assert [row["n"] for row in lines_of(path)] == ["last"]


def test_fields_with_our_names_are_kept_under_another(path: Path):
    write(path, [result(0, {"_id": "mine", "_url": "u"})])
    (row,) = lines_of(path)
    assert row["_id"] == row_id(0)
    assert "mine" in row.values()


def test_a_second_writer_is_told_that_there_is_one(path: Path):
    writes = pytest.raises(SinkBusy, match="another process is writing")
    with closing(open_store(str(path), job=JOB)), writes:
        open_store(str(path), job=JOB)
    write(path, [result(0, {"n": 1})])


def test_a_killed_writer_leaves_no_lock_behind(path: Path):
    command = [sys.executable, "-c", HOLDER, str(path)]
    with Child[bytes](command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(SinkBusy):
            open_store(str(path), job=JOB)
        holder.kill()
    write(path, [result(0, {"n": 1})])
    assert ids_in(path) == [row_id(0)]


def test_a_file_that_is_not_ours_is_left_alone(path: Path):
    path.write_text("precious\n")
    for _ in range(2):
        with pytest.raises(BadSink, match="already exists"):
            open_store(str(path), job=JOB)
    assert path.read_text() == "precious\n"


def test_a_file_of_another_job_is_left_alone(path: Path):
    write(path, [result(0, {"n": 1})])
    with pytest.raises(BadSink, match="holds the items of job 'books'"):
        open_store(str(path), job="films")


def test_a_file_that_was_moved_away_is_begun_anew(path: Path):
    write(path, [result(0, {"n": 1})])
    path.rename(path.with_suffix(".old"))
    write(path, [result(0, {"n": 1})])
    assert ids_in(path) == [row_id(0)]


def test_a_crawl_without_items_leaves_an_empty_file(path: Path):
    write(path, [])
    write(path, [])
    assert path.read_bytes() == b""


def test_a_file_that_was_removed_with_its_rows_stays_away_until_there_are_others(path: Path):
    """An empty one would hide that they are lost."""
    write(path, [result(0, {"n": 1})])
    path.unlink()
    write(path, [])
    assert not path.exists()


def test_a_file_that_somebody_cut_is_not_continued(path: Path):
    write(path, results([{"n": 1}, {"n": 2}]))
    os.truncate(path, 10)
    with pytest.raises(BadSink, match="shorter"):
        open_store(str(path), job=JOB)


def test_what_an_unfinished_write_left_is_cut_off(path: Path):
    write(path, [result(0, {"n": 1})])
    with path.open("ab") as file:
        file.write(b'{"_id": "half a l')
    write(path, [result(1, {"n": 2})])
    assert ids_in(path) == [row_id(0), row_id(1)]


def test_a_full_disk_leaves_whole_rows_and_the_rest_can_be_written_later(path: Path):
    rows = results([{"text": "x" * 2000} for _ in range(40)])
    with closing(open_store(str(path), job=JOB)) as store:
        store.write(rows[:5])
        with file_size_limit(path.stat().st_size + 5000):
            with pytest.raises(SinkAway, match="cannot be written"):
                store.write(rows[5:])
            assert len(ids_in(path)) == 5
        store.write(rows[5:])
    assert len(ids_in(path)) == 40


def test_a_directory_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(BadSink, match="no directory"):
        open_store(str(tmp_path / "nowhere" / "x.jsonl"), job=JOB)


def test_items_that_are_no_data_are_named_and_nothing_of_the_call_is_written(path: Path):
    bad = result(1, {"n": object()})
    with closing(open_store(str(path), job=JOB)) as store:
        with pytest.raises(RowsRefused, match=r"books\.example/1") as caught:
            store.write([result(0, {"n": 1}), bad, result(2, {"n": "\ud800"})])
        assert [refused.fingerprint for refused, _ in caught.value.refused] == [
            f"{n:016x}" for n in (1, 2)
        ]
    assert path.read_bytes() == b""


def test_a_row_with_2000_fields_is_refused_with_advice(path: Path):
    wide = result(0, {f"f{n}": n for n in range(2000)})
    advice = pytest.raises(RowsRefused, match=r"2,000 fields.*put variable keys into")
    with closing(open_store(str(path), job=JOB)) as store, advice:
        store.write([wide])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(items=st.lists(st.dictionaries(st.text(), JSON, max_size=5) | JSON, max_size=5))
def test_any_json_survives_a_json_lines_file(
    tmp_path_factory: pytest.TempPathFactory, items: list[Any]
):
    path = tmp_path_factory.mktemp("any") / "items.jsonl"
    write(path, results(items))
    found = lines_of(path) if path.exists() else []
    expected = [item if isinstance(item, dict) else {"value": item} for item in items]
    assert [{k: v for k, v in row.items() if not k.startswith("_")} for row in found] == [
        {k: v for k, v in item.items() if not k.startswith("_") and v is not None}
        for item in expected
    ]


def test_json_lines_write_what_json_does_not_have_as_text_or_leave_it_out(tmp_path: Path):
    item = {
        "time": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
        "day": date(2024, 1, 2),
        "raw": b"\x00\xff",
        "nan": math.nan,
        "nothing": None,
        "huge": 2**70,
        "inner": {None: (1, 2), b"k": {3}},
    }
    write(tmp_path / "x.jsonl", [result(0, item)])
    (row,) = lines_of(tmp_path / "x.jsonl")
    assert {name: row[name] for name in item if name in row} == {
        "time": "2024-01-02T03:04:05Z",
        "day": "2024-01-02",
        "raw": "AP8=",
        "huge": 2**70,
        "inner": {"None": [1, 2], "b'k'": [3]},
    }


def test_several_items_of_a_page_are_several_rows(path: Path):
    page = [result(0, {"n": n}, index=n) for n in range(3)]
    write(path, page)
    assert ids_in(path) == [row_id(0, n) for n in range(3)]


def test_a_later_fetch_of_the_same_page_is_an_update(path: Path):
    first = result(0, {"n": 1})
    write(path, [first], [replace(first, fetched_at=first.fetched_at + 60)])
    assert len(ids_in(path)) == 1
    assert "22:14:20" in json.dumps(lines_of(path))
