"""Settings and plans, without a worker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from skitter.celery import CelerySettings, Queues, make_app, register, scrape, summarize
from skitter.celery.config import HARD_LIMIT_S, beside
from skitter.celery.jobs import JobSpec
from skitter.celery.runtime import runtime_of
from skitter.celery.scheduling import Capacity, wanted_pumps
from skitter.demo import SPIDER
from skitter.errors import BadOption
from skitter.extras import install
from skitter.frontier.jobs import create_job
from skitter.model import State, Stats
from skitter.settings import ArchiveOptions, Settings, WorkerConfig
from skitter.settings.proxy import make_route
from skitter.trust import make_ours


@pytest.mark.parametrize(
    ("where", "broker", "results"),
    [
        ("redis://h:6379", "redis://h:6379/1", "redis://h:6379/2"),
        ("redis://:pw@h:6379/3", "redis://:pw@h:6379/4", "redis://:pw@h:6379/5"),
        ("rediss://h/0?a=b", "rediss://h/1?a=b", "rediss://h/2?a=b"),
        (
            "unix:///tmp/a%20b.sock",
            "redis+socket:///tmp/a%20b.sock?virtual_host=1",
            "redis+socket:///tmp/a%20b.sock?virtual_host=2",
        ),
    ],
)
def test_broker_and_results_stand_beside_the_frontier(where, broker, results):
    settings = CelerySettings(where=Settings(redis_url=where))

    assert (settings.broker, settings.results) == (broker, results)


def test_the_embedded_server_is_reached_by_its_socket_with_its_password(tmp_path):
    make_ours(tmp_path)
    (tmp_path / "valkey.conf").write_text('requirepass "p/w"\n')
    (tmp_path / "valkey.conf").chmod(0o600)

    url = beside(Settings(directory=tmp_path), 1, "SKITTER_BROKER_URL")

    assert url == f"redis+socket://:p%2Fw@{tmp_path}/valkey.sock?virtual_host=1"


@pytest.mark.parametrize("url", ["redis+cluster://h:1", "redis+sentinel://h:1/main", "redis://h/x"])
def test_what_celery_cannot_use_asks_for_a_broker_of_its_own(url):
    with pytest.raises(BadOption, match="SKITTER_BROKER_URL"):
        make_app(CelerySettings(where=Settings(redis_url=url)))


def test_the_app_is_what_the_guide_promises():
    conf = make_app(CelerySettings(where=Settings(redis_url="redis://h"))).conf

    assert conf.accept_content == ["json"]
    assert (conf.task_serializer, conf.result_serializer) == ("json", "json")
    assert conf.result_expires == 3600
    assert conf.worker_prefetch_multiplier == 1
    assert conf.task_acks_late
    assert conf.task_reject_on_worker_lost
    assert conf.broker_transport_options["visibility_timeout"] > HARD_LIMIT_S
    assert [queue.name for queue in conf.task_queues] == ["http", "browser"]


def test_one_database_for_both_is_warned_of():
    with pytest.warns(UserWarning, match="same database"):
        make_app(CelerySettings(broker_url="redis://h/1", result_backend="redis://h:6379/1"))


def test_an_app_of_a_team_keeps_its_configuration_and_gets_our_tasks():
    app = Celery("theirs", broker="redis://h/5", backend="redis://h/6")
    app.conf.task_default_queue = "work"

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register(app)

    assert app.skitter.settings.queues == Queues(http="work", browser="work")
    assert app.conf.task_acks_late is False
    assert app.tasks["skitter.pump"].acks_late is True
    assert app.tasks["skitter.pump"].time_limit == HARD_LIMIT_S
    assert "skitter.pump" not in Celery("another", set_as_current=False).tasks


def test_tasks_that_were_imported_first_are_those_of_the_app_that_is_registered_later():
    for name in ("one", "two"):
        app = register(Celery(name, broker="redis://h/5", backend="redis://h/6"))

        assert scrape.app is app
        assert scrape.s("http://a.test/").type.app is app
        assert summarize.name == "skitter.summarize"


def stats(waiting: int, state: State = State.RUNNING, leased: int = 1000) -> Stats:
    leased = min(leased, waiting)
    return Stats(job="j", state=state, seen=1, pending=waiting - leased, leased=leased)


@pytest.mark.parametrize(
    ("asked", "requested", "capacity", "waiting", "wanted"),
    [
        (None, None, 4, 10_000, 3),  # one place is left to others
        (None, None, 4, 150, 2),  # as many as the work is worth
        (None, None, 4, 0, 1),
        (None, None, 1, 10_000, 1),
        (None, None, 0, 10_000, 1),  # nobody was heard of yet
        (2, None, 4, 10_000, 2),  # what the caller asked
        (2, 4, 8, 10_000, 4),  # `skitter scale` is later, and wins
        (2, 0, 8, 10_000, 7),  # `skitter scale auto`
        (9, None, 4, 10_000, 4),  # no more than there is capacity for
        (3, None, 0, 10_000, 3),
    ],
)
def test_the_number_of_pumps_follows_request_slots_and_work(
    asked, requested, capacity, waiting, wanted
):
    spec = JobSpec(job="j", pumps=asked)

    assert (
        wanted_pumps(spec, stats(waiting), requested=requested, capacity=Capacity(slots=capacity))
        == wanted
    )


@pytest.mark.parametrize(
    ("leased", "own", "wanted"),
    [
        (0, 0, 1),
        (30, 1, 1),  # its hosts allow no more: one pump carries 64
        (64, 1, 2),
        (128, 2, 4),
        (40, 2, 2),
        (20, 2, 2),  # it stays until a quarter is enough
        (10, 2, 1),
        (1000, 9, 7),
    ],
)
def test_a_job_has_as_many_pumps_as_its_pages_in_flight_fill(leased, own, wanted):
    capacity = Capacity(slots=8, own=own)
    spec, now = JobSpec(job="j"), stats(10_000, leased=leased)

    assert wanted_pumps(spec, now, requested=None, capacity=capacity) == wanted


@pytest.mark.parametrize(
    ("slots", "share", "free"), [(8, 0.5, 4), (4, 0.5, 2), (2, 0.5, 1), (1, 0.5, 0), (8, 0.9, 7)]
)
def test_pumps_take_a_share_of_the_slots(slots, share, free):
    assert Capacity(slots=slots, share=share).free == free


def test_half_of_the_slots_of_a_teams_app_are_for_pumps(monkeypatch):
    def share(app: Any) -> float | None:
        return runtime_of(app).settings.share

    team = register(Celery("team", broker="redis://h/5", backend="redis://h/6"))
    assert (share(team), share(make_app(CelerySettings(broker_url="redis://h/1")))) == (0.5, None)
    monkeypatch.setenv("SKITTER_CELERY_SHARE", "0.25")
    assert share(register(Celery("other", broker="redis://h/5", backend="redis://h/6"))) == 0.25
    monkeypatch.setenv("SKITTER_CELERY_SHARE", "2")
    with pytest.raises(BadOption, match="SKITTER_CELERY_SHARE"):
        CelerySettings()


@pytest.mark.parametrize(
    ("places", "others", "jobs", "free", "crowded"),
    [
        (8, 0, 1, 7, False),
        (8, 2, 2, 5, False),  # what another job leaves
        (8, 7, 2, 3, True),  # it has more than its share
        (4, 2, 3, 1, False),
        (2, 1, 2, 0, True),  # two jobs, and one place for other tasks
        (1, 0, 1, 0, False),  # alone it need not hurry
        (1, 2, 3, 0, True),
    ],
)
def test_jobs_share_all_places_but_one(places, others, jobs, free, crowded):
    capacity = Capacity(slots=places, others=others, jobs=jobs)

    assert (capacity.free, capacity.is_oversubscribed) == (free, crowded)


def test_one_pump_waits_while_a_job_is_paused():
    spec = JobSpec(job="j", pumps=5)

    assert (
        wanted_pumps(spec, stats(900, State.PAUSED), requested=None, capacity=Capacity(slots=9))
        == 1
    )


def test_without_the_extra_its_install_command_is_told(tmp_path):
    """As if Celery were not installed: a module of that name that cannot be found."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] == 'celery':\n"
        "            raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "skitter", "celery", "worker", "--redis", "redis://localhost:1"],
        env={"PYTHONPATH": str(tmp_path), "PATH": str(Path(sys.executable).parent)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert install("celery") in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


async def test_a_worker_takes_its_proxies_from_its_own_file(server, job, tmp_path, monkeypatch):
    await create_job(server, job)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "skitter.toml").write_text('[[proxy]]\nname = "ours"\nkind = "direct"\n')
    stranger = WorkerConfig(proxies=(make_route({"name": "theirs", "url": "http://evil:1"}),))
    settings = CelerySettings(where=Settings(redis_url="redis://h"), spiders=(str(SPIDER),))
    runtime = runtime_of(make_app(settings))
    monkeypatch.setattr(runtime, "server", lambda: asyncio.sleep(0, server))

    spec = JobSpec(job=job, target=str(SPIDER), config=stranger)
    warm = await runtime._open_worker(spec)

    async with warm.stack:
        fetcher: Any = warm.first.attempts.parts.fetcher
        assert list(fetcher.routes.exits) == ["ours"]


