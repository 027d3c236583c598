"""What later visits find is told once: `skitter changes`, and a file for cron."""

from __future__ import annotations

import json
import random

import pytest

from crawl.conftest import kill
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


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("rounds", "pages", "each"),
    [(2, 40, 10), pytest.param(20, 200, 50, marks=pytest.mark.chaos)],
)
def test_the_feed_is_the_list_of_edits_though_workers_loaders_and_the_server_are_killed(
    make_machine, news, until, rounds, pages, each
):
    chance, reader = random.Random(5), make_machine(news)
    news.titles = {f"a{n}": f"Title {n}" for n in range(pages)}
    write(reader.folder, news)
    words = ("run", "news.py", "--workers", "2", "--revisit", "-s", "visits.revisit_max_s=1")
    done = reader.call(*words)
    assert done.returncode == 0, done.stderr
    edits = []

    def due():
        return json.loads(reader.call("status", "news", "--json").stdout)["due"] > len(news.titles)

    for number in range(rounds):
        until(due)
        for name in chance.sample(sorted(news.titles), each):
            edits.append((name, news.titles[name], new := f"Title {name} of {number}"))
            news.titles[name] = new
        for processes in (["work"], ["load"], []):  # then the server
            before = len(news.asked)
            run = reader.start(*words)
            until(lambda: run.poll() is not None or len(news.asked) > before + 5)  # noqa: B023
            kill(*(pid for word in processes for pid in reader.children(word)))
            if not processes:
                kill(reader.server_pid(), *reader.children("work"), *reader.children("load"))
                run.kill()
            run.communicate()
        done = reader.call(*words)
        assert done.returncode == 0, done.stderr

    lines = reader.call("changes", "news", "--json").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert {(one["kind"], one["field"]) for one in found} == {("changed", "title")}
    told = [(one["url"].removeprefix(news.url), one["old"], one["new"]) for one in found]
    assert sorted(told) == sorted(edits)
