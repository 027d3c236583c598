"""The engine driven by a task queue that we know nothing of: the example for Dramatiq."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bookshop import expected_items
from skitter.demo import SPIDER

EXAMPLE = Path(__file__).parents[2] / "examples" / "dramatiq" / "driver.py"

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def dramatiq():
    """Starts its workers, and kills all processes of a start."""
    groups = []

    def start(machine):
        words = ["dramatiq", "driver", "--processes", "2", "--threads", "1"]
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=machine.folder,
            env=machine.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        groups.append(process)
        return process

    yield start
    for process in groups:
        kill_all(process)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_crawl_on_dramatiq_is_complete_and_exact_though_its_workers_are_killed(
    open_shop, make_machine, dramatiq, until
):
    shop = open_shop(books=120)
    machine = make_machine(shop)
    machine.call("up")
    machine.call("create", "books")
    server = f"unix://{machine.folder / '.skitter' / 'valkey.sock'}"
    machine.environment |= {"SKITTER_REDIS_URL": server, "DRAMATIQ_URL": f"{server}?db=1"}
    shutil.copy(EXAMPLE, machine.folder)
    words = [sys.executable, "driver.py", str(SPIDER), "--pumps", "2"]
    watching = subprocess.Popen(words, cwd=machine.folder, env=machine.environment)
    machine.started.append(watching)
    loading = machine.start("load", "books", "--to", "books.db")
    try:
        for least in (20, 90):
            workers = dramatiq(machine)
            until(lambda least=least: machine.stats().done >= least)
            kill_all(workers)
        dramatiq(machine)
        assert watching.wait() == 1, "some of the shop's pages are dead"
        until(lambda: not machine.stats().items)
    finally:
        loading.terminate()
        loading.communicate()

    rows = sorted(machine.rows(), key=lambda row: row["upc"])
    assert rows == sorted(expected_items(shop.expected), key=lambda row: row["upc"])
    audit = machine.call("audit", "books")
    assert audit.returncode == 0, audit.stdout
