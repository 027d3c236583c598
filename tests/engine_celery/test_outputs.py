"""Outputs that take no items of a job: refused when it is submitted, and at no page's cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine_celery.test_crawls import BOOKS, assert_complete, begin, finish, rows, upcs
from engine_celery.test_pumps import message, registered, said, server_of
from skitter.celery import pump as pumping
from skitter.celery.jobs import read_spec, read_specs, unregister_job
from skitter.celery.pump import pump
from skitter.celery.runtime import runtime_of
from skitter.celery.submit import ManyOptions, submit_pages
from skitter.errors import ItemsElsewhere, JobMissing, UsageError
from skitter.frontier.records.drivers import void_permits
from skitter.frontier.records.outputs import claim_sink
from skitter.model import Request
from skitter.sinks import BadSink
from waiting import PATIENCE_S, until

pytestmark = pytest.mark.timeout(300)
SLOW = "engine_celery.helper_spiders:slow"


def add(station, job: str, *paths: str) -> None:
    pages = [Request(url=station.page(path)) for path in paths]
    station.on_job(job, lambda frontier: frontier.add(pages))


# --- when a job is submitted ----------------------------------------------------------------------


def test_a_second_crawl_of_a_job_with_another_output_is_refused_and_the_first_goes_on(slow_station):
    slow_station.worker("-c", "2")
    begin(slow_station, lease_s=60)
    until(lambda: len(rows(slow_station)) > 5)
    [before] = slow_station.run(read_specs(server_of(slow_station)))

    with pytest.raises(
        UsageError, match=r"Name that output.*`skitter export books --from \S+books\.db"
    ):
        slow_station.crawl.delay(BOOKS, out="other.db").get(timeout=PATIENCE_S)

    assert slow_station.run(read_spec(server_of(slow_station), "books")) in (before, None)
    finish(slow_station)
    assert_complete(slow_station)
    assert slow_station.stats("books").lost == 0
    assert not (slow_station.folder / "other.db").exists()


def submit(station, url: str, out: Path) -> None:
    """What the task scrape_many does in a worker."""
    options = ManyOptions(job="p", out=str(out))
    station.run(submit_pages(runtime_of(station.app), [url], options))


def test_pages_for_a_second_output_are_refused_although_no_pump_has_run(station):
    submit(station, "http://a.test/", station.folder / "one.db")
    before = station.run(read_spec(server_of(station), "p"))

    with pytest.raises(ItemsElsewhere, match="Name that output"):
        submit(station, "http://b.test/", station.folder / "two.db")

    assert station.run(read_spec(server_of(station), "p")) == before
    assert station.stats("p").seen == 1


def test_an_output_that_cannot_be_opened_is_refused_before_there_is_a_job(station):
    with pytest.raises(BadSink, match="there is no directory"):
        submit(station, "http://a.test/", station.folder / "nowhere" / "one.jsonl")

    with pytest.raises(JobMissing):
        station.stats("p")


# --- in a pump ------------------------------------------------------------------------------------


def test_a_mistake_that_a_pump_meets_costs_its_pages_no_delivery(station):
    """Whoever can write to the server can register anything, and files change between pumps."""
    station.make_job("j")
    add(station, "j", "/about")
    station.on_job("j", lambda frontier: claim_sink(frontier, "/first.jsonl"))
    registered(station, "j", kind="pages", out=str(station.folder / "second.jsonl"))

    for _ in range(2):
        with pytest.raises(ItemsElsewhere):
            station.run(pump(runtime_of(station.app), message(station, "j")))
        stats = station.stats("j")
        assert (stats.pending, stats.leased, stats.lost, stats.done) == (1, 0, 0, 0)
        station.on_job("j", void_permits)  # it is kept until it expires

    assert "Name that output" in said(station, "j")
    assert not any("/about" in one.target for one in station.shop.log())


def test_a_mistake_in_the_middle_of_a_pump_returns_the_pages_in_flight(station, monkeypatch):
    monkeypatch.setattr(pumping, "GRACE_S", 0.1)
    monkeypatch.setenv("SLOW_UNTIL", str(station.folder / "never"))
    out = station.folder / "out.jsonl"
    station.make_job("j")
    add(station, "j", "/about?quick=1", "/about?held")
    registered(station, "j", kind="pages", target=SLOW, out=str(out))
    runtime = runtime_of(station.app)
    running = runtime.start(pump(runtime, message(station, "j")))
    until(lambda: station.stats("j").stored == 1)
    until(lambda: any("held" in one.target for one in station.shop.log()))

    out.write_text("")
    add(station, "j", "/about?quick=2")

    with pytest.raises(BadSink, match="shorter than"):
        running.result(timeout=PATIENCE_S)
    stats = station.stats("j")
    assert (stats.leased, stats.lost, stats.done, stats.pending) == (0, 0, 2, 1)
    station.run(unregister_job(server_of(station), "j"))


def test_the_output_of_a_pump_at_work_is_not_replaced_although_it_has_no_item_yet(
    station, monkeypatch
):
    monkeypatch.setattr("skitter.celery.pump.SILENCE_S", 0.3)
    monkeypatch.setenv("SLOW_UNTIL", str(station.folder / "until"))
    station.make_job("p")
    add(station, "p", "/about?held")
    registered(station, "p", kind="pages", target=SLOW, out=str(station.folder / "one.db"))
    runtime = runtime_of(station.app)
    running = runtime.start(pump(runtime, message(station, "p")))
    until(lambda: any("held" in one.target for one in station.shop.log()))

    async def claimed_at(frontier) -> int:
        return int((await frontier.home.command("HMGET", "sink", "at"))[0])

    async def forget(frontier) -> None:
        await frontier.home.command("HSET", "sink", "at", "0")  # it was long ago

    station.on_job("p", forget)
    until(lambda: running.done() or station.on_job("p", claimed_at))
    with pytest.raises(ItemsElsewhere, match="Name that output"):
        submit(station, station.page("/about?quick"), station.folder / "two.db")

    (station.folder / "until").touch()
    assert running.result(timeout=PATIENCE_S)["pages"] == 1
    assert station.stats("p").stored == 1


def test_pumps_share_a_file_that_only_one_of_them_can_write(station):
    station.worker("-c", "3", "-l", "INFO")

    station.crawl.delay(BOOKS, out="books.jsonl", pumps=3).get(timeout=PATIENCE_S)
    finish(station)

    lines = (station.folder / "books.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["upc"] for line in lines) == upcs(station)
    assert "another process is writing" not in said(station, "books")
    assert station.stats("books").lost == 0
    assert not station.audit("books").problems
