"""What stands around the workers: Flower, web applications, other apps, other brokers."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from needs import need
from skitter.celery import map_reduce, status
from skitter.celery.config import beside
from skitter.embedded import EmbeddedServer
from waiting import PATIENCE_S, until

pytestmark = pytest.mark.timeout(300)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def cpu_s(pid: int) -> float:
    """What a process has had of the processors: proc(5), utime and stime."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def answer(url: str) -> Any:
    try:
        reply = httpx.get(url, timeout=10)
    except httpx.HTTPError:
        return None
    return reply.json() if reply.status_code == 200 else None


def test_flower_lists_the_workers_and_their_tasks(busy):
    port = free_port()
    words = ("celery", "flower", f"--port={port}", "--address=127.0.0.1")
    busy.start(
        sys.executable, "-m", "skitter", *words,
        log=busy.folder / "flower.log", FLOWER_UNAUTHENTICATED_API="true",
    )  # fmt: skip

    workers = until(lambda: answer(f"http://127.0.0.1:{port}/api/workers?refresh=1"))
    [(name, facts)] = workers.items()
    assert name.startswith("w")
    assert "skitter.pump" in facts["registered"]
    headers = {"Authorization": "Bearer to-ken", "Accept": "text/html"}
    busy.scrape.delay(busy.page("/about?flower"), headers=headers).get(timeout=PATIENCE_S)

    def listed() -> str:  # events come a moment after the result
        tasks = answer(f"http://127.0.0.1:{port}/api/tasks") or {}
        return str(tasks) if "skitter.scrape" in {one["name"] for one in tasks.values()} else ""

    tasks = until(listed)
    assert "text/html" in tasks
    assert "to-ken" not in tasks


