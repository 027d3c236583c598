"""Faults as operators meet them: each ends with exact rows, a clean audit and a plain sentence."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import redis

from bookshop import expected_items, fetched_twice
from clocks import faked_clock, server_with_a_faked_clock, set_clock
from crawl.conftest import Machine
from crawl.test_crawls import assert_complete, in_order
from disks import fill_disk, mount_disk, unmount_disk
from needs import need
from skitter.demo import SPIDER
from skitter.embedded import stop

pytestmark = pytest.mark.timeout(600)
chaos = pytest.mark.chaos

SMALL_DISK = "12m"
SLOW_S = 0.4  # with 4 pages at a time a crawl takes a dozen seconds: there is a middle to act in


class Crawl:
    """`skitter run`, and what it has said so far."""

    def __init__(self, machine: Machine, *words: str, **environment: str) -> None:
        self.errors = machine.folder / "stderr"
        with self.errors.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "skitter", "run", str(SPIDER), "--workers", "2", *words],
                cwd=machine.folder,
                env={**machine.environment, "COLUMNS": "80", **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        machine.started.append(self.process)

    @property
    def said(self) -> str:
        """Everything in one line: the terminal's width is not the point."""
        return " ".join(self.errors.read_text().split())

    def end(self, timeout_s: float = 300) -> int:
        self.out, _ = self.process.communicate(timeout=timeout_s)
        assert "Traceback" not in self.said
        return self.process.returncode


@pytest.fixture
def machine(open_shop, make_machine) -> Machine:
    made: Machine = make_machine(open_shop(latency_s=SLOW_S))
    return made


@pytest.fixture
def small_disk() -> Iterator[Callable[[Path], Path]]:
    """Mounts a small disk of its own; a real one is never filled."""
    mounted: list[Path] = []

    def mount(place: Path) -> Path:
        if why := mount_disk(place, size=SMALL_DISK):
            pytest.skip(f"cannot mount a small disk here, which takes root: {why}")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        unmount_disk(place)


def remount(place: Path, how: str) -> bool:
    """Read-only (ro) or not (rw); False while somebody writes there."""
    words = [need("mount"), "-o", f"remount,{how}", str(place)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def assert_stored(machine: Machine, output: Path) -> None:
    """Every book once, and a clean audit, wherever the rows are."""
    if output.suffix == ".jsonl":
        expected = in_order(expected_items(machine.shop.expected))
        rows = in_order(json.loads(line) for line in output.read_text().splitlines())
        assert [{name: row[name] for name in expected[0]} for row in rows] == expected
        assert machine.call("audit", "books").returncode == 0
    else:
        shutil.copy(output, machine.folder / "books.db")
        assert_complete(machine, machine.shop)


def client_of(machine: Machine) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(machine.folder / ".skitter" / "valkey.sock"))


def some_rows(machine: Machine, more_than: int = 5) -> Callable[[], bool]:
    return lambda: len(machine.rows()) > more_than


def has_rows(output: Path) -> bool:
    if output.suffix == ".jsonl":
        return output.exists() and output.stat().st_size > 0
    if not output.exists():
        return False
    database = sqlite3.connect(f"file:{output}?mode=ro", uri=True)
    with closing(database), suppress(sqlite3.OperationalError):  # there is no table yet
        return bool(database.execute("SELECT count(*) FROM books").fetchone()[0])
    return False


def test_down_ends_a_crawl_with_one_sentence_and_it_can_be_resumed(machine, until):
    crawl = Crawl(machine, "-c", "2")
    until(some_rows(machine))

    assert stop(machine.folder / ".skitter")  # `skitter down`

    assert crawl.end() == 3
    assert crawl.said.count("skitter: ") == 1
    assert crawl.said.endswith("(`skitter down`): nothing is lost; run it again to continue.")
    assert machine.run().returncode == 0
    assert_complete(machine, machine.shop)


@chaos
@pytest.mark.parametrize("how", ["purge", "flushall"])
def test_a_crawl_that_is_removed_while_it_runs_says_so_once(machine, until, how):
    crawl = Crawl(machine, "-c", "2")
    until(some_rows(machine))

    with machine.shop.silent():
        if how == "purge":
            assert machine.call("purge", "books", "--yes").returncode == 0
        else:
            client_of(machine).flushall()

    assert crawl.end() == 1
    assert crawl.said.count("was removed from the server while it ran") == 1
    assert crawl.said.count("skitter: ") == 1
    assert "there is no job" not in crawl.said
    assert machine.run().returncode == 0
    assert_complete(machine, machine.shop)


