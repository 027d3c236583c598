"""One job and its outputs: what a report says is in a file is in it. Sinks that packages bring."""

from __future__ import annotations

import csv
import json
import signal
import sqlite3
from contextlib import closing

import pytest

from packages import install
from waiting import until

pytestmark = pytest.mark.timeout(300)

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
    assert "items    0 in sw.db" in again.stdout
    again = machine.call("run", "sw.py", "--workers", "1")
    assert "sw.db has no row, though 10 items went there: --fresh crawls again." in again.stderr

    words = ("--fresh", "--yes", "-o", "new.jsonl", "--revisit", "--revisit-prune")
    fresh = machine.call("run", "sw.py", "--workers", "1", *words)
    assert fresh.returncode == 0, fresh.stderr
    assert "new.jsonl keeps rows that pages no longer yield: --revisit-prune" in fresh.stderr
    assert len((machine.folder / "new.jsonl").read_text().splitlines()) == 10


def test_each_of_several_outputs_has_every_row_also_one_that_a_later_run_adds(machine):
    def run(*outs: str, pages: int = 10) -> tuple[dict[str, int], str]:
        """How many rows each output has, as reported."""
        words = [word for out in outs for word in ("-o", out)]
        done = machine.call(
            "run", "sw.py", "--workers", "1", "--json", "--max-pages", str(pages), *words
        )
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        return {one["out"]: one["rows"] for one in (report, *report["also"])}, done.stderr

    def urls(name: str) -> list[str]:
        table = machine.folder / name
        if name.endswith(".csv"):
            return sorted(titles_in(table))
        with closing(sqlite3.connect(table)) as connection:
            return [url for (url,) in connection.execute("SELECT url FROM sw ORDER BY url")]

    rows, _ = run("b.jsonl", "c.csv", "a.db")
    first = len(urls("a.db"))  # the main one, the first that can be read back
    assert rows == dict.fromkeys(("a.db", "c.csv", "b.jsonl"), first)
    assert urls("a.db") == urls("c.csv")

    rows, said = run("a.db", "d.db", "b.jsonl", pages=20)
    every = len(urls("a.db"))
    assert first < every <= 20, "redirects are pages, too, and come in any order"
    assert rows == dict.fromkeys(("a.db", "d.db", "b.jsonl"), every)
    assert "d.db gets what a.db has, first" in said
    assert "is no output of sw any more" in said, "of c.csv"
    assert urls("d.db") == urls("a.db")

    (machine.folder / "d.db").unlink()
    rows, said = run("d.db", "c.csv", "a.db", pages=20)  # nothing is left to fetch
    assert rows == dict.fromkeys(("a.db", "d.db", "c.csv"), every)
    assert urls("d.db") == urls("a.db") == urls("c.csv")
    refused = machine.call("run", "sw.py", "-o", "d.db")
    assert refused.returncode == 2
    assert "go to" in refused.stderr


def test_an_output_that_is_refused_makes_no_job_and_discards_none(machine):
    nobody = "postgresql://127.0.0.1:1/items"
    machine.call("up")
    for out, code in (("sw.xyz", 2), (nobody, 3)):
        refused = machine.call("run", "sw.py", "-o", out)
        assert refused.returncode == code, refused.stderr
        assert "there is no job 'sw'" in machine.call("status", "sw").stderr

    assert machine.call("run", "sw.py", "--workers", "1").returncode == 0
    assert machine.call("run", "sw.py", "--fresh", "--yes", "-o", nobody).returncode == 3
    assert machine.stats("sw").done == 10


def test_of_two_runs_at_once_only_one_reports_items(machine):
    machine.call("up")
    runs = [machine.start("run", "sw.py", "--workers", "1", "-o", f"{n}.db") for n in "ab"]
    told = [run.communicate(timeout=100) for run in runs]

    assert sorted(run.returncode for run in runs) == [0, 2], told
    for run, name, (out, err) in zip(runs, "ab", told, strict=True):
        rows = rows_in(machine.folder / f"{name}.db")
        if run.returncode == 0:
            assert f"items    {rows:,} in {name}.db" in out
            assert rows == 10
        else:
            assert rows == 0
            assert "the items of job 'sw' go to" in err


def titles_in(path) -> list[str]:
    with path.open(newline="") as file:
        return [row["url"] for row in csv.DictReader(file)]


def test_a_csv_file_is_written_at_the_end_and_a_later_run_writes_it_anew(machine):
    done = machine.call("run", "sw.py", "--workers", "1", "-o", "sw.csv", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["items"], report["rows"], report["out"]) == (10, 10, "sw.csv")
    first = titles_in(machine.folder / "sw.csv")
    assert len(set(first)) == 10
    assert {p.name for p in machine.folder.iterdir()} >= {"sw.csv", ".skitter"}
    assert not list(machine.folder.glob("sw.csv.*"))

    (machine.folder / "sw.py").write_text(
        (machine.folder / "sw.py").read_text().replace("max_pages=10", "max_pages=20")
    )
    more = machine.call("run", "sw.py", "--workers", "1", "-o", "sw.csv")
    assert more.returncode == 0, more.stderr
    rows = titles_in(machine.folder / "sw.csv")
    assert f"items    {len(rows)} in sw.csv" in more.stdout
    assert len(rows) == len(set(rows)) > 10
    assert set(first) < set(rows)

    copied = machine.call("export", "sw", "--to", "sw.parquet")
    assert f"{len(rows)} rows from .skitter/stores/sw.db to sw.parquet" in copied.stdout, (
        copied.stderr
    )
    again = machine.call("export", "sw", "--to", "sw.csv")
    assert again.returncode == 0, again.stderr


