"""`skitter run --engine celery`: what it waits for, and for what not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from engine_celery.conftest import Station
from engine_celery.test_crawls import BOOKS, assert_complete
from engine_celery.test_pumps import registered, server_of
from skitter.celery.jobs import JobSpec, read_specs
from skitter.errors import JobMissing
from waiting import PATIENCE_S, until

pytestmark = pytest.mark.timeout(300)


def start_run(station: Station, *words: str) -> subprocess.Popen[bytes]:
    command = (sys.executable, "-m", "skitter", "run", BOOKS, "--engine", "celery", *words)
    return station.start(*command, log=station.folder / "run.log")


def has_seeds(station: Station) -> bool:
    try:
        return bool(station.stats("books").seen)
    except JobMissing:
        return False


def specs(station: Station) -> list[JobSpec]:
    return station.run(read_specs(server_of(station)))


def test_a_run_has_its_own_pumps_though_an_earlier_crawl_of_its_name_never_ended(station):
    """Of that crawl, whose items went elsewhere, the workers were killed, and then it was purged.
    What its pumps had to know must not outlive it: they would wait for their output for ever."""
    victim = station.worker("-c", "2")
    station.crawl.delay(BOOKS, out="earlier.db").get(timeout=PATIENCE_S)
    os.killpg(victim.pid, signal.SIGKILL)
    assert [spec.out for spec in specs(station)] == ["earlier.db"]

    station.skitter("purge", "books", "--yes")
    assert specs(station) == []
    run = start_run(station)
    until(lambda: has_seeds(station))  # before a worker looks around
    station.worker("-c", "2")

    assert run.wait(timeout=PATIENCE_S) == 0
    assert_complete(station)


def test_a_run_replaces_what_another_one_has_left_registered(station):
    """One that was killed, for example: its pumps would have its settings."""
    station.make_job("books")
    registered(station, "books", target=BOOKS, out="earlier.db", pumps=1)

    run = start_run(station, "--workers", "2")
    until(lambda: [(spec.out, spec.pumps) for spec in specs(station)] == [("", 2)])
    until(lambda: "No Celery worker answers" in (station.folder / "run.log").read_text())
    station.worker("-c", "3")

    assert run.wait(timeout=PATIENCE_S) == 0
    assert_complete(station)


def test_a_run_says_what_it_waits_for_and_makes_up_for_a_lost_message(station):
    """The only process is busy with a task of the user's, and then the broker loses its queues."""
    station.worker("-c", "1", "-I", "engine_celery.helper_reducers")
    over = station.folder / "over"
    station.app.send_task("until_there", [str(over)])
    until(lambda: station.app.control.inspect().active())

    run = start_run(station)
    log = station.folder / "run.log"
    until(lambda: "No Celery worker is at work on the crawl: w" in log.read_text())
    assert station.app.control.purge() > 0
    over.touch()

    assert run.wait(timeout=PATIENCE_S) == 0
    assert_complete(station)
    assert log.read_text().count("No Celery worker") == 1
