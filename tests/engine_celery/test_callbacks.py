"""Chords, chains and callbacks without a secret: where whoever can write to the frontier can send
any task anyway, they work; elsewhere they are refused."""

from __future__ import annotations

import secrets
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from celery import chain, chord

from skitter.celery import CelerySettings
from skitter.celery.config import beside, is_on_broker
from skitter.celery.jobs import QUEUED, TASK
from skitter.celery.results import ScrapeFailed
from skitter.celery.runtime import runtime_of
from skitter.embedded import EmbeddedServer, start, stop
from skitter.errors import NotAllowed
from skitter.frontier.records.drivers import pump_secret
from skitter.model import Request
from skitter.settings import Settings
from waiting import PATIENCE_S, until

pytestmark = pytest.mark.timeout(300)
WAIT_S = 60


@pytest.mark.parametrize(
    ("frontier", "broker"),
    [
        ("redis://localhost", "redis://localhost:6379/0"),
        ("redis://localhost:6379/3", "redis://localhost/1"),
        ("redis://", "redis://localhost/1"),
        ("redis://h:7000", "redis://H:7000/1"),
        ("redis://:pw@h", "redis://:pw@h/1"),
        ("redis://:pw@h", "redis://default:pw@h/1"),
        ("redis://me:pw@h", "redis://me:pw@h/1"),
        ("rediss://h?ssl_cert_reqs=none", "rediss://h/1?ssl_cert_reqs=CERT_NONE"),
        ("unix:///run/valkey.sock", "redis+socket:///run/valkey.sock?virtual_host=1"),
        ("unix:///run/a/../valkey.sock", "redis+socket:///run/valkey.sock"),
        ("redis+sentinel://b:2,a:1/main/0", "sentinel://a:1;sentinel://b:2/1"),
    ],
)
def test_the_same_server_in_whichever_way_it_is_spelled(frontier, broker):
    assert is_on_broker(Settings(redis_url=frontier), conf_of(broker, master_name="main"))


@pytest.mark.parametrize(
    ("frontier", "broker"),
    [
        ("redis://h", "amqp://h"),
        ("redis://h", "redis://other/1"),
        ("redis://h:6379", "redis://h:6380/1"),
        ("redis://localhost", "redis://127.0.0.1/1"),  # there may be one per address family
        ("redis://h", "redis://h;redis://g"),
        ("redis://h", ["redis://h", "redis://g"]),
        ("redis://feeds:pw@h", "redis://:pw@h/1"),  # its ACL may not let it send tasks
        ("redis://?host=a", "redis://?host=b"),
        ("redis://h", "redis://?host=h"),
        ("unix:///run/a.sock", "redis+socket:///run/b.sock"),
        ("unix:///run/a.sock", "redis://localhost"),
        ("redis+cluster://h:6379", "redis://h:6379"),
        ("redis+sentinel://a:1/main", "sentinel://b:2"),
        ("redis+sentinel://a:1/other", "sentinel://a:1"),
        (None, "redis://h"),
    ],
)
def test_another_server_or_one_that_may_be_another(frontier, broker):
    assert not is_on_broker(Settings(redis_url=frontier), conf_of(broker, master_name="main"))


def test_workers_that_read_from_another_broker_than_callers_write_to():
    where, conf = Settings(redis_url="redis://h"), conf_of("redis://h/1")
    conf.broker_read_url = "amqp://h"

    assert not is_on_broker(where, conf)


def conf_of(broker: Any, **options: str) -> Any:
    return SimpleNamespace(
        broker_url=broker,
        broker_read_url=None,
        broker_write_url=None,
        broker_use_ssl=None,
        broker_transport_options=options,
    )


@pytest.mark.filterwarnings("ignore:Call to deprecated setex")  # by Celery
def test_they_work_on_the_brokers_own_server_and_forged_ones_do_not(elsewhere):
    elsewhere.make_job("scrape")
    elsewhere.worker("-c", "2")
    scrape, summarize = elsewhere.scrape, elsewhere.summarize

    header = [scrape.s(url) for url in elsewhere.pages(100, "chord")]
    callback = summarize.s()
    result = chord(header)(callback)
    chained = chain(scrape.si(elsewhere.page("/about?chain")), summarize.si([{}, {}]))()
    linked = f"linked-{secrets.token_hex(3)}"
    link = summarize.si([{}]).set(task_id=linked)
    dead = f"dead-{secrets.token_hex(3)}"
    on_error = summarize.si([]).set(task_id=dead)
    pages = [
        scrape.apply_async((elsewhere.page("/about?link"),), link=link),
        scrape.apply_async((elsewhere.page("/nothing"),), link_error=on_error),
    ]

    assert result.get(timeout=WAIT_S)["successful"] == 100
    assert chained.get(timeout=WAIT_S)["total"] == 2
    assert pages[0].get(timeout=WAIT_S)["status"] == 200
    with pytest.raises(ScrapeFailed):
        pages[1].get(timeout=WAIT_S)
    assert elsewhere.app.AsyncResult(linked).get(timeout=WAIT_S)["total"] == 1
    assert elsewhere.app.AsyncResult(dead).get(timeout=WAIT_S)["total"] == 0
    assert_forged_is_not_sent(elsewhere)


