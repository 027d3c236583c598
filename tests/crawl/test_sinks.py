"""One job, one sink: what a report says is in a file is in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

pytestmark = pytest.mark.timeout(120)

SPIDER = """
from skitter import Politeness, Spider, Limits
spider = Spider("sw", ["%URL%"], politeness=Politeness(delay_s=0, max_in_flight=4),
                limits=Limits(max_pages=10))
@spider.page
def page(page):
    yield {"url": page.url}
    yield from page.follow_all()
"""


@pytest.fixture
def machine(open_shop, make_machine):
    shop = open_shop(books=50)
    machine = make_machine(shop)
    (machine.folder / "sw.py").write_text(SPIDER.replace("%URL%", shop.url))
    return machine


def rows_in(database) -> int:
    if not database.exists():
        return 0
    with closing(sqlite3.connect(database)) as connection:
        tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sw'").fetchone()
        return connection.execute("SELECT count(*) FROM sw").fetchone()[0] if tables else 0


def test_a_second_sink_is_refused_with_the_command_that_copies(machine):
    first = machine.call("run", "sw.py", "--workers", "1", "--json")
    assert first.returncode == 0, first.stderr

    second = machine.call("run", "sw.py", "--workers", "1", "-o", "sw.csv")
    assert second.returncode == 2, second.stderr
    export = f"skitter export sw --from {machine.folder / 'sw.db'} --to FILE"
    assert export in " ".join(second.stderr.split())
    assert not list(machine.folder.glob("sw.csv*"))

    copied = machine.call("export", "sw", "--from", str(machine.folder / "sw.db"), "--to", "sw.csv")
    assert copied.returncode == 0, copied.stderr
    loaded = machine.call("load", "sw", "--to", "other.jsonl")
    assert loaded.returncode == 2, loaded.stderr
    assert "skitter export sw" in loaded.stderr

    (machine.folder / "sw.db").unlink()
    again = machine.call("run", "sw.py", "--workers", "1")
    assert "sw.db is gone, and 10 items with it" in again.stderr
    assert "items  0 in sw.db" in again.stdout

    fresh = machine.call("run", "sw.py", "--workers", "1", "--fresh", "--yes", "-o", "new.jsonl")
    assert fresh.returncode == 0, fresh.stderr
    assert len((machine.folder / "new.jsonl").read_text().splitlines()) == 10


def test_of_two_runs_at_once_only_one_reports_items(machine):
    machine.call("up")
    runs = [machine.start("run", "sw.py", "--workers", "1", "-o", f"{n}.db") for n in "ab"]
    told = [run.communicate(timeout=100) for run in runs]

    assert sorted(run.returncode for run in runs) == [0, 2], told
    for run, name, (out, err) in zip(runs, "ab", told, strict=True):
        rows = rows_in(machine.folder / f"{name}.db")
        if run.returncode == 0:
            assert f"items  {rows:,} in {name}.db" in out
            assert rows == 10
        else:
            assert rows == 0
            assert "the items of job 'sw' go to" in err
