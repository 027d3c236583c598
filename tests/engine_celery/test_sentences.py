"""Mistakes of users: a sentence in the worker's log and at the caller, and no stack trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_celery.test_crawls import BOOKS
from engine_celery.test_pumps import registered
from skitter.celery import CelerySettings, make_app
from skitter.celery.tasks import in_a_sentence
from skitter.errors import BadJobName, JobMismatch, NotAllowed, ServerFull, SpiderError, UsageError
from skitter.frontier.items import count
from skitter.frontier.records.outputs import claim_sink
from skitter.model import Request
from skitter.settings import Settings
from waiting import PATIENCE_S, until

pytestmark = pytest.mark.timeout(300)
GONE = "nowhere.py"


def log_of(station) -> str:
    return "".join(one.read_text() for one in Path(station.folder).glob("worker-*.log"))


def test_a_mistake_that_a_pump_meets_is_one_line_of_the_workers_log(station):
    station.make_job("j")
    station.on_job("j", lambda frontier: frontier.add([Request(url="http://a.test/")]))
    registered(station, "j", kind="pages", target=GONE)

    station.worker("-c", "1")

    line = until(lambda: [one for one in log_of(station).splitlines() if GONE in one])[0]
    assert "ERROR" in line  # Celery shows no INFO by default
    assert "skitter.pump failed: there is no file nowhere.py" in line
    assert "Traceback" not in log_of(station)


def test_a_mistake_that_a_worker_finds_is_one_line_there_and_an_error_at_the_caller(station):
    station.worker("-c", "1")
    station.make_job("books")
    station.on_job("books", lambda frontier: claim_sink(frontier, "/first.db"))
    station.on_job("books", lambda frontier: count(frontier, stored=1))

    with pytest.raises(UsageError, match=r"the items of job 'books' go to /first\.db") as caught:
        station.crawl.delay(BOOKS, out="second.db").get(timeout=PATIENCE_S)

    assert type(caught.value) is UsageError
    until(lambda: "Name that output" in log_of(station))
    assert log_of(station).count("Name that output") == 1
    assert "Traceback" not in log_of(station)


class _Named:
    name = "task"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SpiderError("it does not load"), SpiderError),
        (BadJobName("no name"), UsageError),
        (JobMismatch("j", "a", stored=1, asked=2), UsageError),
    ],
)
def test_an_error_becomes_one_that_its_message_alone_makes(error, kind):
    def fail(_: object) -> None:
        raise error

    with pytest.raises(UsageError) as caught:
        in_a_sentence(fail)(_Named())

    assert type(caught.value) is kind
    assert str(type(caught.value)(*caught.value.args)) == str(error)


def test_an_error_that_is_no_mistake_of_a_user_keeps_its_sentence():
    def fail(_: object) -> None:
        raise ServerFull("redis://a.test")

    with pytest.raises(Exception, match="has no memory left") as caught:
        in_a_sentence(fail)(_Named())

    assert str(type(caught.value)(*caught.value.args)) == str(ServerFull("redis://a.test"))


@pytest.mark.parametrize(
    ("secret", "remedy"), [("s" * 64, "workers do not sign what they send"), (None, "set SKITTER_")]
)
def test_the_remedy_for_a_missing_signature_is_not_a_secret_that_is_set(tmp_path, secret, remedy):
    where = Settings(redis_url="redis://localhost:1/0", directory=tmp_path)
    app = make_app(CelerySettings(where=where, secret=secret, spiders=(BOOKS,)))
    with pytest.raises(NotAllowed, match=remedy):
        app.tasks["skitter.crawl"]._read({"spider": BOOKS, "obey_robots": False}, signed=False)
