"""A tree of Markdown files: one for each row that has Markdown, whoever is killed."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped]

from sinks.making import FETCHED_AT, JOB, result, write
from skitter.sinks import BadSink
from skitter.sinks.registry import open_database
from skitter.sinks.tree import Tree, _Names, path_of

if TYPE_CHECKING:
    from pathlib import Path

    from skitter.model import Result

SHOP = "https://books.example"


def page(number: int, path: str, text: str = "# Dune", **item: Any) -> Result:
    found = result(number, {"title": "Dune", "markdown": text, **item})
    return replace(found, url=f"{SHOP}{path}")


def add(folder: Path) -> int:
    tree = Tree.of(f"{folder}/site/")
    return asyncio.run(tree.add(str(folder / "x.db"), job=JOB))


def files_in(folder: Path) -> dict[str, str]:
    root = folder / "site"
    found = (one for one in root.rglob("*") if one.is_file())
    return {one.relative_to(root).as_posix(): one.read_text() for one in found}


def test_each_page_is_a_file_that_later_runs_leave_alone_until_it_changes(tmp_path: Path):
    write(tmp_path / "x.db", [page(1, "/"), page(2, "/a/dune.html?edition=2", title='"b": 1\x85')])
    assert add(tmp_path) == 2
    before = files_in(tmp_path)
    assert sorted(before) == ["books.example/a/dune_edition=2.md", "books.example/index.md"]
    _, head, text = before["books.example/a/dune_edition=2.md"].split("---\n")
    told = yaml.safe_load(head)
    assert (told["url"], told["title"]) == (f"{SHOP}/a/dune.html?edition=2", '"b": 1\x85')
    assert told["time"].timestamp() == pytest.approx(FETCHED_AT)
    assert text == "\n# Dune\n"

    times = {one: one.stat().st_mtime_ns for one in tmp_path.rglob("*.md")}
    later = replace(page(1, "/", "# New"), fetched_at=FETCHED_AT + 60)
    write(tmp_path / "x.db", [later])
    assert add(tmp_path) == 2
    assert files_in(tmp_path)["books.example/index.md"].endswith("\n# New\n")
    changed = {one.name for one, at in times.items() if one.stat().st_mtime_ns != at}
    assert changed == {"index.md"}


def test_no_file_replaces_another_and_those_of_rows_that_are_gone_go(tmp_path: Path):
    foreign = tmp_path / "site" / "books.example" / "readme.md"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    pages = [page(n, path) for n, path in enumerate(("/a", "/A.html", "/readme", "/b.md/c", "/b"))]
    write(tmp_path / "x.db", [*pages, result(9, {"price": 1})])
    assert add(tmp_path) == 5
    there = {name.removeprefix("books.example/") for name in files_in(tmp_path)}
    assert there == {"a.md", "A-2.md", "readme.md", "readme-2.md", "b.md_/c.md", "b.md"}

    with closing(open_database(str(tmp_path / "x.db"), job=JOB)) as table:
        table.clear()
    write(tmp_path / "x.db", [pages[1]])
    assert add(tmp_path) == 1
    assert {name.removeprefix("books.example/") for name in files_in(tmp_path)} == {
        "A-2.md",
        "readme.md",
    }
    assert foreign.read_text() == "mine"


def test_what_was_named_before_a_kill_is_written_there_and_a_new_store_knows_its_files(
    tmp_path: Path,
):
    write(tmp_path / "x.db", [page(1, "/a"), page(2, "/a.html")])
    with closing(open_database(str(tmp_path / "x.db"), job=JOB)) as table:
        rows = [row for one in table.read(batch=9) for row in one.results]
        from skitter.sinks.rows import row_of

        named = _Names(table, tmp_path / "site").of([row_of(one) for one in rows])
    add(tmp_path)
    assert {path for _, path in named} == set((tmp_path / "site").rglob("*.md"))
    before = files_in(tmp_path)

    (tmp_path / "x.db").unlink()
    write(tmp_path / "x.db", [page(2, "/a.html"), page(1, "/a")])
    add(tmp_path)
    assert files_in(tmp_path) == before


def test_rows_without_markdown_are_no_documents(tmp_path: Path):
    write(tmp_path / "x.db", [result(1, {"price": 1})])
    with pytest.raises(BadSink, match=r"no row of .* has a field `markdown`"):
        add(tmp_path)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://a.example", "a.example/index"),
        ("http://u:p@a.example:81/x/", "a.example_81/x/index"),
        ("https://a.example/x/y.HTML", "a.example/x/y"),
        ("https://a.example/x.tar.gz", "a.example/x.tar.gz"),
        ("https://a.example/%2e%2e/..%2Fetc/%00", "a.example/_/.._etc/_"),
        ("https://a.example/caf%C3%A9//b?q=a/b", "a.example/café/_/b_q=a_b"),
        (f"https://a.example/{'é' * 200}", f"a.example/{'é' * 75}"),
    ],
)
def test_paths_are_names_that_any_system_takes(url: str, path: str):
    assert path_of(url) == path
