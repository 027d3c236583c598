"""What later visits find is told once: `skitter changes`, and a file for cron."""

from __future__ import annotations

import json

import pytest

from crawl.test_first_hour import news as news
from crawl.test_first_hour import write

pytestmark = pytest.mark.timeout(300)


def test_a_file_of_changes_has_each_edit_once_and_the_command_shows_the_same(
    make_machine, news, until
):
    reader = make_machine(news)
    file = reader.folder / "changes.jsonl"
    write(reader.folder, news)

    def run() -> list[tuple[str, ...]]:
        """The lines that a run adds, as (kind, page, field, old, new)."""
        before = file.read_text().splitlines() if file.exists() else []
        words = ("--workers", "1", "--revisit", "--only-changes", "-o", "changes.jsonl")
        done = reader.call("run", "news.py", *words)
        assert done.returncode == 0, done.stderr
        lines = file.read_text().splitlines()
        assert lines[: len(before)] == before
        assert f"changes  {len(lines) - len(before)} added to changes.jsonl\n" in done.stdout
        found = [json.loads(line) for line in lines[len(before) :]]
        until(lambda: json.loads(reader.call("status", "news", "--json").stdout)["due"] >= 4)
        return sorted(
            (one["kind"], one["_url"].removeprefix(news.url), one["field"],
             one.get("old", ""), one.get("new", "")) for one in found
        )  # fmt: skip

    assert run() == [], "what a first crawl finds is not news"
    assert "no changes" in reader.call("changes", "news").stdout
    del news.titles["a2"]
    news.titles |= {"a1": "A better title", "a9": "Late news"}
    found = run()
    for _ in range(2):  # not found for the second time; and nothing at all
        found += run()
    assert sorted(found) == [
        ("changed", "a1", "title", "Title 1", "A better title"),
        ("gone", "a2", "", "", ""),
        ("new", "a9", "", "", ""),
    ]
    shown = reader.call("changes", "news", "--json").stdout.splitlines()
    lines = [json.loads(line) for line in shown]
    pages = [(one["kind"], one["url"].removeprefix(news.url)) for one in lines]
    assert sorted(pages) == sorted((kind, page) for kind, page, *_ in found)
    after = reader.call("changes", "news", "--json", "--after", str(lines[0]["seq"])).stdout
    assert after.splitlines() == shown[1:]
    told = reader.call("changes", "news", "--since", "1h").stdout
    assert "title: Title 1 -> A better title" in told
