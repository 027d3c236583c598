"""A worker that outlives its crawl, or its server, skips no page by what it remembers."""

from __future__ import annotations

import json
import os
import signal
import socket

import pytest

from crawl.test_crawls import assert_complete
from skitter.demo import SPIDER
from waiting import PATIENCE_S

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


def test_a_worker_that_stays_over_a_fresh_crawl_brings_the_same_items_again(
    open_shop, make_machine, until
):
    shop = open_shop()
    machine = make_machine(shop)
    machine.call("up")
    worker = machine.start("worker", str(SPIDER), "--processes", "1", "--keep-alive")
    pids = until(lambda: machine.children("work"))

    first = machine.run()
    assert first.returncode == 0, first.stderr
    assert_complete(machine, shop)
    (machine.folder / "books.db").unlink()
    asked = len(shop.log())

    second = machine.run("--fresh", "--yes", "--json")

    assert second.returncode == 0, second.stderr
    assert_complete(machine, shop)
    assert len(shop.log()) > 1.5 * asked
    assert set(pids) <= set(machine.children("work"))
    worker.terminate()
    worker.communicate(timeout=PATIENCE_S)


def test_a_worker_that_stays_waits_for_a_crawl_that_was_removed(open_shop, make_machine, until):
    shop = open_shop()
    machine = make_machine(shop)
    machine.call("up")
    worker = machine.start("worker", str(SPIDER), "--processes", "1", "--keep-alive")
    pids = until(lambda: machine.children("work"))
    assert machine.run().returncode == 0
    asked = len(shop.log())

    assert machine.call("purge", "books", "--yes").returncode == 0
    assert any("was removed: waiting until it is run again." in said for said in worker.stderr)
    machine.call("push", "books", shop.url)
    until(lambda: machine.stats().crawled)

    assert len(shop.log()) > 1.5 * asked
    assert set(machine.children("work")) == set(pids)
    worker.terminate()
    worker.communicate(timeout=PATIENCE_S)
    assert worker.returncode == 0


@pytest.mark.parametrize("kept", [0.4, 0.8])
def test_a_server_that_forgot_its_last_seconds_is_told_again_by_living_workers(
    open_shop, make_machine, until, kept
):
    shop = open_shop(latency_s=0.05)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = make_machine(shop)
    home.call("up", "--port", str(port))
    machine = make_machine(shop, SKITTER_REDIS_URL=f"redis://127.0.0.1:{port}")
    worker = machine.start("worker", str(SPIDER), "--processes", "1", "-c", "4", "--keep-alive")
    pids = until(lambda: machine.children("work"))
    crawl = machine.start("run", str(SPIDER), "--workers", "1", "--concurrency", "4", "--json")
    until(lambda: len(machine.rows()) > 30)

    os.kill(home.server_pid(), signal.SIGKILL)
    until(lambda: home.server_pid() is None)
    [file] = (home.folder / ".skitter" / "appendonlydir").glob("*.incr.aof")
    os.truncate(file, round(file.stat().st_size * kept))
    home.call("up", "--port", str(port))
    out, err = crawl.communicate(timeout=PATIENCE_S)

    assert crawl.returncode == 0, err
    assert json.loads(out)["finished"]
    assert_complete(machine, shop)
    assert set(pids) <= set(machine.children("work"))
    worker.terminate()
    worker.communicate(timeout=PATIENCE_S)


def test_an_outage_is_one_line_of_a_worker_when_it_begins_and_one_when_it_ends(
    open_shop, make_machine, until
):
    shop = open_shop(latency_s=0.05)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = make_machine(shop)
    home.call("up", "--port", str(port))
    machine = make_machine(shop, SKITTER_REDIS_URL=f"redis://127.0.0.1:{port}")
    log = machine.folder / "all.log"
    words = ("--processes", "1", "-c", "4", "--keep-alive", "--log-file", "all.log")
    worker = machine.start("worker", str(SPIDER), *words)
    until(lambda: log.exists() and "worker started" in log.read_text())

    os.kill(home.server_pid(), signal.SIGKILL)
    until(lambda: "Waiting." in log.read_text())
    home.call("up", "--port", str(port))
    until(lambda: "the server takes calls again after" in log.read_text())
    worker.terminate()
    worker.communicate(timeout=PATIENCE_S)

    told = [line for line in log.read_text().splitlines() if "skitter.worker: " in line]
    about = [line for line in told if "worker st" not in line]  # started, stopped
    assert len(about) == 2, about
    assert about[0].endswith("Waiting.")