def test_a_plain_kill_is_a_clean_stop(machine, until):
    crawl = Crawl(machine, "-c", "2")
    until(some_rows(machine))

    crawl.process.terminate()

    assert crawl.end() == 0, crawl.said
    assert "in flight; Ctrl-C to stop now" in crawl.said
    assert machine.run().returncode == 0
    assert_complete(machine, machine.shop)


@pytest.mark.parametrize("start", ["()", "lambda: iter(())"])
def test_a_spider_without_start_urls_says_so_and_leaves_no_job(machine, start):
    (machine.folder / "none.py").write_text(
        "from skitter import Spider\n"
        f"spider = Spider('none', start={start})\n"
        "@spider.page\ndef page(page): pass\n"
    )
    done = machine.call("run", "none.py", timeout_s=60)

    assert done.returncode == 2
    assert "has no start URL, so there is nothing to fetch" in done.stderr
    assert json.loads(machine.call("status", "--json").stdout) == []
    if start == "()":
        assert not (machine.folder / "none.db").exists()


def test_a_crawl_is_not_discarded_for_a_spider_without_start_urls(machine):
    (machine.folder / "none.py").write_text(
        "from skitter import Spider\nspider = Spider('none')\n@spider.page\ndef page(page): pass\n"
    )
    machine.call("push", "none", machine.shop.url)
    done = machine.call("run", "none.py", "--fresh", "--yes", timeout_s=60)

    assert done.returncode == 2
    assert "has no start URL, so there is nothing to fetch" in done.stderr
    assert json.loads(machine.call("status", "none", "--json").stdout)["pending"] == 1


@chaos
def test_a_full_disk_under_the_server_is_told_and_waited_for(machine, until, small_disk):
    home = small_disk(machine.folder / ".skitter")
    crawl = Crawl(machine, "-c", "2")
    until(some_rows(machine))

    with machine.shop.silent():
        filler = fill_disk(home)

    until(lambda: f"the disk of {home} is full (0 KB free): free some space" in crawl.said)
    doctor = machine.call("doctor")
    assert doctor.returncode == 1
    assert f"the disk of {home} is full" in " ".join(doctor.stdout.split())
    assert doctor.stdout.count("problem") == 1
    until(lambda: json.loads(status(machine))["notes"])
    assert all("loader" not in note for note in json.loads(status(machine))["notes"])
    assert crawl.process.poll() is None
    filler.unlink()
    assert crawl.end() == 0, crawl.said
    assert "MISCONF" not in crawl.said
    assert_complete(machine, machine.shop)


@chaos
@pytest.mark.parametrize("kind", ["jsonl", "db"])
def test_an_output_whose_disk_is_full_is_told_and_waited_for(machine, until, small_disk, kind):
    place = small_disk(machine.folder / "out")
    crawl = Crawl(machine, "-c", "2", "--out", f"out/rows.{kind}")
    output = place / f"rows.{kind}"
    until(lambda: has_rows(output))

    with machine.shop.silent():
        filler = fill_disk(place)

    until(lambda: f"the disk of {place} is full" in crawl.said)
    assert f"rows.{kind} cannot be written" in crawl.said
    assert "I/O error" not in crawl.said
    filler.unlink()
    assert crawl.end() == 0, crawl.said
    assert_stored(machine, output)


def test_a_file_whose_disk_is_full_at_the_end_is_exported_later(machine, small_disk):
    place = small_disk(machine.folder / "out")
    filler = fill_disk(place)

    crawl = Crawl(machine, "--out", "out/rows.csv")

    assert crawl.end() == 3
    assert f"rows.csv cannot be written: the disk of {place} is full" in crawl.said
    assert "`skitter export books --to FILE` writes them" in crawl.said
    export = ("export", "books", "--to", "out/rows.parquet", "--json")
    assert f"the disk of {place} is full" in " ".join(machine.call(*export).stderr.split())
    assert list(place.iterdir()) == [filler]
    filler.unlink()
    done = machine.call(*export)
    assert json.loads(done.stdout)["rows"] == len(expected_items(machine.shop.expected))
    assert [one.name for one in place.iterdir()] == ["rows.parquet"]


def status(machine: Machine) -> str:
    return machine.call("status", "books", "--json").stdout


@chaos
def test_a_loader_that_stands_still_is_told_with_what_waits_for_it(machine, until):
    crawl = Crawl(machine, "-c", "2")
    [loader] = until(lambda: machine.children("load"))
    until(some_rows(machine))

    os.kill(loader, signal.SIGSTOP)  # what is fetched from now on waits for it

    until(lambda: re.search(rf"items wait for a loader, .* \(pid {loader}\) has been", crawl.said))
    os.kill(loader, signal.SIGCONT)
    assert crawl.end() == 0, crawl.said
    assert_complete(machine, machine.shop)


