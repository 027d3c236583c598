"""Tables: the same promises on SQLite and on PostgreSQL."""

from __future__ import annotations

import math
import subprocess
import sys
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from sinks.making import FETCHED_AT, JOB, result, results, row_id, rows_of, write
from sinks.test_files import JSON, file_size_limit
from skitter.sinks.base import BadSink, RowsRefused, SinkAway
from skitter.sinks.databases.sql import STATEMENT_BYTES
from skitter.sinks.databases.sqlite import Sqlite
from skitter.sinks.registry import open_database, open_store
from waiting import Child

if TYPE_CHECKING:
    from sinks.conftest import PostgresServer
    from skitter.model import Result

LOADER = """
import sys
from skitter.model import Result
from skitter.sinks.registry import open_database, open_store
dsn, who, batches = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
base = 1000 * (who + 1)
store = open_store(dsn, job="books")
print("open", flush=True)
sys.stdin.readline()
for batch in range(batches):
    store.write([
        # Each loader writes rows of its own and rows that the other writes too, brings new columns
        # and makes the other's wider.
        Result("", f"{n:016x}", 0, "https://x.example/", {
            f"own{who}": n, f"new{batch}": 1, "both": n if batch < batches // 2 else "text",
            f"mixed{batch}": [1] if who else 1.5,
        }, 1.0)
        for n in [*range(20), *range(base + batch * 10, base + batch * 10 + 10)]
    ])
store.close()
"""


def stored(dsn: str, table: str | None = None, job: str = JOB) -> dict[str, dict[str, Any]]:
    """The items in the table, by id, as they are read back."""
    with closing(open_database(dsn, job=job, table=table)) as source:
        return {_id(row): row.item for page in source.read(batch=100) for row in page.results}


def _id(row: Result) -> str:
    return f"{row.fingerprint}-{row.index}"


