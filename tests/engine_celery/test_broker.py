"""A broker that goes away while a message is sent, and a server that is there and silent."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from skitter.celery import CelerySettings, line, make_app, runtime, status
from skitter.celery.broker import publishing
from skitter.celery.runtime import runtime_of
from skitter.embedded import hold
from skitter.errors import ServerUnreachable
from skitter.settings import Settings


@contextmanager
def suspended(directory):
    """It accepts connections and answers nothing."""
    pid = int((directory / "valkey.pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def in_a_loop(call):
    return call()


@pytest.mark.timeout(60)
def test_callers_of_a_suspended_server_are_told_and_go_on_when_it_does(elsewhere, monkeypatch):
    for module in (line, runtime):
        monkeypatch.setattr(module, "REPLY_S", 0.5)
    elsewhere.make_job("scrape")
    app, scrape, urls = elsewhere.app, elsewhere.scrape, elsewhere.pages(4, "suspended")
    first = scrape.delay(urls[0])
    linked = partial(scrape.apply_async, (urls[1],), link=elsewhere.summarize.s())
    again = partial(scrape.delay, urls[1])
    calls: list[Callable[[], object]] = [
        again,
        linked,
        partial(elsewhere.scrape_many, urls, job="pages"),
        partial(scrape.cancel, first.id),
        lambda: asyncio.run(in_a_loop(again)),
        lambda: asyncio.run(in_a_loop(partial(status, first.id, app=app))),
    ]
    with suspended(elsewhere.folder / ".s"):
        for call in calls:
            runtime_of(app).use_messages(0)
            with pytest.raises(ServerUnreachable, match="check that it runs"):
                call()

    monkeypatch.undo()
    assert status(first.id, app=app).state == "QUEUED"
    elsewhere.worker("-c", "1")
    for result in (first, linked(), scrape.delay(urls[2])):
        assert result.get(timeout=50)["status"] == 200


@pytest.mark.timeout(60)
def test_a_suspended_broker_beside_a_frontier_that_answers(elsewhere, short_dir, monkeypatch):
    monkeypatch.setattr(line, "REPLY_S", 0.2)
    elsewhere.make_job("scrape")
    with hold(short_dir / "broker") as other:
        address = CelerySettings(where=Settings(directory=other.directory)).broker
        app = make_app(elsewhere.settings, broker_url=address)
        with suspended(other.directory), pytest.raises(ServerUnreachable, match="Celery's broker"):
            app.tasks["skitter.scrape_many"]([elsewhere.page("/")], job="pages")
        app.close()


def test_a_channel_that_has_just_lost_its_connection_is_a_broker_that_is_away(server_url):
    app = Celery(broker=server_url.replace("unix://", "redis+socket://"))
    with app.connection_for_write() as connection:
        producer = connection.Producer()
        producer.channel.connection = None
        with pytest.raises(OperationalError, match="connection was lost"), publishing():
            producer.publish({}, routing_key="nowhere", retry=False)
        producer.channel.connection = connection.transport


def test_an_error_of_the_users_is_theirs():
    with pytest.raises(AttributeError), publishing():
        object().client  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError), publishing():
        raise AttributeError("a signal handler of theirs")