def fill_memory(client: redis.Redis) -> None:
    for number in range(1000):
        client.append("filler", b"x" * (2**20 if number < 10 else 2**16))


@chaos
def test_a_full_server_is_told_with_its_numbers(open_shop, make_machine, until):
    machine = make_machine(open_shop(latency_s=SLOW_S), SKITTER_MAX_MEMORY_MB="16")
    crawl = Crawl(machine, "-c", "2")
    until(some_rows(machine))
    client = client_of(machine)
    with machine.shop.silent(), pytest.raises(redis.exceptions.OutOfMemoryError):
        fill_memory(client)

    until(lambda: "of 16 MB) and refuses new URLs and results" in crawl.said)

    client.delete("filler")
    assert crawl.end() == 0, crawl.said
    assert_complete(machine, machine.shop)


@chaos
def test_a_server_whose_clock_is_set_in_mid_crawl_neither_stops_nor_hurries_it(machine, until):
    offset = machine.folder / "offset"
    machine.environment["SKITTER_SERVER"] = str(server_with_a_faked_clock(offset))
    assert machine.call("up").returncode == 0
    crawl = Crawl(machine, "-c", "2")
    for rows, hours in ((5, "+2h"), (20, "-2h"), (35, "+0")):
        until(some_rows(machine, rows))
        set_clock(offset, hours)

    assert crawl.end() == 0, crawl.said
    assert machine.stats().lost == 0
    assert fetched_twice(machine.shop.log()) == []
    assert_complete(machine, machine.shop)


@chaos
@pytest.mark.parametrize(
    ("monotonic", "jumps"),
    [
        (False, ["+2h", "-2h", "+0"]),
        (True, ["+1h", "+3h", "+9h"]),  # a monotonic clock may leap, but never runs backward
    ],
)
def test_workers_whose_clock_is_set_in_mid_crawl_bring_the_same_rows(
    machine, until, monotonic, jumps
):
    offset = machine.folder / "offset"
    assert machine.call("up").returncode == 0
    crawl = Crawl(machine, "-c", "2", **faked_clock(offset, monotonic=monotonic))
    for rows, jump in zip((5, 20, 35), jumps, strict=True):
        until(some_rows(machine, rows))
        set_clock(offset, jump)

    assert crawl.end() == 0, crawl.said
    assert_complete(machine, machine.shop)


def test_files_in_the_working_directory_are_not_executed(open_shop, make_machine):
    machine = make_machine(open_shop(books=50))
    trap = "from pathlib import Path\nPath(__file__ + '.executed').touch()\n"
    traps = [machine.folder / f"{name}.py" for name in ("protego", "redis", "sitecustomize")]
    for file in traps:
        file.write_text(trap)

    done = subprocess.run(
        [Path(sys.executable).with_name("skitter"), "run", SPIDER, "--workers", "1"],
        cwd=machine.folder,
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    for file in traps:
        file.unlink()

    assert done.returncode == 0, done.stderr
    assert list(machine.folder.glob("*.executed")) == []
    assert_complete(machine, machine.shop)


def test_an_output_on_a_read_only_disk_is_refused_at_once(machine, small_disk):
    place = small_disk(machine.folder / "out")
    remount(place, "ro")

    for kind in ("jsonl", "db", "csv"):
        crawl = Crawl(machine, "--out", f"out/rows.{kind}")

        assert crawl.end() == 3
        assert f"out/rows.{kind} cannot be written: the disk of {place} is read-only" in crawl.said
    assert machine.shop.log() == []


@chaos
@pytest.mark.parametrize("kind", ["jsonl", "db"])
def test_an_output_whose_disk_becomes_read_only_is_told_and_waited_for(
    machine, until, small_disk, kind
):
    place = small_disk(machine.folder / "out")
    crawl = Crawl(machine, "-c", "2", "--out", f"out/rows.{kind}")
    [loader] = until(lambda: machine.children("load"))
    output = place / f"rows.{kind}"
    until(lambda: has_rows(output))

    with machine.shop.silent():
        os.kill(loader, signal.SIGKILL)  # nobody may have it open for writing at that moment
        until(lambda: remount(place, "ro"))

    until(lambda: f"rows.{kind} cannot be written: the disk of {place} is read-only" in crawl.said)
    assert remount(place, "rw")
    assert crawl.end() == 0, crawl.said
    assert_stored(machine, output)
