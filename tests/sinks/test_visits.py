"""A row is replaced only by a later visit to its page, in whatever order visits arrive."""

from __future__ import annotations

import json
import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sinks.making import FETCHED_AT, JOB, copy, records_of, result, row_id
from skitter.sinks.base import BadSink
from skitter.sinks.registry import is_database, open_database, open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skitter.model import Result

#: When visits took place, and how many items each found.
VISITS = {1: (60, 3), 2: (120, 1), 3: (180, 0), 4: (240, 2)}


def visit(number: int, *, page: int = 1) -> list[Result]:
    """The items of a visit; without any, the notice of that."""
    at, items = VISITS[number]
    found = [result(page, {"visit": number}, index=n) for n in range(items)] or [
        result(page, None, index=-1)
    ]
    return [replace(one, fetched_at=FETCHED_AT + at) for one in found]


def deliver(dsn: str, batches: Iterable[list[Result]]) -> list[int | None]:
    """As a loader that prunes does; returns how many rows each batch replaced."""
    updated = []
    with closing(open_store(dsn, job=JOB)) as store:
        store.prunes = is_database(dsn)  # type: ignore[attr-defined]
        for batch in batches:
            updated.append(store.write([one for one in batch if not one.is_notice]))
            if (gone := [one for one in batch if one.is_notice]) and is_database(dsn):
                store.forget(gone)  # type: ignore[attr-defined]
    return updated


def rows(dsn: str) -> dict[str, int]:
    """The visit that each row is of, by the row's id."""
    if not is_database(dsn):
        lines = map(json.loads, Path(dsn).read_bytes().splitlines())
        return {line["_id"]: line["visit"] for line in lines}
    with closing(open_database(dsn, job=JOB)) as table:
        found = [one for page in table.read(batch=10) for one in page.results]
    return {f"{one.fingerprint}-{one.index}": one.item["visit"] for one in found}


@pytest.fixture(params=["sqlite", "postgres", "jsonl"])
def output(request, tmp_path) -> str:
    if request.param == "jsonl":
        return str(tmp_path / "rows.jsonl")
    return (
        str(tmp_path / "rows.db")
        if request.param == "sqlite"
        else str(request.getfixturevalue("postgres"))
    )


def test_an_earlier_visit_neither_replaces_rows_nor_adds_any(output):
    one, two = visit(1), visit(2)
    assert deliver(output, [two, one]) == [0, 0]
    assert rows(output) == {row_id(1, 0): 2}
    # After a restart, with what a dead loader held, and what was delivered twice.
    assert deliver(output, [one, two, visit(1, page=2), one + two]) == [0, 0, 0, 0]
    assert rows(output) == {row_id(1, 0): 2, **{row_id(2, n): 1 for n in range(3)}}


def test_a_later_visit_replaces_rows_and_says_how_many(output):
    assert deliver(output, [visit(1), visit(1), visit(4), visit(4)]) == [0, 0, 2, 0]
    left = {} if is_database(output) else {row_id(1, 2): 1}  # a file keeps the rest
    assert rows(output) == {row_id(1, 0): 4, row_id(1, 1): 4} | left


def test_items_of_one_visit_come_in_any_order_and_all_stay(output):
    early, *late = visit(1)
    late = [replace(one, fetched_at=one.fetched_at + 0.9) for one in late]
    deliver(output, [late, [early]])
    assert rows(output) == {row_id(1, n): 1 for n in range(3)}
    # Some engines send items apart from the completion, and may take a while.
    apart = [replace(one, fingerprint=f"{5:016x}", is_part=True) for one in visit(1)]
    deliver(output, [[replace(apart[2], fetched_at=FETCHED_AT + 200)], apart[:2]])
    assert rows(output) == {row_id(page, n): 1 for page in (1, 5) for n in range(3)}


@pytest.mark.parametrize("last", [2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_order_the_rows_are_those_of_the_last_visit(database, last, seed):
    chance = random.Random(seed)
    pieces = [one for number in range(1, last + 1) for one in visit(number)]
    pieces += chance.sample(pieces, 2)  # delivered again
    chance.shuffle(pieces)
    sizes = [chance.randint(1, 3) for _ in pieces]
    batches = [pieces[sum(sizes[:n]) : sum(sizes[: n + 1])] for n in range(len(sizes))]
    deliver(database, batches)
    assert rows(database) == {row_id(1, n): last for n in range(VISITS[last][1])}


def test_an_exported_file_has_the_rows_of_the_last_visit(tmp_path):
    deliver(str(tmp_path / "rows.db"), [visit(2), visit(1)])
    copy(tmp_path / "rows.db", tmp_path / "rows.csv")
    assert [row["visit"] for row in records_of(tmp_path / "rows.csv")] == ["2"]


def test_rows_of_a_page_are_found_in_any_collation(postgres):
    """By default PostgreSQL sorts as people do, and "7." comes before "7-0"."""
    import psycopg

    deliver(postgres, [visit(1)])
    with psycopg.connect(postgres, autocommit=True) as owner:
        owner.execute("CREATE COLLATION words (provider = icu, locale = 'en-u-ka-shifted')")
        owner.execute("ALTER TABLE books ALTER COLUMN _id TYPE text COLLATE words")
    deliver(postgres, [visit(2), visit(1)])
    assert rows(postgres) == {row_id(1, 0): 2}
    with psycopg.connect(postgres) as reader:
        query = "SELECT count(*) FROM pg_indexes WHERE indexname = 'books_skitter_pages'"
        assert reader.execute(query).fetchone() == (1,)


def test_an_emptied_output_keeps_the_rows_of_other_jobs(database):
    deliver(database, [visit(1)])
    with closing(open_store(database, job="films", table=JOB)) as other:
        other.write(visit(4))
    with closing(open_store(database, job=JOB)) as store:
        assert (store.clear(), store.count()) == (3, 0)  # type: ignore[attr-defined]
    with closing(open_database(database, job="films", table=JOB)) as other:
        assert other.count() == 2


def test_a_loader_of_the_crawl_before_writes_nothing_more(database):
    with closing(open_store(database, job=JOB)) as before:
        before.write(visit(1))
        with closing(open_store(database, job=JOB)) as fresh:
            fresh.clear()  # type: ignore[attr-defined]
            with pytest.raises(BadSink, match="removed by --fresh"):
                before.write(visit(1, page=2))
            fresh.write(visit(2))
    assert rows(database) == {row_id(1, 0): 2}


def test_a_file_that_is_emptied_is_empty_after_a_kill_too(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    deliver(str(path), [visit(1)])
    with closing(open_store(str(path), job=JOB)) as store, monkeypatch.context() as killed:
        killed.setattr("skitter.sinks.files.jsonl.os.truncate", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.clear()  # type: ignore[attr-defined]
    assert path.stat().st_size > 0
    deliver(str(path), [visit(2)])
    assert rows(str(path)) == {row_id(1, 0): 2}