def test_a_team_registers_our_tasks_with_its_own_app(station):
    where = station.settings.where
    databases = {
        "TEAM_BROKER": beside(where, 5, ""),
        "TEAM_BACKEND": beside(where, 6, ""),
    }
    log = station.folder / "team.log"
    words = ("-m", "celery", "-A", "engine_celery.helper_team", "worker", "-c", "2", "-l", "INFO")
    worker = station.start(
        sys.executable, *words, "--without-mingle", "--without-gossip", log=log, **databases
    )
    until(lambda: b" ready." in log.read_bytes() or worker.poll() is not None)
    program = (
        "from engine_celery.helper_team import count_words\n"
        "from skitter.celery import map_reduce, scrape\n"
        "import sys\n"
        "print(scrape.delay(sys.argv[1]).get(timeout=600)['status'])\n"
        "print(map_reduce(sys.argv[1:], count_words, delay_s=0).get(timeout=600) > 5)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *station.pages(3, "team")],
        env=station.environment | databases,
        cwd=station.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.stdout.split() == ["200", "True"], done.stderr + log.read_text()


@pytest.mark.chaos
def test_a_web_application_answers_at_once_while_a_slow_page_is_at_work(station):
    """The worker has one place, and that is taken until all of them have their answer."""
    station.make_job("scrape-slow-browser")
    gate = station.folder / "gate"
    station.worker("-c", "1", SLOW_UNTIL=str(gate))
    port = free_port()
    words = ("-m", "uvicorn", "engine_celery.helper_web:api", "--port", str(port))
    application = station.start(sys.executable, *words, log=station.folder / "web.log")
    web = f"http://127.0.0.1:{port}/pages"
    until(lambda: answer(f"{web}/nothing"))
    slow = {"url": station.page("/about?slow"), "browser": True}
    slow["spider"] = "engine_celery.helper_spiders:slow"

    with httpx.Client(timeout=PATIENCE_S) as user:
        first = user.post(web, params=slow).json()["id"]
        until(lambda: station.stats("scrape-slow-browser").leased == 1)
        before_s = cpu_s(application.pid)
        for url in station.pages(200, "web"):
            user.post(web, params={"url": url}).raise_for_status()
        # Not the clock's time, which is the machine's affair.
        assert (cpu_s(application.pid) - before_s) / 200 < 0.020

        assert station.stats("scrape-slow-browser").leased == 1
        assert user.get(f"{web}/{first}").json() == {"state": "QUEUED"}
    gate.touch()
    until(lambda: status(first, app=station.app).state == "SUCCESS")


@pytest.fixture
def rabbitmq(short_dir):
    program = need("rabbitmq-server")
    port, folder = free_port(), short_dir / "rabbit"
    folder.mkdir()
    environment = os.environ | {
        "HOME": str(folder),
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_NODENAME": f"skitter{port}@localhost",
        "RABBITMQ_MNESIA_BASE": str(folder),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }
    log = folder / "rabbit.log"
    with log.open("wb") as file:
        broker = subprocess.Popen(
            [program], env=environment, stdout=file, stderr=file, start_new_session=True
        )
    until(lambda: b"completed with" in log.read_bytes() or broker.poll() is not None)
    assert broker.poll() is None, log.read_text()
    yield f"amqp://guest:guest@127.0.0.1:{port}//"
    os.killpg(broker.pid, 9)
    broker.wait()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.chaos
def test_rabbitmq_as_the_broker(station, rabbitmq):
    station.environment["SKITTER_BROKER_URL"] = rabbitmq
    server = EmbeddedServer(directory=station.folder / ".s")
    station.environment["SKITTER_REDIS_URL"] = server.url  # its broker is elsewhere
    station.environment["SKITTER_SECRET"] = secrets.token_hex(16)
    worker = station.worker("-c", "2")
    program = (
        "import subprocess, sys, time\n"
        "from celery import chord\n"
        "from skitter.celery import map_reduce, scrape, scrape_many, summarize\n"
        "pages = sys.argv[1:]\n"
        "found = chord(scrape.s(url) for url in pages[:3])(summarize.s())\n"
        "print(found.get(timeout=600)['total'])\n"
        "print(scrape_many(pages, job='many', delay_s=0).get(timeout=600)['new'])\n"
        "print(map_reduce(pages, summarize, delay_s=0).get(timeout=600)['successful'])\n"
        "from skitter.celery import app, status\n"
        "from skitter.celery.scheduling import count_waiting\n"
        "pause = [sys.executable, '-m', 'skitter', 'pause', 'scrape']\n"
        "subprocess.run(pause, stdout=2, check=True)\n"
        "held = scrape.delay(pages[0])\n"
        "while status(held.id).pending != 1: time.sleep(0.1)\n"
        "held.revoke()\n"
        "held.get(timeout=600, propagate=False)\n"
        "before = count_waiting(app)\n"
        "summarize.apply_async(([],), queue='browser')\n"
        "print(held.state, count_waiting(app) >= before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *station.pages(40, "rabbit")],
        env=station.environment,
        cwd=station.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.stdout.split() == ["3", "40", "40", "REVOKED", "True"], done.stderr
    until(lambda: station.stats("many").crawled)
    assert not station.audit("many").problems
    station.end(worker)


def test_the_result_of_a_reducer_is_there_for_whoever_asks_later(busy):
    result = map_reduce(busy.pages(3, "later"), busy.summarize, app=busy.app, delay_s=0)

    result.get(timeout=PATIENCE_S)

    assert status(result.id, app=busy.app).state == "SUCCESS"


GREENLETS = """
from gevent import monkey
monkey.patch_all()
import sys
import gevent
from celery.exceptions import TaskRevokedError
from skitter.celery import app, scrape, status
from skitter.celery.runtime import runtime_of
from skitter.errors import UsageError

found = [scrape.delay(url) for url in sys.argv[1:]]
print(*[one.get(timeout=600)["status"] for one in found])
looks = [gevent.spawn(status, one.id) for one in found]
print(*[one.get().state for one in looks], status("scrape").job)
late = scrape.apply_async((sys.argv[1],), countdown=3600)
scrape.cancel(late.id)
try:
    runtime_of(app).run(runtime_of(app).server())
except UsageError as error:
    print(error)
"""


def test_a_process_of_greenlets_calls_and_looks_and_is_told_what_it_cannot_do(busy):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", GREENLETS, *busy.pages(3, "green")],
        env=busy.environment,
        cwd=busy.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    pages, states, refusal = done.stdout.splitlines() or [done.stderr, "", ""]
    assert pages == "200 200 200"
    assert states == "SUCCESS SUCCESS SUCCESS scrape"
    assert "runs on gevent" in refusal


def test_those_who_watch_events_see_what_became_of_each_task_and_no_housekeeping(busy):
    """What Flower shows is made of these."""
    seen = busy.app.events.State()

    def listen() -> None:
        """Without a break: nobody keeps what is sent between two captures."""
        receiver.capture(limit=None, timeout=None, wakeup=False)

    def state(task_id):
        return seen.tasks[task_id].state if task_id in seen.tasks else None

    connection = busy.app.connection_for_read()
    receiver = busy.app.events.Receiver(connection, handlers={"*": seen.event})
    listener = threading.Thread(target=listen)
    listener.start()
    try:
        until(lambda: seen.workers)  # its heartbeat
        stubborn = "engine_celery.helper_spiders:stubborn"
        good = busy.scrape.delay(busy.page("/about?event"))
        bad = busy.scrape.delay(busy.page("/nothing?event"))
        tried = busy.scrape.delay(busy.failing.url, spider=stubborn)
        until(lambda: good.ready() and bad.ready() and tried.ready())
        busy.skitter("pause", "scrape")
        held = busy.scrape.delay(busy.page("/about?held"))
        until(lambda: status(held.id, app=busy.app).pending == 1)
        held.revoke()
        until(lambda: status(held.id, app=busy.app).pending == 0)
        busy.skitter("resume", "scrape")
        wanted = {good: "SUCCESS", bad: "FAILURE", tried: "FAILURE", held: "REVOKED"}
        until(lambda: wanted == {one: state(one.id) for one in wanted})
        assert seen.tasks[tried.id].retried
        assert "404" in seen.tasks[bad.id].exception
        names = {task.name for _, task in seen.tasks_by_timestamp()}
        assert {"skitter.watch", "skitter.cancel", "skitter.finish"}.isdisjoint(names)
    finally:
        receiver.should_stop = True
        listener.join()
        connection.release()
