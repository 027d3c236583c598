"""Crawls on Celery workers: the exact set of items, whoever is killed on the way."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from pyarrow import parquet  # type: ignore[import-untyped]

from bookshop import expected_dead, expected_items, fetched_twice, stored_items, trespasses
from skitter.celery import map_reduce, status
from skitter.celery.jobs import read_specs
from skitter.celery.runtime import runtime_of
from skitter.demo import SPIDER
from skitter.embedded import running
from skitter.frontier.dead import dead_letters
from skitter.frontier.records.health import read_quality
from skitter.frontier.records.metrics import read_history
from skitter.frontier.workers import live_workers
from skitter.observe.quality import total
from waiting import PATIENCE_S, until

pytestmark = pytest.mark.timeout(300)
BOOKS = str(SPIDER)


def rows(station) -> list[dict[str, Any]]:
    return stored_items(station.folder / "books.db")


def begin(station, *, lease_s: float = 3, **options: Any) -> None:
    """A crawl that nobody looks after but Celery; what a killed process held comes back soon."""
    sent = station.crawl.delay(BOOKS, out="books.db", lease_s=lease_s, **options)
    sent.get(timeout=PATIENCE_S)


def finish(station) -> None:
    until(lambda: status("books", app=station.app).ready)


def assert_complete(station) -> None:
    """Every book once, dead letters as foreseen, every URL accounted for, nobody in spec."""
    expected = station.shop.expected
    order = lambda items: sorted(items, key=lambda item: item["upc"])  # noqa: E731
    assert order(rows(station)) == order(expected_items(expected))

    async def dead(frontier):
        return [letter.url async for letter in dead_letters(frontier)]

    assert sorted(station.on_job("books", dead)) == sorted(
        expected_dead(expected, station.shop.url)
    )
    audit = station.audit("books")
    assert not audit.problems
    assert audit.exact
    assert station.run(read_specs(station.run(runtime_of(station.app).server()))) == []


def test_a_crawl_brings_exactly_the_items_of_the_site_and_asks_politely(station):
    station.worker("-c", "3")

    done = station.skitter("run", BOOKS, "--engine", "celery", "--json")

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["finished"], report["pending"], report["items_waiting"]) == (True, 0, 0)
    assert_complete(station)
    assert fetched_twice(station.shop.log()) == []
    assert trespasses(station.shop.log()) == []
    counted = [total(one.windows).items for one in station.on_job("books", read_quality)]
    assert sum(counted) == report["items"]
    history = station.on_job("books", partial(read_history, names=["pages", "stored", "fetch.ok"]))
    pages, stored, fetched = (sum(n or 0 for n in one) for one in history.series.values())
    assert (pages, stored) == (report["pages"], report["items"])
    assert fetched >= report["items"]


def test_a_child_that_is_killed_costs_nothing_but_time(slow_station):
    worker = slow_station.worker("-c", "2")
    begin(slow_station, pumps=2)
    until(lambda: len(rows(slow_station)) > 5)

    for pid in slow_station.children_of(worker):
        os.kill(pid, signal.SIGKILL)

    finish(slow_station)
    assert_complete(slow_station)


@pytest.mark.chaos
def test_a_worker_that_is_killed_leaves_its_crawl_to_the_others(slow_station):
    victim = slow_station.worker("-c", "2")
    begin(slow_station, pumps=2)
    until(lambda: len(rows(slow_station)) > 5)

    os.killpg(victim.pid, signal.SIGKILL)
    slow_station.worker("-c", "2")

    finish(slow_station)
    assert_complete(slow_station)


@pytest.mark.chaos
def test_sigterm_to_every_process_hands_back_what_they_hold(slow_station):
    worker = slow_station.worker("-c", "2")
    begin(slow_station, pumps=2, lease_s=600)
    until(lambda: len(rows(slow_station)) > 5)

    os.killpg(worker.pid, signal.SIGTERM)
    worker.wait(timeout=PATIENCE_S)

    assert slow_station.stats("books").leased == 0
    assert slow_station.stats("books").lost == 0
    slow_station.worker("-c", "2")
    finish(slow_station)
    assert_complete(slow_station)


@pytest.mark.chaos
def test_a_broker_that_is_killed_comes_back_and_the_crawl_goes_on(slow_station):
    """Broker, results and frontier are one server here; `skitter run` starts it again."""
    slow_station.worker("-c", "2")
    words = ("-m", "skitter", "run", BOOKS, "--engine", "celery", "--workers", "2", "--json")
    crawl = slow_station.start(sys.executable, *words, log=slow_station.folder / "run.log")
    until(lambda: len(rows(slow_station)) > 5)

    server = running(slow_station.settings.where.directory)
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)

    assert crawl.wait(timeout=PATIENCE_S) == 0
    assert_complete(slow_station)


@pytest.mark.chaos
def test_scale_pause_resume_and_cancel_work_as_with_our_own_workers(station):
    station.worker("-c", "3")
    pages = station.pages(5_000, "long")  # it is cancelled, long before its end
    station.scrape_many(pages, job="long", delay_s=0.1).get(timeout=PATIENCE_S)
    until(lambda: station.stats("long").done > 3)

    for wish in (3, 1, 2):
        told = station.skitter("scale", "long", str(wish)).stdout
        assert "a worker is a pump, which takes one slot" in told
        until_pumps(station, "long", wish)
    station.skitter("pause", "long")
    until(lambda: station.stats("long").leased == 0)
    before = station.stats("long").done
    until_pumps(station, "long", 1)  # it waits for the end of the pause
    assert station.stats("long").done == before
    station.skitter("resume", "long")
    until(lambda: station.stats("long").done > before + 3)
    station.skitter("cancel", "long")

    until_pumps(station, "long", 0)
    assert station.stats("long").pending > 0
    until(lambda: status("long", app=station.app).state == "cancelled")
    assert not station.audit("long").problems


def until_pumps(station, job: str, number: int) -> None:
    def pumps() -> int:
        return Counter(one.kind for one in station.on_job(job, live_workers))["celery"]

    until(lambda: pumps() == number)


def test_two_workers_together_ask_a_host_once_a_second(station):
    for _ in range(2):
        station.worker("-c", "2")

    results = [station.scrape.delay(url) for url in station.pages(5, "polite")]
    station.scrape_many(station.pages(1, "elsewhere"), job="another").get(timeout=PATIENCE_S)

    for result in results:
        assert result.get(timeout=PATIENCE_S)["status"] == 200
    asked = [one.monotonic for one in station.shop.log() if "polite" in one.target]
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    # The server hands one out each second; a worker may be late with one and not with the next.
    assert len(gaps) == 4
    assert sum(gaps) > 4 * 0.9
    assert min(gaps) > 0.5


def slowly(station, **options: Any):
    """A map_reduce whose reducer keeps a diary."""
    diary = station.folder / "diary"
    diary.touch()

    def reduce(records, diary):
        """Callers need its name; see helper_reducers for what it does."""

    reducer = station.app.task(name="slowly", shared=False)(reduce).s(str(diary))
    polite = {"delay_s": 0, "max_in_flight": 20}
    urls = station.pages(200, "killed")
    return map_reduce(urls, reducer, app=station.app, **polite, **options), diary


@pytest.mark.chaos
def test_workers_that_are_killed_while_they_map_do_not_run_the_reducer_twice(slow_station):
    words = ("-c", "2", "-I", "engine_celery.helper_reducers")
    victim = slow_station.worker(*words)
    result, diary = slowly(slow_station, pumps=2, lease_s=3)
    job = f"map-{result.id}"
    until(lambda: slow_station.done(job) > 10)

    os.killpg(victim.pid, signal.SIGKILL)
    slow_station.worker(*words)
    slow_station.worker(*words)

    assert result.get(timeout=PATIENCE_S) == 200
    assert [line.split()[0] for line in diary.read_text().splitlines()] == ["begin", "end"]


@pytest.mark.chaos
def test_a_reducer_that_is_killed_half_way_is_run_by_another_and_ends_once(slow_station):
    words = ("-c", "2", "-I", "engine_celery.helper_reducers")
    slow_station.worker(*words, REDUCE_S="4")
    slow_station.worker(*words, REDUCE_S="4")
    result, diary = slowly(slow_station, pumps=2)
    begun = until(lambda: diary.read_text())

    os.kill(int(begun.split()[1]), signal.SIGKILL)

    assert result.get(timeout=PATIENCE_S) == 200
    said = [line.split()[0] for line in diary.read_text().splitlines()]
    assert said == ["begin", "begin", "end"]


def written(path) -> list[str]:
    """The UPCs in a CSV or a Parquet file."""
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return sorted(row["upc"] for row in csv.DictReader(file))
    return sorted(parquet.read_table(path)["upc"].to_pylist())


def upcs(station) -> list[str]:
    return sorted(item["upc"] for item in expected_items(station.shop.expected))


def test_a_file_that_is_written_whole_has_every_row_at_the_end(station):
    file = station.folder / "books.parquet"
    station.worker("-c", "2", SKITTER_OUTPUT_SHELF=str(file))
    station.crawl.delay(BOOKS, out="shelf", pumps=2).get(timeout=PATIENCE_S)

    finish(station)
    until(file.exists)

    assert written(file) == upcs(station)
    until(lambda: not list(file.parent.glob(f".{file.name}*")))  # the other pump may write it again


def test_run_writes_the_file_of_a_crawl_on_celery_workers(station):
    station.worker("-c", "2")

    done = station.skitter("run", BOOKS, "--engine", "celery", "-o", "books.csv", "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["out"] == "books.csv"
    assert written(station.folder / "books.csv") == upcs(station)


def test_beat_that_repeats_a_crawl_is_told_that_nothing_is_new_and_may_visit_again(busy):
    """Both of a program's own tasks and by name, as Celery beat sends them."""
    pages = busy.pages(3, "beat")

    def many(**options):
        sent = busy.app.send_task("skitter.scrape_many", (pages,), options | {"job": "beat"})
        found = sent.get(timeout=PATIENCE_S)
        until(lambda: status("beat", app=busy.app).ready)
        return found

    def visits(mark):
        return [entry.target for entry in busy.shop.log() if mark in entry.target]

    assert many(delay_s=0) == {"job": "beat", "new": 3, "known": 0}
    repeated = many()
    assert (repeated["new"], repeated["known"]) == (0, 3)
    assert "again=True" in repeated["note"]
    told = json.loads(busy.skitter("status", "beat", "--json").stdout)
    assert told["state"] == status("beat", app=busy.app).state  # its items wait for a loader
    assert many(again=True) == {"job": "beat", "new": 3, "known": 0}
    assert sorted(visits("/about?beat=")) == sorted(
        2 * [url[len(busy.page("")) - 1 :] for url in pages]
    )

    spider = "engine_celery.helper_spiders:front"
    first = {"spider": spider, "job": "rounds"}
    busy.crawl.delay(**first).get(timeout=PATIENCE_S)
    until(lambda: status("rounds", app=busy.app).ready)
    assert "again=True" in busy.crawl.delay(**first).get(timeout=PATIENCE_S)["note"]
    until(lambda: status("rounds", app=busy.app).ready)
    once_more = busy.crawl.delay(**first, again=True)
    assert once_more.get(timeout=PATIENCE_S) == {"job": "rounds", "new": 1, "known": 0}
    until(lambda: status("rounds", app=busy.app).ready)
    assert busy.stats("rounds").done == 1
    assert not busy.audit("rounds").problems