def assert_forged_is_not_sent(station) -> None:
    """By somebody who can add requests, over HTTP or to a feed, and cannot read the server."""
    forged, sent = (f"{name}-{secrets.token_hex(3)}" for name in ("forged", "sent"))
    callback = dict(station.summarize.s([]).set(task_id=sent, immutable=True, queue="http"))
    meta = {TASK: {"id": forged, "callbacks": [callback], "signature": "0" * 64}}
    page = Request(url=station.page("/about"), unique=forged, meta=meta)

    station.app.backend.store_result(forged, {"job": "scrape"}, QUEUED)  # as if it were waited for
    station.on_job("scrape", lambda frontier: frontier.add([page]))
    station.scrape.delay(station.page("/about?wake")).get(timeout=WAIT_S)

    with pytest.raises(ScrapeFailed, match="not signed"):
        station.app.AsyncResult(forged).get(timeout=WAIT_S)
    assert station.app.AsyncResult(sent).state == "PENDING"


def test_they_are_refused_where_the_broker_is_another_server(station):
    """In the frontier, others than those who send tasks could write."""
    broker, frontier = station.settings.broker, station.folder / "f"
    start(frontier)
    try:
        url = EmbeddedServer(directory=frontier).url
        station.environment |= {"SKITTER_REDIS_URL": url, "SKITTER_BROKER_URL": broker}
        station.environment["SKITTER_RESULT_BACKEND"] = station.settings.results
        runtime_of(station.app).close()
        station.app.close()
        station.settings = CelerySettings(
            where=Settings(redis_url=url, directory=station.folder / "own"),
            broker_url=broker,
            result_backend=station.settings.results,
            secret=None,
        )
        station.__post_init__()
        station.worker("-c", "1")

        plain = station.scrape.delay(station.page("/about"))
        refused = chord([station.scrape.s(station.page("/about?c"))])(station.summarize.s())

        assert plain.get(timeout=WAIT_S)["status"] == 200
        with pytest.raises(NotAllowed, match=r"not the broker's.*set SKITTER_SECRET"):
            refused.parent[0].get(timeout=WAIT_S)
        runtime_of(station.app).close()
    finally:
        stop(frontier)


async def test_everybody_gets_the_same_key_of_a_server(server):
    first = await pump_secret(server)

    assert await pump_secret(server) == first
    assert len(first) == 64
    await server.command("DEL", "skitter:pumped:secret")
    assert await pump_secret(server) != first


TUTORIAL = """
import sys
from celery import Celery, chord
from skitter.celery import register, scrape, scrape_many, status, summarize

broker, backend, failing, *urls = sys.argv[1:]
app = Celery("scraper", broker=broker, backend=backend)
app.conf.update(
    task_serializer="json", accept_content=["json"], result_serializer="json", timezone="UTC",
    enable_utc=True, task_track_started=True, task_time_limit=300, worker_prefetch_multiplier=1,
    task_acks_late=True, result_expires=3600,
)
register(app)
sent = [scrape.delay(url) for url in urls]  # 1,000, and nobody waits
found = scrape_many(urls, job="many", delay_s=0, max_in_flight=100)
print(found.get(timeout=600)["new"])
print(chord(scrape.s(url) for url in urls[:100])(summarize.s()).get(timeout=600)["successful"])
tried = scrape.delay(failing)
print(tried.get(timeout=600, propagate=False), tried.state)
print(sum(one.get(timeout=600)["status"] == 200 for one in sent))
"""


def test_the_lines_of_a_tutorial_run_as_they_are_without_a_secret(elsewhere):
    """App configuration, a task that is retried, 1,000 fire-and-forget, a chord of 100."""
    broker, backend = (beside(elsewhere.settings.where, number, "") for number in (5, 6))
    environment = elsewhere.environment | {"TEAM_BROKER": broker, "TEAM_BACKEND": backend}
    elsewhere.make_job("scrape")
    log = elsewhere.folder / "team.log"
    words = ("-m", "celery", "-A", "engine_celery.helper_team", "worker", "-c", "2", "-Q")
    elsewhere.start(sys.executable, *words, "celery,team", "-l", "INFO", log=log, **environment)
    until(lambda: b" ready." in log.read_bytes())

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TUTORIAL, broker, backend, elsewhere.failing.url,
         *elsewhere.pages(1000, "tutorial")],
        env=environment, cwd=elsewhere.folder, capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip

    new, successful, tried, fetched = done.stdout.splitlines() or [done.stderr, "", "", ""]
    assert (new, successful, fetched) == ("1000", "100", "1000")
    assert tried.endswith("500 Internal Server Error FAILURE")
    assert elsewhere.failing.asked == 4
    assert not elsewhere.audit("many").problems