async def test_a_worker_keeps_pages_where_its_own_file_says(server, job, tmp_path, monkeypatch):
    await create_job(server, job)
    monkeypatch.chdir(tmp_path)
    stranger = WorkerConfig(archive=ArchiveOptions(keep=True, folder=tmp_path / "theirs"))
    settings = CelerySettings(where=Settings(redis_url="redis://h"), spiders=(str(SPIDER),))
    runtime = runtime_of(make_app(settings))
    monkeypatch.setattr(runtime, "server", lambda: asyncio.sleep(0, server))
    spec = JobSpec(job=job, target=str(SPIDER), config=stranger)

    warm = await runtime._open_worker(spec)
    async with warm.stack:
        assert warm.first.delivery.archived is None

    (tmp_path / "skitter.toml").write_text('[archive]\nkeep = true\nfolder = "ours"\n')
    warm = await runtime._open_worker(spec)
    async with warm.stack:
        archived = warm.first.delivery.archived
        assert archived
        assert archived.writer.folder.name == "ours"


def test_archive_with_celery_is_refused_in_a_sentence():
    words = ["run", str(SPIDER), "--engine", "celery", "--archive"]
    done = subprocess.run(
        [sys.executable, "-m", "skitter", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "set archive.keep and archive.folder" in " ".join(done.stderr.split())
