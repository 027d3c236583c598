"""Somebody writes to Redis, or to the broker, what he likes: real workers do only what they may."""

from __future__ import annotations

import json
import secrets
import signal
import sqlite3
import sys
from contextlib import closing
from typing import Any

import msgspec
import pytest
from celery import chord
from redis.asyncio import Redis

from skitter.celery import CelerySettings, make_app, map_reduce, status
from skitter.celery.jobs import TASK, JobSpec, read_spec, register_job
from skitter.celery.results import ScrapeFailed
from skitter.celery.runtime import runtime_of
from skitter.celery.scheduling import count_slots
from skitter.celery.security import Secret, signed
from skitter.demo import SPIDER
from skitter.embedded import EmbeddedServer
from skitter.errors import NotAllowed, UsageError
from skitter.frontier.items import count
from skitter.frontier.records.outputs import claim_sink
from skitter.frontier.transport.keys import PUMP_SLOTS, PUMPED
from skitter.frontier.workers import read_log
from skitter.model import Request
from skitter.settings import FetchOptions, WorkerConfig
from waiting import until

pytestmark = pytest.mark.timeout(300)
WAIT_S = 60
TITLES = "engine_celery.helper_spiders:titles"


@pytest.fixture
def evil(busy):
    """A spider that leaves a trace when it is loaded. It works like any other."""
    name = f"evil{secrets.token_hex(3)}"
    file = busy.folder / f"{name}.py"
    file.write_text(
        "from pathlib import Path\n"
        "from skitter import Spider\n"
        f"Path({str(file.with_suffix('.loaded'))!r}).touch()\n"
        f"spider = Spider({name!r}, ['http://localhost:1/'])\n"
        "@spider.page\n"
        "def page(page):\n"
        "    yield {}\n"
    )
    return file


def was_loaded(evil) -> bool:
    return bool(evil.with_suffix(".loaded").exists())


def server_of(station) -> Any:
    return station.run(runtime_of(station.app).server())


def said(station, job: str) -> str:
    return "\n".join(one.text for one in station.on_job(job, read_log))


def write_spec(station, job: str, **fields: Any) -> None:
    """As somebody would who can reach the server, and has no secret."""
    raw = msgspec.json.encode({"job": job, **fields})
    station.run(server_of(station).command("HSET", PUMPED, job, raw))


def waiting_job(station) -> str:
    name = f"j{secrets.token_hex(3)}"
    station.make_job(name)
    page = Request(url=station.page("/about"))
    station.on_job(name, lambda frontier: frontier.add([page]))
    return name


@pytest.mark.parametrize("kind", ["crawl", "pages", "scrape"])
def test_an_unsigned_spec_loads_no_file(busy, evil, kind):
    job = waiting_job(busy)

    write_spec(busy, job, kind=kind, target=str(evil))

    until(lambda: "SKITTER_SECRET" in said(busy, job))
    busy.skitter("purge", job, "--yes")
    assert not was_loaded(evil)


def test_a_spec_that_was_signed_for_another_job_is_refused(busy, evil):
    job = waiting_job(busy)
    other = runtime_of(busy.app).sign(JobSpec(job="another", target=str(evil)))

    fields = json.loads(msgspec.json.encode(other, enc_hook=str)) | {"job": job}
    write_spec(busy, job, **{name: value for name, value in fields.items() if name != "job"})

    until(lambda: "may not run the spider" in said(busy, job))
    busy.skitter("purge", job, "--yes")
    assert not was_loaded(evil)


def test_an_unsigned_spec_opens_no_output(busy):
    job, out = waiting_job(busy), busy.folder / "written.jsonl"

    write_spec(busy, job, kind="pages", out=str(out))

    until(lambda: "has no output" in said(busy, job))
    busy.skitter("purge", job, "--yes")
    assert not out.exists()


def test_a_job_whose_items_go_elsewhere_is_not_split_between_two_outputs(busy):
    job, out = waiting_job(busy), busy.folder / "second.jsonl"
    busy.on_job(job, lambda frontier: claim_sink(frontier, "/first.jsonl"))
    busy.on_job(job, lambda frontier: count(frontier, stored=1))  # or another might replace it
    spec = JobSpec(job=job, kind="pages", out=str(out))

    busy.run(register_job(server_of(busy), runtime_of(busy.app).sign(spec)))

    until(lambda: "Name that output" in said(busy, job))
    busy.skitter("purge", job, "--yes")
    assert not out.exists()