def test_ctrl_c_writes_the_file_and_another_run_completes_it(machine):
    spider = machine.folder / "sw.py"
    spider.write_text(spider.read_text().replace("delay_s=0, max_in_flight=4", "delay_s=0.2"))
    run = machine.start("run", "sw.py", "--workers", "1", "-o", "sw.csv")
    store = machine.folder / ".skitter" / "stores" / "sw.db"
    until(lambda: rows_in(store) >= 2)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate()
    assert run.returncode == 130, err
    first = titles_in(machine.folder / "sw.csv")
    assert len(first) >= 2
    assert f"items    {len(first)} in sw.csv" in out

    done = machine.call("run", "sw.py", "--workers", "1", "-o", "sw.csv")
    assert done.returncode == 0, done.stderr
    assert sorted(set(titles_in(machine.folder / "sw.csv")) | set(first)) == sorted(
        titles_in(machine.folder / "sw.csv")
    )
    assert len(titles_in(machine.folder / "sw.csv")) == 10


def test_a_csv_file_that_is_there_is_refused_before_anything_is_fetched(machine):
    (machine.folder / "sw.csv").write_text("mine\n")
    refused = machine.call("run", "sw.py", "--workers", "1", "-o", "sw.csv")
    assert refused.returncode == 2
    assert "sw.csv already exists" in " ".join(refused.stderr.split())
    assert (machine.folder / "sw.csv").read_text() == "mine\n"
    assert not machine.shop.log()


def test_what_is_refused_does_not_discard_the_earlier_crawl(machine):
    first = machine.call("run", "sw.py", "--workers", "1", "-o", "sw.csv")
    assert first.returncode == 0, first.stderr
    for words in (("-o", "no/sw.csv"), ("-o", "x.nosuch"), ("--log-file", "no/l")):
        refused = machine.call("run", "sw.py", "--workers", "1", "--fresh", "--yes", *words)
        assert refused.returncode == 2, refused.stdout + refused.stderr
        assert refused.stderr.count("skitter: ") == 1
        assert machine.stats("sw").done == 10


def test_a_file_that_cannot_be_written_at_the_end_is_told_with_the_place_of_the_items(machine):
    (machine.folder / "out").mkdir()
    spider = machine.folder / "sw.py"
    spider.write_text(
        spider.read_text()
        + "@spider.on_finish\ndef done(stats): pass\n"
        + "import pathlib\n@spider.transform\ndef drop(item):\n"
        + "    pathlib.Path('out/sw.csv').mkdir(exist_ok=True)\n    return item\n"
    )
    done = machine.call("run", "sw.py", "--workers", "1", "-o", "out/sw.csv")
    assert done.returncode == 2, done.stderr
    assert "skitter export sw --to FILE" in " ".join(done.stderr.split())
    assert "items    10 in" in done.stdout
    copied = machine.call("export", "sw", "--to", "sw.jsonl")
    assert "10 rows from .skitter/stores/sw.db to sw.jsonl" in copied.stdout, copied.stderr


SINK = '''
from pathlib import Path
from skitter.sinks import SinkAway

class Lines:
    """One line an item."""

    def __init__(self, dsn, *, job):
        self.path, self.description = Path(dsn), f"lines in {dsn}"

    def write(self, results):
        with self.path.open("a") as file:
            file.writelines(f"{one.item['url']}\\n" for one in results)

    def close(self):
        pass
'''


def test_a_package_brings_a_sink_of_its_own(machine):
    install(machine, "tiny_sink", SINK, "[skitter.sinks]\n.lines = tiny_sink:Lines\n")

    done = machine.call("run", "sw.py", "--workers", "1", "-o", "items.lines")
    assert done.returncode == 0, done.stderr
    assert "items    10 in items.lines" in done.stdout
    assert len(set((machine.folder / "items.lines").read_text().split())) == 10

    unknown = machine.call("run", "sw.py", "--workers", "1", "-o", "items.nope")
    assert unknown.returncode == 2
    assert "items.lines" in unknown.stderr
    assert "from the package tiny-sink" in unknown.stderr


def test_of_several_outputs_commands_read_the_main_one(machine):
    ran = machine.call("run", "sw.py", "--workers", "1", "--out", "sw.db", "--out", "sw.csv")
    assert ran.returncode == 0, ran.stderr

    copied = machine.call("export", "sw", "--to", "copy.jsonl")
    assert "sw: 10 rows from sw.db to copy.jsonl" in copied.stdout, copied.stderr
    assert "sw: no changes." in machine.call("changes", "sw").stdout

    elsewhere = machine.call("export", "sw", "--to", "copy.jsonl", "--dir", "other")
    assert "sw: 10 rows from sw.db" in elsewhere.stdout, elsewhere.stderr
