"""One pump at a time, run by the test itself: what it does when something is wrong."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from engine_celery.conftest import Station, open_station
from needs import need
from skitter.celery import make_app, scheduling, status
from skitter.celery import pump as pumping
from skitter.celery.config import PUMP_S
from skitter.celery.factory import Watch
from skitter.celery.jobs import (
    JobSpec,
    read_spec,
    register_job,
    spider_for,
    unregister_job,
)
from skitter.celery.pump import PumpMessage, pump
from skitter.celery.runtime import runtime_of
from skitter.celery.scheduling import reclaim_leases, report_slots
from skitter.celery.submit import CrawlOptions, _spec, scrape_spec
from skitter.errors import JobMissing, SpiderError
from skitter.frontier.control import set_state
from skitter.frontier.frontier import Frontier
from skitter.frontier.items import read_items
from skitter.frontier.jobs import purge_job
from skitter.frontier.records.drivers import issue_permits, void_permits
from skitter.frontier.transport.shard import scan_keys
from skitter.frontier.workers import Heartbeat, beat, live_workers, read_log
from skitter.model import Request, State
from skitter.settings import BrowserOptions, WorkerConfig
from waiting import until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def quiet(short_dir) -> Iterator[Station]:
    """A station without workers: nobody else sends or takes messages."""
    yield from open_station(short_dir / "quiet")


@pytest.fixture
def job(quiet) -> Iterator[str]:
    name = f"j{secrets.token_hex(3)}"
    quiet.make_job(name)
    yield name
    quiet.run(unregister_job(server_of(quiet), name))


def server_of(station: Station) -> Any:
    return station.run(runtime_of(station.app).server())


def registered(station: Station, job: str, **options: Any) -> JobSpec:
    spec = runtime_of(station.app).sign(JobSpec(job=job, **options))
    station.run(register_job(server_of(station), spec))
    return spec


def message(station: Station, job: str) -> PumpMessage:
    [permit] = station.on_job(job, lambda frontier: issue_permits(frontier, 1, ttl_s=30))
    return PumpMessage(job, permit, machine="here")


def permits(station: Station, job: str) -> int:
    async def count(frontier: Frontier) -> int:
        shard = frontier.shards[0]
        return int(await shard.server.command("ZCARD", shard.keys.key("permits")))

    return station.on_job(job, count)


def start(station: Station, job: str) -> Any:
    """A pump in the runtime of this process, when it is at work."""
    runtime = runtime_of(station.app)
    begun = runtime.start(pump(runtime, message(station, job)))
    until(lambda: begun.done() or station.on_job(job, live_workers))
    return begun


def said(station: Station, job: str) -> str:
    return "\n".join(one.text for one in station.on_job(job, read_log))


def test_a_pump_whose_job_is_purged_ends_quietly_and_the_job_is_unregistered(quiet, job):
    registered(quiet, job, kind="scrape")
    running = start(quiet, job)

    quiet.on_job(job, purge_job)

    assert running.result(timeout=600)["pages"] == 0
    assert quiet.run(read_spec(server_of(quiet), job)) is None
    with pytest.raises(JobMissing):
        quiet.stats(job)


def test_pumps_of_one_process_are_one_worker_to_those_who_watch(quiet, job):
    """Pages count from the first pump on, so the time must, too: rates are made of both."""
    registered(quiet, job, kind="pages")
    quiet.on_job(job, lambda frontier: frontier.add([Request(url="http://a.test/")]))
    quiet.on_job(job, lambda frontier: set_state(frontier, State.PAUSED))
    began = []
    for _ in range(2):
        quiet.on_job(job, void_permits)  # that of the pump that would be next
        running = start(quiet, job)
        [one] = quiet.on_job(job, live_workers)
        began.append(one.started_at)
        quiet.on_job(job, void_permits)
        running.result(timeout=600)

    assert began[1] - began[0] < 1
    assert said(quiet, job).splitlines() == ["worker started"]


def test_why_a_pump_failed_is_told_in_the_log(quiet, job):
    registered(quiet, job, kind="pages", target="nowhere.py")
    runtime = runtime_of(quiet.app)

    with pytest.raises(SpiderError):
        quiet.run(pump(runtime, message(quiet, job)))

    assert "nowhere.py" in said(quiet, job)


def test_what_breaks_beside_the_worker_is_told_in_the_log_too(quiet, job):
    registered(quiet, job, kind="pages", out="nosuch.place")
    runtime = runtime_of(quiet.app)

    with pytest.raises(Exception, match="nosuch") as caught:
        quiet.run(pump(runtime, message(quiet, job)))

    assert not isinstance(caught.value, ExceptionGroup)
    assert "nosuch" in said(quiet, job)


def test_a_pump_whose_crawl_was_stopped_leaves_no_permit_behind(quiet, job):
    """A permit that nobody uses would keep the next `skitter run` waiting."""
    registered(quiet, job, kind="pages")
    quiet.on_job(job, lambda frontier: frontier.add([Request(url="http://a.test/")]))
    quiet.on_job(job, lambda frontier: set_state(frontier, State.PAUSED))
    running = start(quiet, job)

    quiet.run(unregister_job(server_of(quiet), job))
    quiet.on_job(job, void_permits)

    running.result(timeout=600)
    assert permits(quiet, job) == 0


def test_a_message_that_finds_no_registered_job_returns_its_permit(quiet, job):
    late = message(quiet, job)

    quiet.run(pump(runtime_of(quiet.app), late))

    assert permits(quiet, job) == 0


def test_an_app_without_a_result_backend_maps_and_says_what_it_cannot_know(quiet):
    app = make_app(quiet.settings, result_backend=None)
    reducer = dict(app.tasks["skitter.summarize"].s())

    begun = app.tasks["skitter.map_reduce"].apply((["http://a.test/"], reducer), throw=True)
    asked = status("some-id", app=app)
    runtime_of(app).close()

    assert quiet.stats(f"map-{begun.id}").seen == 1
    assert asked.state == "UNKNOWN"
    assert "no result backend" in (asked.error or "")


def test_a_silent_pump_keeps_its_page_while_its_process_lives(quiet, job):
    """A handler that blocks looks like a process that was killed."""

    async def left_by(frontier: Frontier, pid: int) -> int:
        name = frontier.client
        host, long_ago = socket.gethostname(), 5.0
        await beat(
            frontier,
            Heartbeat(name=name, host=host, pid=pid, kind="celery", started_at=0, at=long_ago),
        )
        await frontier.lease(1, ttl_s=60)
        await reclaim_leases(frontier)
        return (await frontier.stats()).leased

    pages = [Request(url="http://a.test/"), Request(url="http://b.test/")]
    quiet.on_job(job, lambda frontier: frontier.add(pages))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()

    assert quiet.on_job(job, lambda frontier: left_by(frontier, os.getpid())) == 1
    assert quiet.on_job(job, lambda frontier: left_by(frontier, gone.pid)) == 1  # the first one's
    assert f"process {gone.pid} on" in said(quiet, job)
    assert "1 request returned to the queue" in said(quiet, job)


def test_a_handler_that_blocks_is_blamed_in_the_log(quiet, monkeypatch):
    monkeypatch.setattr(pumping, "BLOCKED_S", 0.5)
    monkeypatch.setenv("BLOCK_S", "1")
    quiet.make_job("blocked")
    registered(quiet, "blocked", kind="pages", target="engine_celery.helper_spiders:blocking")
    page = Request(url=quiet.page("/about"))
    quiet.on_job("blocked", lambda frontier: frontier.add([page]))

    start(quiet, "blocked").result(timeout=600)

    assert quiet.stats("blocked").done == 1
    assert "a handler blocked all other pages" in said(quiet, "blocked")


@pytest.mark.filterwarnings("ignore:Call to deprecated setex")  # by Celery's backend
def test_pages_that_are_submitted_one_by_one_are_one_client_to_the_server(quiet):
    async def clients(frontier: Frontier) -> int:
        keys = {key async for keys in scan_keys(frontier.shards[0]) for key in keys}
        return sum(":recent" in key for key in keys)

    for number in range(5):
        quiet.scrape.apply((f"http://a.test/{number}",), throw=True)

    assert quiet.stats("scrape").seen == 5
    assert quiet.on_job("scrape", clients) == 1


def waiting(app: Any, queue: str) -> int:
    """Messages in a queue of the broker."""
    with app.connection_for_read() as connection:
        return int(connection.default_channel.queue_declare(queue).message_count)


def test_a_watch_that_nobody_took_is_not_sent_again_at_once(quiet):
    before = waiting(quiet.app, "http")
    watch = Watch(quiet.app, "here", 2)

    for _ in range(3):
        watch.send()

    assert waiting(quiet.app, "http") == before + 1


def test_the_routes_of_a_team_come_before_our_queues(quiet):
    routes = {"skitter.*": {"queue": "crawl"}}
    app = make_app(quiet.settings, task_routes=routes)

    app.tasks["skitter.scrape"].apply_async(("http://a.test/",), countdown=1)  # a message
    Watch(app, "here", 2).send()
    app.tasks["skitter.scrape"].apply_async(("http://a.test/",), queue="now")

    assert (waiting(app, "crawl"), waiting(app, "now")) == (2, 1)
    app.close()


def test_a_pump_goes_home_early_when_others_wait_for_its_place(quiet, job, monkeypatch):
    monkeypatch.setattr(pumping, "TURN_S", 0.2)
    monkeypatch.setattr(pumping, "RENEW_S", 0.1)
    quiet.run(report_slots(server_of(quiet), "here", 2))
    quiet.on_job(job, lambda frontier: set_state(frontier, State.PAUSED))
    registered(quiet, job, kind="pages")
    quiet.make_job("waiting")
    registered(quiet, "waiting", kind="pages")
    message(quiet, "waiting")

    done = start(quiet, job).result(timeout=600)
    quiet.run(unregister_job(server_of(quiet), "waiting"))

    assert done["seconds"] < PUMP_S
    assert permits(quiet, job) == 1  # of its next turn


def test_a_pump_goes_home_early_when_tasks_of_others_wait(quiet, job, monkeypatch):
    monkeypatch.setattr(pumping, "TURN_S", 0.2)
    monkeypatch.setattr(pumping, "RENEW_S", 0.1)
    quiet.on_job(job, lambda frontier: set_state(frontier, State.PAUSED))
    registered(quiet, job, kind="pages")
    before = waiting(quiet.app, "http")
    quiet.summarize.delay([])
    assert scheduling.count_waiting(quiet.app) == before + 1

    done = start(quiet, job).result(timeout=600)

    assert done["seconds"] < PUMP_S


def test_a_job_that_renders_goes_to_the_queue_of_browsers_and_uses_our_browser(quiet, tmp_path):
    """Whoever can write to the server names no program that we start."""
    need("chromium")
    target = "engine_celery.helper_spiders:made"
    evil = WorkerConfig(browser=BrowserOptions(executable=tmp_path / "evil"))
    spec = scrape_spec(target, browser=False)
    quiet.make_job("made")
    registered(quiet, "made", kind="pages", target=target, browser=True, config=evil)
    quiet.on_job("made", lambda frontier: frontier.add([Request(url=quiet.page("/about"))]))

    start(quiet, "made").result(timeout=600)

    assert spec.browser
    [item] = quiet.on_job("made", all_items)
    assert item == {"title": "Made"}


def test_only_the_pages_for_a_browser_of_a_job_go_to_the_queue_of_browsers(quiet, monkeypatch):
    need("chromium")
    target = "engine_celery.helper_spiders:mixed"
    sent: list[tuple[str, str]] = []
    queues = runtime_of(quiet.app).settings.queues

    def keep(app: Any, task: str, queue: str) -> dict[str, Any]:
        return {"queue": queue}

    def take(self: Any, args: tuple[str, ...], **where: Any) -> None:
        sent.append((args[1], where["queue"]))

    monkeypatch.setattr(scheduling, "destination", keep)
    monkeypatch.setattr(type(quiet.app.tasks["skitter.pump"]), "apply_async", take)
    quiet.make_job("mixed")
    spec = registered(quiet, "mixed", target=target, browser=True, plain=True)
    both = [Request(url=quiet.page("/about"), handler="plain")]
    both += [Request(url=quiet.page("/"), handler="made_title", lane="browser")]
    quiet.on_job("mixed", lambda frontier: frontier.add(both))
    runtime = runtime_of(quiet.app)
    quiet.run(scheduling.schedule(runtime, spec))

    (plain, at_plain), (browser, at_browser) = sent
    assert (at_plain, at_browser) == (queues.http, queues.browser)
    first = PumpMessage("mixed", plain, machine="here")
    begun = runtime.start(pump(runtime, first))
    until(lambda: len(quiet.on_job("mixed", all_items)) == 1)
    second = runtime.start(pump(runtime, PumpMessage("mixed", browser, machine="here")))
    pages = [one.result(timeout=600)["pages"] for one in (begun, second)]

    assert pages == [1, 1]
    assert [*quiet.on_job("mixed", all_items)][-1] == {"made": "Made"}


def test_a_crawl_has_pumps_of_both_kinds_if_its_spider_has():
    mixed = CrawlOptions(spider="engine_celery.helper_spiders:mixed")
    made = CrawlOptions(spider="engine_celery.helper_spiders:made")
    assert [(one.browser, one.plain) for one in (_spec(mixed, job="a"), _spec(made, job="a"))] == [
        (True, True),
        (True, False),
    ]
    assert scheduling.by_lane(_spec(mixed, job="a"), 1) == {"": 1, "browser": 1}
    assert scheduling.by_lane(_spec(mixed, job="a"), 5) == {"": 3, "browser": 2}
    assert scheduling.by_lane(_spec(made, job="a"), 5) == {"": 5}


async def all_items(frontier: Frontier) -> list[Any]:
    return [one.item async for some in read_items(frontier) for one in some]


def test_a_task_with_browser_renders_all_pages_of_a_spider_that_does_not_say():
    target = "engine_celery.helper_spiders:titles"
    assert not spider_for(JobSpec(job="a", target=target)).renders
    spider = spider_for(JobSpec(job="a", target=target, browser=True))
    assert set(spider.renders) == set(spider.handlers)


def test_pages_for_callers_need_a_browser_only_if_their_own_handler_does():
    target = "engine_celery.helper_spiders:mixed"
    asked, anyway = (scrape_spec(target, browser=browser) for browser in (False, True))

    assert (asked.browser, spider_for(asked).renders) == (False, {})
    assert (anyway.browser, "plain" in spider_for(anyway).renders) == (True, True)
    assert scrape_spec("engine_celery.helper_spiders:made", browser=False).browser
