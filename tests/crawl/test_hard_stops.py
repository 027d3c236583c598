"""A machine that stops all at once, again and again, and is started again right away."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from bookshop import expected_items
from crawl.conftest import Machine, kill
from crawl.test_crawls import assert_complete, in_order
from skitter.demo import SPIDER

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

CUTS = 10
RESTARTS = 3
TAIL_BYTES = 3000  # a few calls


@pytest.fixture
def machine(open_shop, make_machine) -> Machine:
    made: Machine = make_machine(open_shop(books=60, latency_s=0.1))
    return made


def begin(machine: Machine, *words: str) -> subprocess.Popen[str]:
    return machine.start("run", str(SPIDER), "--workers", "2", "--concurrency", "2", *words)


def kill_all(machine: Machine, crawl: subprocess.Popen[str]) -> None:
    """Supervisor, workers, loader and server: what a power cut leaves. The server is the last, as
    anybody else would start it again."""
    kill(crawl.pid)
    kill(*machine.children("work"), *machine.children("load"))
    kill(machine.server_pid())
    crawl.communicate()


def cut_tail(machine: Machine) -> None:
    """What the disk had not taken yet when the power went."""
    [file] = (machine.folder / ".skitter" / "appendonlydir").glob("*.incr.aof")
    os.truncate(file, max(0, file.stat().st_size - TAIL_BYTES))


def test_ten_power_cuts_in_a_row_lose_nothing_and_blame_no_page(machine, until):
    for _ in range(CUTS):
        asked = len(machine.shop.log())
        crawl = begin(machine)
        until(lambda: len(machine.shop.log()) > asked + 4)  # noqa: B023
        kill_all(machine, crawl)
        until(lambda: machine.server_pid() is None)
        cut_tail(machine)

    done = machine.run("--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["finished"]
    assert_complete(machine, machine.shop)


def test_a_start_right_after_everything_was_killed_waits_for_what_is_dying(machine, until):
    crawl = begin(machine)
    for round_number in range(1, RESTARTS + 1):
        until(lambda: len(machine.rows()) > 8 * round_number)  # noqa: B023
        kill_all(machine, crawl)
        crawl = begin(machine)
    _, said = crawl.communicate()

    assert crawl.returncode == 0, said
    assert "Traceback" not in said
    assert_complete(machine, machine.shop)


def test_a_start_waits_for_the_loader_of_a_crawl_that_was_killed(machine, until):
    """Stopped, it cannot notice before the next start that its parent is gone."""
    rows = machine.folder / "rows.jsonl"
    crawl = begin(machine, "--out", "rows.jsonl")
    until(lambda: rows.exists() and rows.stat().st_size)
    [loader] = machine.children("load")
    os.kill(loader, signal.SIGSTOP)
    kill(machine.server_pid(), crawl.pid, *machine.children("work"))
    crawl.communicate()

    again = begin(machine, "--out", "rows.jsonl")
    said = next(line for line in again.stderr or () if "waiting for it to end" in line)
    os.kill(loader, signal.SIGCONT)
    _, rest = again.communicate()

    assert again.returncode == 0, rest
    assert "another process is writing" in said
    expected = in_order(expected_items(machine.shop.expected))
    found = in_order(json.loads(line) for line in rows.read_text().splitlines())
    assert [{name: row[name] for name in expected[0]} for row in found] == expected
