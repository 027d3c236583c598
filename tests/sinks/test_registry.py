"""What users name: the kinds of sinks."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from sinks.making import JOB, copy_of, result
from skitter.errors import BadJobName, UsageError
from skitter.extras import install
from skitter.sinks import BadSink, Destination, MissingExtra, open_sink

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("x.db", "SQLite file {}/x.db, table books"),
        ("x.sqlite", "SQLite file {}/x.sqlite, table books"),
        ("x.JSONL", "JSON Lines file {}/x.JSONL"),
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
        assert sink.description.startswith("PostgreSQL at 127.0.0.1:")
        assert sink.description.endswith("table t")
        assert "hunter2" not in sink.description


@pytest.mark.parametrize("dsn", ["", "x", "x.txt", "mongodb://root:hunter2@h/d", "ftp://b/x.jsonl"])
async def test_anything_else_is_refused_with_the_forms_that_work(dsn: str):
    with pytest.raises(UsageError, match="postgresql://USER") as caught:
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
    with pytest.raises(BadSink, match="only databases have tables"):
        async with open_sink(str(tmp_path / "x.jsonl"), job=JOB, table="t"):
            pass


async def test_a_bad_job_name_is_refused(tmp_path: Path):
    with pytest.raises(BadJobName):
        async with open_sink(str(tmp_path / "x.jsonl"), job="no spaces"):
            pass


async def test_a_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=re.escape(install("postgres"))):
        async with open_sink("postgresql://h/d", job=JOB):
            pass


def test_a_missing_extra_of_a_file_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delitem(sys.modules, "skitter.sinks.files.parquet", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=re.escape(install("parquet"))):
        copy_of(tmp_path / "x.parquet", [result(0, 1)])
    with pytest.raises(MissingExtra):  # before a crawl begins
        Destination(str(tmp_path / "x.parquet"), JOB, tmp_path).check()
