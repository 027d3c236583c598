"""What those who listen hear of a Redis server that goes and comes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

import pytest

from chaos.rig import PrivateServer
from server.test_events import first, listening
from skitter.frontier.transport.connection import Server, connect
from skitter.frontier.workers import log
from skitter.server import channels, presence
from waiting import Child, until_async


@pytest.fixture
def private() -> Iterator[PrivateServer]:
    server = PrivateServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
async def server(private: PrivateServer) -> AsyncIterator[Server]:
    async with connect(private.url) as connected:
        yield connected


async def test_a_stream_outlives_the_redis_server_and_says_so(web, private, frontier, job, caplog):
    async with listening(web, job) as told:
        await first(told, "overview")
        private.kill()
        assert (await first(told, "away")).data["detail"]
        await asyncio.to_thread(private.start)
        await first(told, "back")
        await log(frontier, "info", "w", "here again")

        assert (await first(told, "log")).data["text"] == "here again"
    away, back = [one.getMessage() for one in caplog.records if one.name == "skitter.server"]
    assert "UTC: " in away
    assert re.search(r"UTC: Redis is back after \d+ s\.$", back)


@pytest.fixture
def send(private: PrivateServer) -> Iterator[Callable[[signal.Signals], None]]:
    """A signal to the server. One that is stopped keeps its connections, and answers nothing."""
    pid = int((private.home.directory / "valkey.pid").read_text())
    yield partial(os.kill, pid)
    os.kill(pid, signal.SIGCONT)


async def test_a_stopped_redis_is_told_at_once_whatever_the_reader_waits_for(
    web, private, frontier, job, send, monkeypatch
):
    monkeypatch.setattr(channels, "EVERY_S", 1000.0)  # the reader sleeps
    async with listening(web, job) as told:
        await first(told, "overview")
        send(signal.SIGSTOP)
        away = (await first(told, "away")).data["detail"]
        assert away == "Redis does not answer: the log of `skitter serve` says more."
        send(signal.SIGCONT)
        await first(told, "back")


@pytest.mark.parametrize(
    "what",
    [
        ("GET", "api/jobs/{job}", None),
        ("POST", "api/jobs/{job}/pause", {}),
        ("POST", "api/jobs/{job}/urls", {"urls": ["http://a.test/"]}),
        ("GET", "healthz", None),
    ],
)
async def test_calls_under_way_and_later_ones_hear_that_redis_is_away(
    web, site, frontier, job, send, what
):
    method, path, body = what
    ask = partial(web.request, method, path.format(job=job), json=body)
    assert (await ask()).is_success
    send(signal.SIGSTOP)
    under_way = await ask()
    assert site.presence.away
    began = time.monotonic()
    later = await ask()
    took_s = time.monotonic() - began

    for answer in (under_way, later):
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "2"
        says = answer.json()["detail"]
        assert says == "Redis does not answer: the log of `skitter serve` says more."
    assert took_s < presence.LATE_S  # it is known, and not tried again


async def test_who_comes_while_redis_is_away_is_let_in_and_told(web, site, frontier, job, send):
    assert (await web.get("api/me")).is_success
    send(signal.SIGSTOP)
    assert (await web.get(f"api/jobs/{job}")).status_code == 503

    assert (await web.get("api/me")).json()["name"] == "a test"
    async with listening(web, job) as told:
        assert (await anext(told)).name == "away"


async def test_metrics_go_on_while_redis_is_away_and_say_how_old_they_are(web, private, frontier):
    """Prometheus drops pending alerts when series end."""
    before = (await web.get("metrics")).text
    assert "\nskitter_server_up 1\n" in before
    depth = f'skitter_queue_depth{{crawl="{frontier.job}",state="pending"}} 0'
    assert depth in before
    private.kill()

    async def is_away() -> str:
        answer = await web.get("metrics")
        assert answer.status_code == 200
        return answer.text if "\nskitter_server_up 0\n" in answer.text else ""

    after = await until_async(is_away)
    assert depth in after
    [read_at] = re.findall(r"(?m)^skitter_figures_timestamp_seconds (\S+)$", after)
    assert f"skitter_figures_timestamp_seconds {read_at}" in before or float(read_at) > 0
    for name in ("server_memory_bytes", "server_writes_ok"):
        assert f'\nskitter_{name}{{node="0"}} ' in after


def test_status_says_what_it_waits_for(private, send):
    """It was silent for 30 s."""
    send(signal.SIGSTOP)
    words = [sys.executable, "-m", "skitter", "status", "--redis", private.url]
    with Child(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as status:
        assert status.stderr
        assert status.stderr.readline() == f"Waiting for {private.url} ...\n"
        send(signal.SIGCONT)
        assert status.wait() == 0