@pytest.mark.parametrize("is_signed", [True, False])
def test_hosts_of_a_spec_are_allowed_only_if_it_is_signed(busy, is_signed):
    """The site is allowed as `localhost`, and not by its address."""
    job, host = f"j{secrets.token_hex(3)}", f"127.0.0.1:{busy.failing.server_port}"
    busy.make_job(job)
    page = Request(url=f"http://{host}/")
    busy.on_job(job, lambda frontier: frontier.add([page]))
    asked = FetchOptions(allow_hosts=(host,), obey_robots=False)
    spec = JobSpec(job=job, kind="pages", config=WorkerConfig(fetch=asked))
    before = busy.failing.asked

    busy.run(register_job(server_of(busy), runtime_of(busy.app).sign(spec) if is_signed else spec))

    until(lambda: busy.stats(job).dead == 1)
    assert (busy.failing.asked > before) is is_signed


@pytest.mark.parametrize("kind", ["hooks", "reducer"])
def test_what_runs_at_the_end_of_a_crawl_needs_a_signature(busy, evil, kind):
    job, told = f"j{secrets.token_hex(3)}", f"told-{secrets.token_hex(3)}"
    busy.make_job(job)
    page = Request(url=busy.page("/nothing"))
    busy.on_job(job, lambda frontier: frontier.add([page]))
    reducer = {"task": "skitter.summarize", "args": [], "kwargs": {}, "options": {}}
    extra = {"reducer": reducer, "context": {"id": told}} if kind == "reducer" else {"hooks": True}

    write_spec(busy, job, kind="map", target=str(evil), **extra)
    until(lambda: "may not run the spider" in said(busy, job))
    busy.app.tasks["skitter.finish"].apply_async((job,)).forget()
    busy.scrape.delay(busy.page(f"/about?{job}")).get(timeout=WAIT_S)  # sent after that

    assert status(told, app=busy.app).state == "PENDING"
    assert not was_loaded(evil)
    busy.skitter("purge", job, "--yes")


def test_nonsense_on_the_server_stops_nobody(busy):
    server = server_of(busy)
    for job, raw in (("bad", b"\xff\xfe"), ("huge", b'{"job":"huge","pumps":10000000}')):
        busy.run(server.command("HSET", PUMPED, job, raw))
    for machine, raw in (("m1", b"x"), ("m2", b"9" * 400 + b" 1"), ("m3", b"-5 1 2")):
        busy.run(server.command("HSET", PUMP_SLOTS, machine, raw))

    record = busy.scrape.delay(busy.page("/about?nonsense")).get(timeout=WAIT_S)

    assert record["status"] == 200
    assert busy.run(count_slots(server)) == 3
    assert busy.run(read_spec(server, "huge")) is None
    for job in ("bad", "huge"):
        busy.run(server.command("HDEL", PUMPED, job))


# --- messages ------------------------------------------------------------------------------------


def send(station, task: str, *args: Any, **options: Any) -> Any:
    """Past our own `apply_async`, as somebody would who can write to the broker."""
    return station.app.send_task(task, args, options.pop("kwargs", {}), queue="http", **options)


def test_a_message_that_nobody_signed_loads_no_file_and_opens_no_output(busy, evil):
    page, spider = busy.page("/about"), str(evil)
    sent = [
        send(busy, "skitter.crawl", spider),
        send(busy, "skitter.scrape", page, kwargs={"spider": spider}),
        send(busy, "skitter.scrape_many", [page], kwargs={"spider": spider, "job": "m1"}),
        send(busy, "skitter.scrape_many", [page], kwargs={"out": "m2.db", "job": "m2"}),
        send(
            busy, "skitter.map_reduce", [page], dict(busy.summarize.s()), kwargs={"spider": spider}
        ),
    ]

    for result in sent:
        with pytest.raises(NotAllowed, match="this worker"):
            result.get(timeout=WAIT_S)
    assert not was_loaded(evil)
    assert not (busy.folder / "m2.db").exists()


def test_the_signature_of_a_message_holds_for_no_other(busy, evil):
    secret = runtime_of(busy.app).secret
    assert secret is not None
    own = secret.sign("message", "skitter.crawl", ["id-1", [TITLES], {}])

    right = send(busy, "skitter.crawl", TITLES, task_id="id-1", headers={"skitter_signature": own})
    wrong = [
        send(busy, "skitter.crawl", TITLES, task_id="id-2", headers={"skitter_signature": own}),
        send(busy, "skitter.crawl", str(evil), task_id="id-3", headers={"skitter_signature": own}),
    ]

    assert right.get(timeout=WAIT_S)["job"] == "titles"
    for result in wrong:
        with pytest.raises(NotAllowed, match="this worker"):
            result.get(timeout=WAIT_S)
    assert not was_loaded(evil)


