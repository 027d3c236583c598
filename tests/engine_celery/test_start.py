"""How workers start, refuse to start, and end when a page holds them up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine_celery.conftest import HERE
from engine_celery.test_around import free_port
from skitter.celery import status
from skitter.celery.config import beside
from skitter.frontier.dead import dead_letters
from skitter.model import Request
from waiting import until

pytestmark = pytest.mark.timeout(300)
WAIT_S = 60
BLOCKING = "engine_celery.helper_spiders:blocking"


def start(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Until it ends by itself."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith("SKITTER_")}
    paths = {"PYTHONPATH": str(HERE.parent), "SKITTER_DIR": str(folder / ".s")}
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=usual | paths | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        ("skitter", "celery", "worker", "--pool=eventlet"),
        ("celery", "-A", "skitter.celery", "worker", "-P", "gevent"),
    ],
)
def test_a_pool_that_cannot_fetch_is_refused_before_there_is_a_server(tmp_path, words):
    done = start(tmp_path, *words)

    assert done.returncode == 2, done.stderr
    assert "-P threads" in done.stderr
    assert "register(app, CelerySettings(queues=" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / ".s" / "valkey.sock").exists()


def test_a_worker_of_other_queues_may_have_any_pool_and_needs_no_frontier(station):
    team = {"TEAM_BROKER": beside(station.settings.where, 5, ""), "TEAM_BACKEND": "rpc://"}
    own = {"SKITTER_DIR": str(station.folder / "own")}  # the broker is not its embedded server
    words = ("-m", "celery", "-A", "engine_celery.helper_team", "worker", "-l", "INFO")
    log = station.folder / "emails.log"

    worker = station.start(
        sys.executable, *words, "-P", "gevent", "-Q", "emails", log=log, **team, **own
    )

    until(lambda: b" ready." in log.read_bytes() or worker.poll() is not None)
    assert worker.poll() is None, log.read_text()
    assert not (station.folder / "own").exists()
    station.end(worker)


@pytest.mark.parametrize(
    "words",
    [
        ("celery", "-A", "engine_celery.helper_team", "worker"),
        ("skitter", "celery", "worker"),
    ],
)
def test_a_worker_that_cannot_know_where_its_frontier_is_refuses_to_start(tmp_path, words):
    broker = "amqp://guest:pass-word@127.0.0.1:9//"
    brokers = {"TEAM_BROKER": broker, "TEAM_BACKEND": "rpc://", "SKITTER_BROKER_URL": broker}

    done = start(tmp_path, *words, **brokers)

    assert done.returncode == 2, done.stderr
    assert "set SKITTER_REDIS_URL" in done.stderr
    assert "pass-word" not in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / ".s").exists()


def test_without_a_word_the_frontier_of_two_machines_is_on_their_broker(station):
    """Each has a folder of its own; before, each had a server of its own in it."""
    port = free_port()
    station.skitter("down")
    assert station.skitter("up", "--port", str(port)).returncode == 0
    team = {
        "TEAM_BROKER": f"redis://127.0.0.1:{port}/5",
        "TEAM_BACKEND": f"redis://127.0.0.1:{port}/6",
    }
    words = ["-m", "celery", "-A", "engine_celery.helper_team", "worker", "-c", "1", "-l", "INFO"]
    words += ["--without-mingle", "--without-gossip"]
    logs = [station.folder / f"{name}.log" for name in ("one", "two")]
    for log in logs:
        own = {"SKITTER_DIR": str(log.with_suffix(".d"))}
        station.start(sys.executable, *words, "-n", log.stem, log=log, **team, **own)
    until(lambda: all(b" ready." in log.read_bytes() for log in logs))

    program = (
        "from engine_celery.helper_team import app\n"
        "from skitter.celery import scrape\n"
        "import sys\n"
        "pages = [scrape.delay(url) for url in sys.argv[1:]]\n"
        "print(*[page.get(timeout=600)['status'] for page in pages])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *station.pages(3, "two")],
        env=station.environment | team | {"SKITTER_DIR": str(station.folder / "caller")},
        cwd=station.folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.stdout.split() == ["200"] * 3, done.stderr
    assert not list(station.folder.glob("*.d"))
    assert not (station.folder / "caller").exists()


# --- a page that holds up its process ------------------------------------------------------------


def dead_urls(station, job: str) -> list[str]:
    async def read(frontier) -> list[str]:
        return [letter.url async for letter in dead_letters(frontier)]

    found: list[str] = station.on_job(job, read)
    return found


def test_a_page_that_holds_up_its_process_ends_that_and_is_dead_after_three(station):
    """The others are fetched, by processes that Celery starts again."""
    worker = station.worker("-c", "2", SKITTER_STUCK_S="2", BLOCK_S="600", BLOCK_ON="poison")
    urls = [*station.pages(20, "innocent"), station.page("/about?poison")]
    options = {"job": "stuck", "spider": BLOCKING, "lease_s": 4, "delay_s": 0}

    station.scrape_many(urls, **options, max_in_flight=50).get(timeout=WAIT_S)

    until(lambda: status("stuck", app=station.app).ready, deadline_s=150)
    assert dead_urls(station, "stuck") == [urls[-1]]
    assert station.stats("stuck").done == 20
    assert worker.poll() is None
    log = "".join(one.read_text() for one in station.folder.glob("worker-*.log"))
    assert "Timeout (0:00:02)!" in log
    assert "helper_spiders.py" in log
    assert not station.audit("stuck").problems


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_where_the_process_is_the_worker_that_ends_as_a_whole(station, pool):
    """With an exit code that makes systemd start it again; the page counts a loss."""
    worker = station.worker("-P", pool, SKITTER_STUCK_S="2", BLOCK_S="600")
    station.make_job("stuck")
    page = Request(url=station.page("/about?poison"))
    station.on_job("stuck", lambda frontier: frontier.add([page]))

    station.scrape_many([page.url], job="stuck", spider=BLOCKING, lease_s=3, delay_s=0)

    assert worker.wait(timeout=WAIT_S) == 1
    station.worker("-c", "1")
    until(lambda: station.stats("stuck").lost >= 1)


def test_the_defaults_of_a_team_for_its_own_tasks_are_not_ours(station):
    """Each of these alone kept a page from coming back, or let it come back as nothing."""
    odd = {
        "task_ignore_result": True,
        "task_default_rate_limit": "1/h",
        "task_annotations": {"*": {"rate_limit": "1/h", "ignore_result": True, "acks_late": False}},
        "task_compression": "gzip",
        "result_compression": "gzip",
        "task_serializer": "yaml",
        "task_acks_on_failure_or_timeout": False,
        "task_track_started": True,
        "task_default_priority": 3,
        "task_store_errors_even_if_ignored": True,
        "result_extended": False,
    }
    where = station.settings.where
    team = {"TEAM_BROKER": beside(where, 5, ""), "TEAM_BACKEND": beside(where, 6, "")}
    team |= {"TEAM_CONF": json.dumps(odd)}
    log = station.folder / "team.log"
    words = ("-m", "celery", "-A", "engine_celery.helper_team", "worker", "-c", "2", "-l", "INFO")
    worker = station.start(sys.executable, *words, "--without-mingle", log=log, **team)
    until(lambda: b" ready." in log.read_bytes() or worker.poll() is not None)
    assert worker.poll() is None, log.read_text()
    program = (
        "from engine_celery.helper_team import app\n"
        "from celery import chord\n"
        "from skitter.celery import scrape, scrape_many, summarize\n"
        "import sys\n"
        "urls = sys.argv[1:]\n"
        "print(*[one.get(timeout=600)['status'] for one in [scrape.delay(url) for url in urls]])\n"
        "print(scrape_many(urls, job='many', delay_s=0).get(timeout=600)['new'])\n"
        "print(chord(scrape.s(url) for url in urls)(summarize.s()).get(timeout=600)['total'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *station.pages(3, "odd")],
        env=station.environment | team,
        cwd=station.folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.stdout.split() == ["200", "200", "200", "3", "3"], done.stderr + log.read_text()
    station.end(worker)


@pytest.mark.parametrize(
    ("conf", "words"),
    [({"task_always_eager": True}, "task_always_eager"), ({"accept_content": ["yaml"]}, "'json'")],
)
def test_what_cannot_work_is_refused_by_a_worker_at_its_start(tmp_path, conf, words):
    team = {"TEAM_BROKER": "redis://127.0.0.1:9/0", "TEAM_BACKEND": "redis://127.0.0.1:9/1"}

    done = start(
        tmp_path, "celery", "-A", "engine_celery.helper_team", "worker", **team,
        TEAM_CONF=json.dumps(conf),
    )  # fmt: skip

    assert done.returncode != 0
    assert words in done.stderr
