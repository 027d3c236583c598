"""Archives in an object store."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skitter.archive.index import Archive, write_lines
from skitter.archive.record import Record
from skitter.archive.store import Copied, Store, StoreAway
from skitter.archive.writer import ArchiveWriter
from skitter.errors import UsageError
from skitter.model import Request, Response


def keep(writer: ArchiveWriter, name: str) -> None:
    url = f"https://a.test/{name}"
    record = Record(Request(url=url), Response(url=url, status=200, body=b"x"), 1e9, "j", name)
    write_lines(writer.folder, writer.write([record]))


def open_writer(folder: Path) -> ArchiveWriter:
    return ArchiveWriter(folder, "j", lambda *line: None)


def pages(folder: Path) -> set[str]:
    archive = Archive.open(folder)
    assert archive.unreadable == []
    return {kept.url.rpartition("/")[2] for kept in archive if archive.read(kept)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"file://{tmp_path}/store")


def test_files_are_copied_once_nobody_writes_to_them(store, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    open_, finished = open_writer(here), open_writer(here)
    keep(open_, "1")
    keep(finished, "2")
    finished.close()

    assert store.push(here).files == 1
    assert Store(store.url).push(here).files == 0, "it is there"
    assert store.pull(there).files == 1
    assert pages(there) == {"2"}

    open_.close()
    assert store.push(here).files == 1
    assert (store.pull(there).files, store.pull(there)) == (1, Copied())
    assert pages(there) == {"1", "2"}


def test_lines_of_two_machines_come_together(store, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    writer = open_writer(here)
    for name in ("1", "2", "third"):
        keep(writer, name)
    writer.close()
    [index] = here.glob("*.jsonl")
    one, two, three = index.read_text().splitlines()
    index.write_text(f"{one}\n")
    store.push(here)
    store.pull(there)
    index.write_text(f"{one}\n{two}\n")
    write_lines(there, [three])

    for folder in (here, there):
        Store(store.url).push(folder)
    for folder in (here, there):
        store.pull(folder)
        assert pages(folder) == {"1", "2", "third"}


def test_what_is_not_a_file_name_stays_in_the_store(store, tmp_path):
    (tmp_path / "store" / "a").mkdir()
    (tmp_path / "store" / "a" / "b.warc").write_bytes(b"")
    with pytest.raises(UsageError, match="not a file name"):
        store.pull(tmp_path / "here")


@pytest.mark.parametrize("url", ["s3:/x", "ftp://a/b", "s3://", "archive"])
def test_another_place_is_refused_with_a_sentence(url):
    with pytest.raises(UsageError, match=re.escape("is not an object store")):
        Store(url)


def test_a_store_is_asked_only_when_a_file_is_finished(tmp_path, monkeypatch):
    for name, value in [
        ("ENDPOINT_URL", "http://127.0.0.1:9"), ("ALLOW_HTTP", "true"), ("REGION", "here"),
        ("ACCESS_KEY_ID", "x"), ("SECRET_ACCESS_KEY", "secret-y"),
    ]:  # fmt: skip
        monkeypatch.setenv(f"AWS_{name}", value)
    away, writer = Store("s3://bucket/pages"), open_writer(tmp_path)
    keep(writer, "1")
    assert away.push(tmp_path) == Copied()

    writer.close()
    with pytest.raises(StoreAway, match=re.escape("s3://bucket/pages refuses: ")) as raised:
        away.push(tmp_path)
    assert "secret-y" not in str(raised.value)