def test_a_worker_does_not_sign_what_it_sends_for_others(busy, evil):
    """The next task of a chain came with a message that anybody may have written."""
    page, spider = busy.page("/about?link"), str(evil)
    following = busy.app.signature("skitter.scrape", args=(page,), kwargs={"spider": spider})
    first = send(busy, "skitter.summarize", [], link=following.set(immutable=True))
    second = send(busy, "skitter.scrape", page, link=following.set(immutable=True))

    until(lambda: first.ready() and second.ready())
    with pytest.raises(ScrapeFailed, match="this worker may not run"):
        second.get(timeout=WAIT_S)
    assert not was_loaded(evil)


@pytest.mark.filterwarnings("ignore:Call to deprecated setex")  # Celery's own
def test_what_somebody_put_into_the_frontier_sends_nothing_and_ends_no_other_task(busy):
    called, waiting, failing, unknown, elsewhere, done = (
        f"forged-{secrets.token_hex(3)}" for _ in range(6)
    )
    callback = dict(busy.summarize.s([]).set(task_id=called, immutable=True, queue="http"))
    backend = busy.app.backend
    for id in (waiting, failing):
        backend.store_result(id, {"job": "scrape"}, "QUEUED")
    backend.store_result(elsewhere, {"job": "another"}, "QUEUED")
    backend.store_result(done, "mine", "SUCCESS")
    pages = [
        Request(url=busy.page(path), unique=id, meta={TASK: forged(id, callback)})
        for path, ids in (("/about", (waiting, unknown, elsewhere, done)), ("/nothing", (failing,)))
        for id in ids
    ]
    pages.append(Request(url=busy.page("/about"), unique="odd", meta={TASK: {"id": 5}}))
    pages.append(Request(url=busy.page("/nothing"), unique="odder", meta={TASK: ["x"]}))

    busy.on_job("scrape", lambda frontier: frontier.add(pages))
    busy.scrape.delay(busy.page("/about?wake")).get(timeout=WAIT_S)

    for id in (waiting, failing):
        with pytest.raises(ScrapeFailed, match="not signed"):
            busy.app.AsyncResult(id).get(timeout=WAIT_S)
    until(lambda: busy.stats("scrape").crawled)
    states = [backend.get_state(id) for id in (called, unknown, elsewhere, done)]
    assert states == ["PENDING", "PENDING", "QUEUED", "SUCCESS"]
    assert backend.get_result(done) == "mine"


def forged(id: str, callback: dict[str, Any]) -> dict[str, Any]:
    return {"id": id, "callbacks": [callback], "errbacks": [callback], "signature": "0" * 64}


# --- outputs and secrets -------------------------------------------------------------------------


def test_an_address_in_out_is_refused_at_the_caller(busy):
    address = "postgresql://user:pass-word@h/db"
    for call in (
        lambda: busy.crawl.delay(TITLES, out=address),
        lambda: busy.scrape_many(busy.pages(1, "address"), out=address),
    ):
        with pytest.raises(UsageError, match="out='warehouse'") as caught:
            call()
        assert "pass-word" not in str(caught.value)


def test_only_the_name_of_an_output_travels(station):
    database = station.folder / "w-a-r-e.db"
    station.worker("-c", "2", SKITTER_OUTPUT_WAREHOUSE=f"sqlite:///{database}")

    result = station.scrape_many(station.pages(3, "out"), job="pages", out="warehouse", delay_s=0)
    headers = {"Authorization": "Bearer to-ken"}
    page = station.scrape.delay(station.page("/about?headers"), headers=headers)

    assert result.get(timeout=WAIT_S)["new"] == 3
    assert page.get(timeout=WAIT_S)["status"] == 200
    until(lambda: status("pages", app=station.app).ready)
    with closing(sqlite3.connect(database)) as rows:
        assert rows.execute("SELECT count(*) FROM pages").fetchone() == (3,)
    assert "w-a-r-e" not in everything(station)
    assert "to-ken" not in everything(station)
    assert "w-a-r-e" not in "".join(one.read_text() for one in station.folder.glob("*.log"))


def everything(station) -> str:
    """What broker, result backend and frontier hold, of strings, lists and hashes; but
    for the place that the job's items go to, which is noted without a password."""

    async def dump() -> str:
        found: list[Any] = []
        for database in (0, 1, 2):
            client = Redis.from_url(
                f"{EmbeddedServer(directory=station.folder / '.s').url}?db={database}"
            )
            async for key in client.scan_iter():
                kind = b"" if key.endswith(b":sink") else await client.type(key)
                if kind == b"string":
                    found.append(await client.get(key))
                elif kind == b"list":
                    found += await client.lrange(key, 0, -1)
                elif kind == b"hash":
                    found += (await client.hgetall(key)).values()
            await client.aclose()
        return b"\n".join(found).decode("utf-8", "replace")

    held: str = station.run(dump())
    return held


