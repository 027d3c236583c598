"""The diff of two outputs names what differs, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from skitter.archive.diff import compare, rows_of
from skitter.cli.show.changed_rows import show_diff
from skitter.spider.named_files import as_yielded


def row(page: int, place: int = 0, **fields):
    return {"_id": f"{page:016x}-{place}", "_url": f"https://a/{page}", "_fetched_at": 0, **fields}


def test_what_is_lost_added_and_changed_is_told_by_field_and_url():
    before = rows_of([row(1, title="A", price=1), row(2, title="B", price=2), row(3, title="C")])
    now = rows_of([row(1, title="A", price=1.5), row(2, title="", price=2), row(3, title="C", n=0)])

    diff = compare(before, now)

    assert (diff.rows, diff.gone, diff.new, diff.is_same, diff.loses) == (3, [], [], False, True)
    title, price, number = (diff.fields[name] for name in ("title", "price", "n"))
    assert [one.url for one in title.lost] == ["https://a/2"]
    assert (title.before, title.now, title.added, title.changed) == (3, 2, [], [])
    assert [(one.before, one.now) for one in price.changed] == [(1, 1.5)]
    assert [one.now for one in number.added] == [0]


def test_rows_that_are_in_one_output_only_are_told():
    same = row(1, a=1) | {"_url": "https://a/1#top"}  # found by another spelling
    diff = compare(rows_of([row(1, a=1), row(1, 1, a=2)]), rows_of([same, row(2, a=3)]))
    assert (diff.gone, diff.new, diff.rows) == (["https://a/1"], ["https://a/2"], 1)
    assert diff.loses


def test_rows_may_be_compared_by_a_field_instead_of_their_place():
    before = [row(1, 0, id="x", n=1), row(1, 1, id="y", n=2)]
    now = [row(1, 0, id="y", n=2), row(1, 1, id="x", n=1)]
    assert not compare(rows_of(before), rows_of(now)).is_same
    assert compare(rows_of(before, "id"), rows_of(now, "id")).is_same


def test_pages_and_rows_that_share_a_url_are_all_compared():
    """Pages of a search by POST have the same URL; rows of a page may have equal keys."""
    rows = [row(n, title=f"{n}", key="same") | {"_url": "https://a/search"} for n in range(3)]
    broken = [*rows[:1], rows[1] | {"title": ""}, *rows[2:]]
    for key in (None, "key"):
        diff = compare(rows_of(rows, key), rows_of(broken, key))
        assert (diff.rows, len(diff.fields["title"].lost)) == (3, 1)


def test_rows_of_a_database_and_of_a_file_are_compared():
    at = datetime(2026, 1, 2, 3, 4, 5, 600000, UTC)
    line = row(1, at=msgspec.json.decode(msgspec.json.encode(at)), all=[1])
    assert compare(rows_of([row(1, at=at, all=[1])]), rows_of([line])).is_same


def test_files_are_compared_by_their_url_as_a_replay_downloads_none():
    def file(url, digest=None):
        return {"url": url, "path": digest, "size": 1, "type": None, "sha256": digest}

    before = [row(1, pdf=file("x", "1"), all=[file("y", "2")]), row(9, _type="file", **file("x"))]
    same, other = row(1, pdf=file("x"), all=[file("y")]), row(1, pdf=file("x"), all=[file("z")])
    assert compare(rows_of(as_yielded(before)), rows_of(as_yielded([same]))).is_same
    diff = compare(rows_of(as_yielded(before)), rows_of(as_yielded([other])))
    assert [(one.before, one.now) for one in diff.fields["all"].changed] == [(["y"], ["z"])]


def test_of_long_values_the_part_is_shown_that_differs(capsys):
    long = "x" * 500
    before = [row(n, text=f"{long}old", same=1) for n in range(5)]
    now = [*(row(n, text=f"{long}new", same=1) for n in range(4)), row(4, text="", same=1)]
    show_diff(compare(rows_of(before), rows_of(now)))

    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "5 rows compared, 0 gone, 0 new. 1 of 2 fields differs."
    assert shown[2].split() == ["field", "filled", "before", "now", "lost", "changed", "added"]
    assert shown[3].split() == ["text", "5", "4", "1", "4", "0"]
    lost, changed = shown.index("text lost: 1 row"), shown.index("text changed: 4 rows, such as")
    assert [line[:5] for line in shown[lost + 2 : changed - 1]] == ["    -"], "nothing is now"
    assert shown[changed + 2].endswith('xold"')
    assert shown[changed + 3].endswith('xnew"')
    assert all(len(line) < 200 for line in shown)