def run(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    """Somebody else's SQL."""
    url = dsn.replace("postgresql://", "postgresql+psycopg://")
    url = url.replace("mysql://", "mysql+pymysql://")
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            found = connection.execute(text(statement))
            return [tuple(row) for row in found] if found.returns_rows else []
    finally:
        engine.dispose()


ITEM = {
    "title": "Ünïcode \U0001f4da",
    "pages": 352,
    "isbn": 2**63 - 1,
    "huge": 2**64,
    "price": 12.5,
    "sold": True,
    "cover": b"\x89PNG\x00",
    "seen": datetime(2024, 2, 3, 4, 5, 6, 789, tzinfo=UTC),
    "day": date(2024, 2, 3),
    "tags": ["a", {"b": None}],
    "maker": {"name": "x", "ids": [1, 2.5]},
    "none": None,
}


def test_a_type_of_items_has_a_view_with_its_columns(database: str):
    book, shelf = {"_type": "book", "title": "T", "price": 1}, {"_type": "shelf", "name": "A"}
    write(database, [result(1, item=book), result(2, item=shelf)])
    assert run(database, "SELECT title, price FROM books_book") == [("T", 1)]
    assert run(database, "SELECT name FROM books_shelf") == [("A",)]
    run(database, "CREATE VIEW mine AS SELECT name FROM books_shelf")

    # A column that a view shows is widened; a field that is new to a type joins its view.
    write(database, [result(3, item={**book, "price": 2.5, "name": "B"})])
    found = run(database, "SELECT price, name FROM books_book ORDER BY price")
    assert found == [(1.0, None), (2.5, "B")]

    run(database, "DROP VIEW mine")
    with closing(open_database(database, job=JOB)) as table:
        assert table.clear(drop=True) == 3
    write(database, [result(4, item=shelf)])
    assert run(database, "SELECT name FROM books_shelf") == [("A",)]
    with pytest.raises(DBAPIError):
        run(database, "SELECT * FROM books_book")


def test_what_has_the_name_of_a_view_is_left_alone(database: str):
    run(database, "CREATE TABLE books_book (mine integer)")
    write(database, [result(1, item={"_type": "book", "title": "T"})])
    write(database, [result(2, item={"_type": "book", "title": "T", "price": 1})])
    assert run(database, "SELECT * FROM books_book") == []
    assert len(stored(database)) == 2
    # Somebody's own field, which is not a type.
    write(database, [result(n, item={"_type": f"it's {n}"}) for n in range(3, 9)])
    assert len(stored(database)) == 8


def test_types_are_kept(database: str):
    write(database, [result(0, ITEM)])
    item = stored(database)[row_id(0)]
    expected = {**ITEM, "huge": str(2**64)}
    del expected["none"]
    assert item == expected
    assert {name: type(value) for name, value in item.items()} == {
        name: type(value) for name, value in expected.items()
    }


def test_a_row_says_which_page_it_came_from_and_when(database: str):
    write(database, [result(3, {"n": 1})])
    with closing(open_database(database, job=JOB)) as source:
        _, (_, (row,)) = source.read(batch=10)
    assert (row.url, row.fetched_at) == ("https://books.example/3", FETCHED_AT)
    assert run(database, "SELECT _job, _id FROM books") == [(JOB, row_id(3))]


def test_items_that_are_no_dicts_are_in_the_column_value(database: str):
    write(database, results(["text", 7, [1]]))
    assert [item["value"] for item in stored(database).values()] == ["text", 7, [1]]


def test_a_row_that_comes_again_is_updated_and_never_doubled(database: str):
    write(database, results([{"a": 1, "b": 2}, {"a": 3}]))
    write(database, [result(0, {"a": 9, "c": "new"})], [result(0, {"a": 9, "c": "new"})])
    assert stored(database) == {row_id(0): {"a": 9, "c": "new"}, row_id(1): {"a": 3}}


def test_the_same_row_twice_in_a_batch_is_stored_once(database: str):
    write(database, [result(0, {"a": 1}), result(0, {"a": 2})])
    assert stored(database) == {row_id(0): {"a": 2}}


def test_jobs_that_share_a_table_do_not_share_rows(database: str):
    for job in ("one", "two"):
        with closing(open_store(database, job=job, table="shared")) as store:
            store.write([result(0, {"from": job})])
    assert stored(database, "shared", "one") == {row_id(0): {"from": "one"}}
    assert stored(database, "shared", "two") == {row_id(0): {"from": "two"}}


def test_new_fields_add_columns(database: str):
    write(database, [result(0, {"a": 1})], [result(1, {"b": 2})])
    write(database, [result(2, {"c": None})], [result(3, {"c": 1.5, "a": 4})])
    assert stored(database) == {
        row_id(0): {"a": 1},
        row_id(1): {"b": 2},
        row_id(2): {},
        row_id(3): {"c": 1.5, "a": 4},
    }


SOME = [True, 7, 2.5, "text", b"\x00\xff" * 60, datetime(2024, 1, 2, tzinfo=UTC),
        date(2024, 1, 2), {"k": [1]}]  # fmt: skip
AS_TEXT = ["true", "7", "2.5", "text", "AP8A/wD/" * 20, "2024-01-02T00:00:00.000000Z", "2024-01-02"]


@pytest.mark.parametrize("old", range(len(SOME)))
def test_a_column_whose_type_changes_is_widened_and_loses_nothing(database: str, old: int):
    for new in range(len(SOME)):
        if new == old:
            continue
        table = f"t{new}"
        write(database, [result(0, {"x": SOME[old], "y": 1})], table=table)
        write(database, [result(1, {"x": SOME[new]})], [result(2, {"x": None})], table=table)
        values = [item.get("x") for item in stored(database, table).values()]
        if dict in (type(SOME[old]), type(SOME[new])):
            plain = [v if isinstance(v, dict | bool | int | float) else AS_TEXT[SOME.index(v)]
                     for v in (SOME[old], SOME[new])]  # fmt: skip
            assert values == [*plain, None]
        elif {old, new} == {1, 2}:
            assert values == [SOME[old], SOME[new], None]
        else:
            assert values == [AS_TEXT[old], AS_TEXT[new], None]


def test_integers_that_a_float_cannot_hold_become_text_and_keep_their_digits(database: str):
    long = 2**53 + 1
    write(database, [result(0, {"x": long})], [result(1, {"x": 0.5})])
    assert [item["x"] for item in stored(database).values()] == [str(long), "0.5"]
    write(database, [result(0, {"x": 0.5}), result(1, {"x": long})], table="other")
    assert [item["x"] for item in stored(database, "other").values()] == ["0.5", str(long)]


def test_nan_and_the_infinities_do_no_harm(database: str):
    write(database, [result(0, {"x": math.nan, "y": math.inf, "z": [math.nan]})])
    item = stored(database)[row_id(0)]
    assert item.get("y") == (None if database.startswith("mysql:") else math.inf)
    assert item["z"] == [None]
    assert "x" not in item or math.isnan(item["x"])


ODD_NAMES = [
    "", " ", "select", "Name", "name", "NAME", "_id", "_url", "_job", "_fetched_at", "x" * 100,
    "ü" * 100, 'quo"te', "per%cent", "%(x)s", "col:on", ":x", "dot.ted", "par(en)", "a\x00b",
    "new\nline", "ctid", "rowid", "日本", "\U0001f4da", "f0", "f1", "[x]", "`x`", "?", "x; DROP",
]  # fmt: skip


def test_any_name_of_a_field_works_and_comes_back(database: str):
    item = {name: number for number, name in enumerate(ODD_NAMES)}
    write(database, [result(0, item)], [result(1, item)])
    write(database, [result(1, {**item, "select": "text", "per%cent": "text"})])
    found = stored(database)
    for name in item.keys() - {"_id", "_url", "_job", "_fetched_at"}:
        stored_name = name.replace("\x00", "\ufffd") if "postgresql" in database else name
        assert found[row_id(0)].get(stored_name) in (item[name], str(item[name])), name
    assert len(found[row_id(0)]) == len(ODD_NAMES)


def test_a_row_with_2000_columns_is_refused_with_advice(database: str):
    advice = pytest.raises(RowsRefused, match=r"2,000 fields.*put variable keys into")
    with closing(open_store(database, job=JOB)) as store, advice:
        store.write([result(0, {f"f{n}": n for n in range(2000)})])


def test_a_table_stops_growing_before_the_database_does(database: str):
    with closing(open_store(database, job=JOB)) as store:
        store.write([result(0, {f"f{n}": n for n in range(900)})])
        store.write([result(1, {f"g{n}": n for n in range(100)})])
        with pytest.raises(RowsRefused, match="it would add 1 columns"):
            store.write([result(2, {"f1": 1}), result(3, {"h": 1})])
        store.write([result(2, {"f1": 1})])
    assert stored(database)[row_id(2)] == {"f1": 1}


def test_a_table_that_is_not_ours_is_left_alone(database: str):
    run(database, "CREATE TABLE books (title text)")
    with pytest.raises(BadSink, match="not created by Skitter"):
        open_store(database, job=JOB)


def test_a_view_of_one_job_is_not_the_table_of_another(database: str):
    write(database, [result(1, item={"_type": "book", "title": "T"})])
    with pytest.raises(BadSink, match="'books_book' already exists and is a view"):
        open_store(database, job="books-book")
    assert run(database, "SELECT title FROM books_book") == [("T",)]


def test_columns_that_the_owner_added_are_left_alone(database: str):
    write(database, [result(0, {"a": 1})])
    run(database, "ALTER TABLE books ADD COLUMN reviewed TEXT")
    run(database, "UPDATE books SET reviewed = 'yes'")
    write(database, [result(0, {"a": "text"})], [result(1, {"b": 1})])
    assert run(database, "SELECT reviewed FROM books ORDER BY _id") == [("yes",), (None,)]


def test_a_column_that_the_owner_dropped_comes_back_with_the_next_row(database: str):
    with closing(open_store(database, job=JOB)) as store:
        store.write([result(0, {"a": 1, "b": 2})])
        run(database, "ALTER TABLE books DROP COLUMN a")
        store.write([result(1, {"a": 3})])
    assert stored(database) == {row_id(0): {"b": 2}, row_id(1): {"a": 3}}


def test_a_table_that_the_owner_dropped_comes_back_with_the_next_row(database: str):
    with closing(open_store(database, job=JOB)) as store:
        store.write([result(0, {"a": 1, "b": 2})])
        run(database, "DROP TABLE books")
        store.write([result(1, {"a": "text"})])
    assert stored(database) == {row_id(1): {"a": "text"}}


def test_indexes_of_the_owner_survive_a_wider_column(database: str):
    write(database, [result(0, {"a": 1})])
    run(database, "CREATE INDEX by_a ON books (a)")
    write(database, [result(1, {"a": "text"})])
    assert [item["a"] for item in stored(database).values()] == ["1", "text"]
    with pytest.raises(Exception, match=r"already exists|Duplicate key name"):
        run(database, "CREATE INDEX by_a ON books (a)")


def test_a_row_that_breaks_a_rule_of_the_owner_is_named_and_the_rest_can_be_written(database: str):
    write(database, [result(0, {"a": 1})])
    run(database, "CREATE UNIQUE INDEX one_each ON books (a)")
    rows = [result(n, {"a": n}) for n in (1, 2, 3)]
    with closing(open_store(database, job=JOB)) as store:
        with pytest.raises(RowsRefused) as caught:
            store.write([rows[1], rows[0], rows[2]])
        refused = [row for row, _ in caught.value.refused]
        assert refused == [rows[0]]
        assert list(stored(database)) == [row_id(0)]
        store.write(rows[1:])
    assert list(stored(database)) == [row_id(n) for n in (0, 2, 3)]


def test_a_trigger_of_the_owner_refuses_a_row_and_not_the_batch(database: str):
    write(database, [result(0, {"a": 1})])
    if database.startswith("postgresql:"):
        run(
            database,
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF NEW.a = 2 THEN RAISE EXCEPTION 'no twos'; END IF; RETURN NEW; END $$",
        )
        run(
            database,
            "CREATE TRIGGER t BEFORE INSERT ON books FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
    elif database.startswith("mysql:"):
        run(
            database,
            "CREATE TRIGGER t BEFORE INSERT ON books FOR EACH ROW"
            " IF NEW.a = 2 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no twos'; END IF",
        )
    else:
        run(
            database,
            "CREATE TRIGGER t BEFORE INSERT ON books WHEN NEW.a = 2"
            " BEGIN SELECT RAISE(ABORT, 'no twos'); END",
        )
    rows = [result(n, {"a": n}) for n in (2, 3)]
    with closing(open_store(database, job=JOB)) as store:
        with pytest.raises(RowsRefused) as caught:
            store.write(rows)
        assert caught.value.refused == [(rows[0], "no twos")]
        store.write(rows[1:])
    assert list(stored(database)) == [row_id(0), row_id(3)]


@pytest.mark.parametrize(
    ("change", "undo", "says"),
    [
        (
            "ALTER TABLE books DROP CONSTRAINT books_pkey",
            "ALTER TABLE books ADD PRIMARY KEY (_job, _id)",
            "there is no unique or exclusion constraint",
        ),
        (
            "ALTER TABLE books DROP a, ADD a bigint GENERATED ALWAYS AS (7) STORED",
            "ALTER TABLE books DROP a",
            'cannot insert a non-DEFAULT value into column "a"',
        ),
        (
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM gone(); END $$;"
            " CREATE TRIGGER t BEFORE INSERT ON books FOR EACH ROW EXECUTE FUNCTION f()",
            "DROP TRIGGER t ON books",
            r"function gone\(\) does not exist",
        ),
    ],
)
def test_a_table_that_its_owner_spoilt_is_told_and_waited_for(postgres: str, change, undo, says):
    with closing(open_store(postgres, job=JOB)) as store:
        store.write([result(0, {"a": 1})])
        run(postgres, change)
        with pytest.raises(SinkAway, match=f"does not accept the rows: {says}"):
            store.write([result(1, {"a": 2})])
        run(postgres, undo)
        store.write([result(1, {"a": 2})])
    assert list(stored(postgres)) == [row_id(0), row_id(1)]


def test_a_table_of_a_later_release_is_refused_with_advice(database: str):
    write(database, [result(0, {"a": 1})])
    run(database, "UPDATE _skitter_columns SET kind = 'frob'")

    with pytest.raises(BadSink, match="the kind 'frob', which this release does not know"):
        write(database, [result(1, {"a": 2})])


def test_two_loaders_at_once_share_a_table(database: str):
    with ExitStack() as stack:
        loaders = [
            stack.enter_context(Child(
                [sys.executable, "-c", LOADER, database, str(who), "12"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            ))
            for who in (0, 1)
        ]  # fmt: skip
        for loader in loaders:
            assert loader.stdout
            assert loader.stdout.readline() == "open\n"
        for loader in loaders:
            assert loader.stdin
            loader.stdin.write("go\n")
            loader.stdin.flush()
        for loader in loaders:
            _, errors = loader.communicate()
            assert (loader.returncode, errors) == (0, "")
    found = stored(database)
    assert len(found) == 20 + 2 * 12 * 10
    assert all(isinstance(item["both"], str) for item in found.values())
    assert found[f"{1000:016x}-0"] == {"own0": 1000, "new0": 1, "both": "1000", "mixed0": 1.5}
    assert found[f"{2000:016x}-0"] == {"own1": 2000, "new0": 1, "both": "2000", "mixed0": [1]}


def test_a_moment_without_a_zone_is_taken_for_utc_and_one_with_a_zone_is_kept(database: str):
    east = timezone(timedelta(hours=5))
    write(database, results([{"t": datetime(2024, 1, 1, 12)},
                             {"t": datetime(2024, 1, 1, 12, tzinfo=east)}]))  # fmt: skip
    assert [item["t"] for item in stored(database).values()] == [
        datetime(2024, 1, 1, 12, tzinfo=UTC),
        datetime(2024, 1, 1, 7, tzinfo=UTC),
    ]


def test_a_batch_of_large_rows_is_stored_in_several_statements(database: str):
    large = [{"text": f"{n}" * (STATEMENT_BYTES // 2 - 1000), "n": n} for n in range(3)]
    write(database, results([{"n": -1}, *large, {"n": 3}]))
    assert [item["n"] for item in stored(database).values()] == [-1, 0, 1, 2, 3]
    assert stored(database)[row_id(3)] == large[2]


def test_one_store_keeps_up_with_a_table_whose_shape_changes(database: str):
    with closing(open_store(database, job=JOB)) as store:
        store.write([result(0, {"a": 1, "b": [1]})])
        store.write([result(1, {"b": [2], "a": 2})])
        run(database, "ALTER TABLE books DROP COLUMN a")  # it comes back behind b
        store.write([result(2, {"b": [3], "a": 3})])
        store.write([result(3, {"c": True, "a": "text"})])
        store.write([result(4, {"c": None, "b": None})])
    assert stored(database) == {
        row_id(0): {"b": [1]},
        row_id(1): {"b": [2]},
        row_id(2): {"b": [3], "a": "3"},
        row_id(3): {"c": True, "a": "text"},
        row_id(4): {},
    }


def test_an_empty_batch_is_nothing(database: str):
    write(database, [])
    assert stored(database) == {}


FIELDS = st.dictionaries(
    st.text(max_size=20),
    JSON | st.binary() | st.datetimes(timezones=st.just(UTC)) | st.dates(),
    max_size=6,
)


def _comparable(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -(2**63) <= value < 2**63 else str(value)
    return value


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(item=FIELDS)
def test_any_item_survives_sqlite(tmp_path_factory: pytest.TempPathFactory, item: dict[str, Any]):
    path = tmp_path_factory.mktemp("any") / "items.db"
    write(path, [result(0, item)])
    found = stored(str(path))[row_id(0)]
    own = {"_id", "_url", "_job", "_fetched_at"}
    assert {k: v for k, v in found.items() if k[:1] != "_"} == {
        k: _comparable(v) for k, v in item.items() if v is not None and k[:1] != "_"
    }
    assert len(found) == len([v for v in item.values() if v is not None])
    assert not own & found.keys()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(items=st.lists(FIELDS, min_size=1, max_size=5))
def test_any_items_share_a_table_of_sqlite(
    tmp_path_factory: pytest.TempPathFactory, items: list[dict[str, Any]]
):
    path = tmp_path_factory.mktemp("any") / "items.db"
    write(path, *([row] for row in results(items)))
    found = stored(str(path))
    for number, item in enumerate(items):
        given_fields = {k for k, v in item.items() if v is not None and k[:1] != "_"}
        assert {k for k in found[row_id(number)] if k[:1] != "_"} == given_fields


@pytest.mark.parametrize("name", ["postgres", "mysql"])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(items=st.lists(FIELDS, min_size=1, max_size=4))
def test_any_items_share_a_table_of_a_server(
    name: str, request: pytest.FixtureRequest, items: list[dict[str, Any]]
):
    dsn: str = request.getfixturevalue(name)
    run(dsn, "DROP TABLE IF EXISTS books")
    write(dsn, *([row] for row in results(items)))
    assert len(stored(dsn)) == len(items)


# SQLite only


def test_a_commit_in_sqlite_is_on_the_disk(tmp_path: Path):
    engine = Sqlite(tmp_path / "x.db").open()
    with engine.connect() as connection:
        query = connection.exec_driver_sql
        assert query("PRAGMA journal_mode").scalar() == "wal"
        assert query("PRAGMA synchronous").scalar() == 2
    engine.dispose()


def test_values_in_sqlite_have_the_types_that_sql_expects(tmp_path: Path):
    write(tmp_path / "x.db", [result(0, ITEM)])
    (row,) = rows_of(tmp_path / "x.db")
    assert row["_fetched_at"] == "2023-11-14T22:13:20.250000Z"
    assert row["tags"] == '["a",{"b":null}]'
    assert row["sold"] == 1
    assert run(f"sqlite:///{tmp_path}/x.db", "SELECT date(seen), typeof(price) FROM books") == [
        ("2024-02-03", "real")
    ]


def test_views_of_the_owner_survive_a_wider_column_in_sqlite(tmp_path: Path):
    dsn = f"sqlite:///{tmp_path}/x.db"
    write(dsn, [result(0, {"a": 1})])
    run(dsn, "CREATE VIEW v AS SELECT a FROM books")
    write(dsn, [result(1, {"a": "text"})])
    assert run(dsn, "SELECT a FROM v ORDER BY a") == [("1",), ("text",)]


def test_text_that_looks_like_a_number_stays_text_in_sqlite(tmp_path: Path):
    write(tmp_path / "x.db", results([{"zip": "00501"}]), [result(1, {"zip": "1e3"})])
    assert [row["zip"] for row in rows_of(tmp_path / "x.db")] == ["00501", "1e3"]


def test_a_full_disk_keeps_sqlite_whole_and_the_rest_can_be_written_later(tmp_path: Path):
    path = tmp_path / "x.db"
    rows = results([{"text": "x" * 5000} for _ in range(60)])
    with closing(open_store(str(path), job=JOB)) as store:
        store.write(rows[:3])
        with file_size_limit(100_000), pytest.raises(SinkAway, match=r"x\.db cannot be written"):
            store.write(rows[3:])
        assert len(rows_of(path)) == 3
        store.write(rows[3:])
    assert len(rows_of(path)) == 60


def test_rows_are_not_written_to_a_sqlite_file_that_was_removed(tmp_path: Path):
    path = tmp_path / "x.db"
    with closing(open_store(str(path), job=JOB)) as store:
        store.write([result(0, {"a": 1})])
        for file in tmp_path.iterdir():
            file.unlink()
        store.write([result(1, {"a": 2})])
        assert [row["a"] for row in rows_of(path)] == [2]


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path):
    path = tmp_path / "x.db"
    path.write_text("precious" * 1000)
    with pytest.raises(BadSink, match="not a database"):
        open_store(str(path), job=JOB)
    assert path.read_text() == "precious" * 1000


# PostgreSQL only


def test_a_row_too_big_for_a_page_of_postgresql_is_named(postgres: str):
    wide = result(1, {f"f{n}": "text of some length" * 3 for n in range(900)})
    with closing(open_store(postgres, job=JOB)) as store:
        with pytest.raises(RowsRefused, match="row is too big"):
            store.write([result(0, {"f1": "x"}), wide])
        store.write([result(0, {"f1": "x"})])
    assert list(stored(postgres)) == [row_id(0)]


def test_nul_characters_are_replaced_for_postgresql(postgres: str):
    write(postgres, [result(0, {"a": "x\x00y", "b": ["\x00", {"\x00": 1}]})])
    assert stored(postgres)[row_id(0)] == {"a": "x\ufffdy", "b": ["\ufffd", {"\ufffd": 1}]}


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_postgresql_may_have_another_encoding(postgres_server: PostgresServer, encoding: str):
    dsn = postgres_server.create(f"ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")

    write(dsn, [result(0, {"title": "Größe", "größe": ["ä"]})])
    assert stored(dsn)[row_id(0)] == {"title": "Größe", "größe": ["ä"]}


def test_a_view_in_the_way_of_a_wider_column_is_told_and_waited_for(postgres: str):
    with closing(open_store(postgres, job=JOB)) as store:
        store.write([result(0, {"a": 1})])
        run(postgres, "CREATE VIEW v AS SELECT a FROM books")
        with pytest.raises(SinkAway, match="used by a view"):
            store.write([result(1, {"a": "text"})])
        run(postgres, "DROP VIEW v")
        store.write([result(1, {"a": "text"})])
    assert len(stored(postgres)) == 2


def test_postgresql_may_be_away_for_a_while(postgres: str, postgres_server: PostgresServer):
    with closing(open_store(postgres, job=JOB)) as store:
        store.write([result(0, {"a": 1})])
        postgres_server.stop()
        try:
            with pytest.raises(SinkAway, match=r"PostgreSQL at 127\.0\.0\.1:.* does not answer"):
                store.write([result(1, {"a": 2})])
        finally:
            postgres_server.start()
        store.write([result(1, {"a": 2})])
    assert list(stored(postgres)) == [row_id(0), row_id(1)]


def test_a_password_is_in_no_message(postgres_server: PostgresServer):
    dsn = f"postgresql://me:hunter2@127.0.0.1:{postgres_server.port}/nowhere"
    with pytest.raises(SinkAway) as caught:
        open_store(dsn, job=JOB)
    assert "nowhere" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def visit(page: int, items: range, at: float) -> list[Result]:
    """What a page brought, so many seconds later."""
    return [replace(result(page, {"n": n}, index=n), fetched_at=FETCHED_AT + at) for n in items]


def test_rows_of_an_earlier_visit_go_if_the_page_no_longer_has_them(database):
    with closing(open_store(database, job=JOB)) as store:
        store.write(visit(1, range(3), 0) + visit(2, range(3), 0))
        store.write(visit(1, range(1), 60))
        assert len(stored(database)) == 6

        store.prunes = True  # type: ignore[attr-defined]
        store.write(visit(1, range(1), 120))
        store.write(visit(1, range(1, 2), 120))  # of the same visit, in another batch

    left = [row_id(1, 0), row_id(1, 1), *(row_id(2, n) for n in range(3))]
    assert sorted(stored(database)) == left


def test_rows_go_if_two_visits_of_a_page_come_in_one_batch(database):
    with closing(open_store(database, job=JOB)) as store:
        store.prunes = True  # type: ignore[attr-defined]
        store.write(visit(1, range(3), 0) + visit(1, range(1), 60))
    assert list(stored(database)) == [row_id(1, 0)]


def test_all_rows_go_that_a_transform_made_of_items_which_a_page_no_longer_has(database):
    def rows(at: float, *parents: str) -> list[Result]:
        return [
            replace(one, fingerprint=f"{1:016x}-{n}")
            for n in parents
            for one in visit(1, range(2), at)
        ]

    with closing(open_store(database, job=JOB)) as store:
        store.prunes = True  # type: ignore[attr-defined]
        store.write(rows(0, "0", "1"))
        store.write(rows(60, "0"))
    assert sorted(stored(database)) == [f"{1:016x}-0-0", f"{1:016x}-0-1"]


def test_a_page_that_is_forgotten_loses_what_it_brought_before_and_nothing_else(database):
    [gone] = visit(1, range(-1, 0), 60)
    with closing(open_store(database, job=JOB)) as store:
        store.write(visit(1, range(3), 0) + visit(2, range(3), 0))
        store.forget([gone])  # type: ignore[attr-defined]
        store.forget([gone])  # type: ignore[attr-defined]
        assert sorted(stored(database)) == [row_id(2, n) for n in range(3)]

        store.write(visit(1, range(2), 120))  # it is back
        store.forget([gone])  # type: ignore[attr-defined]  # a loader that died had done that before
    assert sorted(stored(database))[:2] == [row_id(1, 0), row_id(1, 1)]