# --- without a secret, or with another -----------------------------------------------------------


def test_a_worker_without_a_secret_runs_what_its_configuration_names(elsewhere):
    spider = "engine_celery.helper_spiders:slow"
    words = ["-m", "skitter", "celery", "worker", "-c", "2", "-l", "INFO", "--spiders", TITLES]
    words += ["--output", f"shelf={elsewhere.folder}/shelf.db"]
    log = elsewhere.folder / "worker.log"
    elsewhere.start(sys.executable, *words, log=log)
    page = elsewhere.page("/about")

    titles = elsewhere.scrape.delay(page, spider=TITLES)
    many = elsewhere.scrape_many([page], out="shelf", job="shelf", delay_s=0)
    refused = [
        elsewhere.scrape.delay(page, spider=spider),
        elsewhere.scrape_many([page], out="shelf.db", job="other"),
        map_reduce([page], elsewhere.summarize, app=elsewhere.app),
    ]

    assert elsewhere.scrape.delay(page).get(timeout=WAIT_S)["status"] == 200
    assert titles.get(timeout=WAIT_S) == [{"title": "About us"}]
    assert many.get(timeout=WAIT_S)["new"] == 1
    for result in refused:
        with pytest.raises(NotAllowed):
            result.get(timeout=WAIT_S)
    until(lambda: status("shelf", app=elsewhere.app).ready)
    assert (elsewhere.folder / "shelf.db").exists()
    assert not (elsewhere.folder / "own").exists()
    assert "SKITTER_SECRET is not set" in log.read_text()


def test_a_crawl_whose_workers_have_another_secret_says_what_to_set(elsewhere):
    elsewhere.worker("-c", "1", SKITTER_SECRET="of-the-workers-0123456789")
    words = ("-m", "skitter", "run", str(SPIDER), "--engine", "celery", "--json")
    log = elsewhere.folder / "run.log"

    crawl = elsewhere.start(
        sys.executable, *words, log=log, SKITTER_SECRET="of-the-caller-0123456789"
    )

    until(lambda: "a caller with the same SKITTER_SECRET" in log.read_text())
    crawl.send_signal(signal.SIGINT)
    crawl.wait(timeout=WAIT_S)
    assert elsewhere.stats("books").done == 0


def test_workers_with_the_same_secret_run_what_any_of_them_was_asked(elsewhere):
    shared = secrets.token_hex(16)
    elsewhere.worker("-c", "2", SKITTER_SECRET=shared)
    app = make_app(
        CelerySettings(where=elsewhere.settings.where, secret=shared, allow_hosts=frozenset())
    )
    page = elsewhere.page("/about?shared")

    mapped = map_reduce([page], app.tasks["skitter.summarize"], app=app, spider=TITLES, delay_s=0)
    together = chord([app.tasks["skitter.scrape"].s(page)])(app.tasks["skitter.summarize"].s())

    assert mapped.get(timeout=WAIT_S)["successful"] == 1
    assert together.get(timeout=WAIT_S)["total"] == 1
    runtime_of(app).close()
    app.close()


def test_the_spec_of_a_service_that_somebody_replaced_is_restored(elsewhere):
    """A spec that was not signed with our secret does not keep callers of `scrape` waiting."""
    shared = secrets.token_hex(16)
    app = make_app(CelerySettings(where=elsewhere.settings.where, secret=shared))
    theirs = signed(JobSpec(job="scrape-titles", kind="scrape", target="x.py"), Secret(b"another"))
    elsewhere.make_job("scrape-titles")
    elsewhere.run(register_job(server_of(elsewhere), theirs))
    elsewhere.worker("-c", "2", SKITTER_SECRET=shared)

    page = app.tasks["skitter.scrape"].delay(elsewhere.page("/about?taken"), spider=TITLES)

    assert page.get(timeout=WAIT_S) == [{"title": "About us"}]
    runtime_of(app).close()
    app.close()


def test_a_file_of_the_caller_is_signed_as_it_was_sent(busy, evil):
    """With the secret any spider may be named: the worker loads this one."""
    busy.crawl.delay(str(evil)).get(timeout=WAIT_S)

    assert was_loaded(evil)
    until(lambda: busy.stats(evil.stem).dead == 1)
