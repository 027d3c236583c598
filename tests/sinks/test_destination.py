"""Where a crawl puts its items, when that is a file that is written at the end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sinks.making import JOB, records_of, result
from skitter.sinks import BadSink, Destination


@pytest.fixture
def books(tmp_path: Path) -> Destination:
    return Destination(str(tmp_path / "books.csv"), JOB, tmp_path / ".skitter")


def store(destination: Destination, *numbers: int) -> None:
    async def main() -> None:
        async with destination.open() as sink:
            await sink.write([result(n, {"n": n}) for n in numbers])

    asyncio.run(main())


def finish(destination: Destination) -> int | None:
    return asyncio.run(destination.finish())


def titles(destination: Destination) -> list[str]:
    return [row["n"] for row in records_of(Path(destination.dsn))]


def test_rows_go_to_a_store_and_the_file_has_all_of_them_at_the_end(books: Destination):
    store(books, 0, 1)
    assert not Path(books.dsn).exists()
    assert finish(books) == 2
    store(books, 1, 2)
    assert titles(books) == ["0", "1"]
    assert finish(books) == 3
    assert titles(books) == ["0", "1", "2"]


def test_a_file_that_is_gone_is_written_again_with_all_rows(books: Destination):
    store(books, 0)
    finish(books)
    Path(books.dsn).unlink()
    store(books, 1)
    finish(books)
    assert titles(books) == ["0", "1"]


def test_a_file_that_was_there_before_is_refused_and_no_store_is_made(books: Destination):
    Path(books.dsn).write_text("_id,_url,_fetched_at,mine\n")
    with pytest.raises(BadSink, match="already exists, and was not written by this job"):
        store(books, 0)
    assert not Path(books.store).exists()


def test_a_file_that_somebody_changed_is_refused_and_stays(books: Destination):
    store(books, 0)
    finish(books)
    with Path(books.dsn).open("a") as file:
        file.write("a note of mine\n")
    with pytest.raises(BadSink, match="or was changed since"):
        store(books, 1)
    with pytest.raises(BadSink, match="or was changed since"):
        finish(books)
    assert "a note of mine" in Path(books.dsn).read_text()


def test_without_its_store_a_file_is_not_replaced_by_fewer_rows(books: Destination):
    store(books, 0, 1)
    finish(books)
    Path(books.store).unlink()
    with pytest.raises(BadSink, match="was not written by this job"):
        store(books, 2)
    assert titles(books) == ["0", "1"]


def test_of_two_jobs_with_one_file_the_second_is_refused(books: Destination):
    films = Destination(books.dsn, "films", books.directory)
    store(films, 0)
    store(books, 1)
    finish(films)
    with pytest.raises(BadSink, match="was not written by this job"):
        finish(books)


def test_two_files_are_written_from_one_store(books: Destination, tmp_path: Path):
    store(books, 0)
    other = Destination(str(tmp_path / "books.parquet"), JOB, books.directory)
    store(other, 1)
    assert (finish(books), finish(other)) == (2, 2)
    assert other.place == books.place


def test_a_folder_that_was_moved_goes_on(books: Destination, tmp_path: Path):
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, numbers in ((old, (0,)), (new, (1,))):
        if folder is new:
            old.rename(new)
        folder.mkdir(exist_ok=True)
        moved = Destination(str(folder / "b.csv"), JOB, folder / ".skitter")
        store(moved, *numbers)
        finish(moved)
    assert titles(moved) == ["0", "1"]


def test_a_new_file_keeps_the_mode_and_the_link_of_the_old_one(books: Destination):
    real, link = Path(books.dsn).with_name("real.csv"), Path(books.dsn)
    link.symlink_to(real)
    store(books, 0)
    finish(books)
    real.chmod(0o600)
    store(books, 1)
    finish(books)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600


def test_the_file_of_a_type_goes_with_its_last_row_unless_somebody_changed_it(books: Destination):
    async def crawl(*types: str) -> set[str]:
        await books.clear()
        async with books.open() as sink:
            await sink.write([result(n, {"_type": one}) for n, one in enumerate(types)])
        await books.finish()
        return {one.name for one in Path(books.dsn).parent.glob("books.*csv")}

    assert asyncio.run(crawl("book", "shelf")) == {"books.csv", "books.book.csv", "books.shelf.csv"}
    Path(books.dsn).with_name("books.mine.csv").write_text("mine")
    assert asyncio.run(crawl("book")) == {"books.csv", "books.book.csv", "books.mine.csv"}
    Path(books.dsn).with_name("books.book.csv").write_text("changed")
    assert asyncio.run(crawl()) == {"books.csv", "books.book.csv", "books.mine.csv"}
