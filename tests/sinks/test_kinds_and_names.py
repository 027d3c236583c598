"""The pure rules: what a column becomes, and what it is called."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.sinks.columns import (
    MAX_NAME_BYTES,
    OWN,
    Kind,
    column_name,
    fit,
    kind_of,
    safe_field,
    table_name,
    text_of,
    widen,
)

KINDS = st.sampled_from(Kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, Kind.NULL),
        (True, Kind.BOOL),
        (7, Kind.INT),
        (2**53 + 1, Kind.LONG),
        (-(2**63), Kind.LONG),
        (2**63, Kind.TEXT),
        (0.5, Kind.FLOAT),
        ("a", Kind.TEXT),
        (b"a", Kind.BYTES),
        (datetime(2024, 1, 1, tzinfo=UTC), Kind.TIME),
        (date(2024, 1, 1), Kind.DATE),
        ([], Kind.JSON),
        ({}, Kind.JSON),
    ],
)
def test_a_value_has_the_narrowest_kind_that_holds_it(value: Any, kind: Kind):
    assert kind_of(value) is kind


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Kind.NULL, Kind.DATE, Kind.DATE),
        (Kind.INT, Kind.FLOAT, Kind.FLOAT),
        (Kind.LONG, Kind.FLOAT, Kind.TEXT),
        (Kind.INT, Kind.LONG, Kind.LONG),
        (Kind.BOOL, Kind.INT, Kind.TEXT),
        (Kind.DATE, Kind.TIME, Kind.TEXT),
        (Kind.TEXT, Kind.JSON, Kind.JSON),
        (Kind.INT, Kind.JSON, Kind.JSON),
    ],
)
def test_two_kinds_widen_to_one_that_holds_both(one: Kind, other: Kind, both: Kind):
    assert widen(one, other) is widen(other, one) is both


def test_the_order_in_which_kinds_come_does_not_matter():
    for a, b, c in product(Kind, repeat=3):
        assert widen(widen(a, b), c) is widen(a, widen(b, c))


def test_moments_as_text_sort_as_moments_do():
    east = timezone(timedelta(hours=3))
    moments = [
        datetime(1, 1, 2, tzinfo=UTC),
        datetime(999, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 1, 2, tzinfo=east),
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 1, 0, 0, 0, 5, tzinfo=UTC),
    ]
    assert sorted(map(text_of, moments)) == list(map(text_of, moments))
    assert text_of(moments[2]) == "2023-12-31T23:00:00.000000Z"


def test_a_mixed_text_column_shows_values_as_people_write_them():
    values = [True, 7, 0.5, "x", b"\x00\xff", date(2024, 1, 2)]
    shown = ["true", "7", "0.5", "x", "AP8=", "2024-01-02"]
    assert [fit(value, Kind.TEXT) for value in values] == shown


def test_a_plain_field_keeps_its_name():
    for name in ("title", "Price EUR", "select", "größe", "a%b", 'say "hi"', "日本"):
        assert column_name(name, taken=set()) == name


@pytest.mark.parametrize("name", ["", "  ", "x" * 64, "ü" * 40, "a\x00b", "ctid", "XMIN", "%(x)s"])
def test_a_field_that_a_database_cannot_name_gets_another_name(name: str):
    column = column_name(name, taken=set())
    assert column != name
    assert column.strip()
    assert len(column.encode()) <= MAX_NAME_BYTES
    assert column == column_name(name, taken={"other"})


def test_fields_that_differ_only_by_case_get_columns_that_differ_by_more():
    assert column_name("Name", taken={"name"}).startswith("Name_")
    assert column_name("Name", taken={"name"}) != column_name("NAME", taken={"name"})


@given(st.lists(st.text(), unique=True, max_size=30))
def test_fields_never_share_a_column(fields: list[str]):
    taken = set(OWN)
    for field in fields:
        name = column_name(safe_field(field), taken)
        assert name.casefold() not in taken
        assert 0 < len(name.encode()) <= MAX_NAME_BYTES
        taken.add(name.casefold())


@pytest.mark.parametrize(
    ("job", "table"), [("books", "books"), ("My-shop.2", "my_shop_2"), ("sqlite_x", "job_sqlite_x")]
)
def test_a_job_has_a_table_that_needs_no_quotes(job: str, table: str):
    assert table_name(job) == table
    assert len(table_name("x" * 100)) <= MAX_NAME_BYTES
