"""The log: records wait for a heartbeat, a flood is cut, and files have one line a record."""

from __future__ import annotations

import json
import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from skitter.errors import UsageError
from skitter.observe.logs import KEPT, PAGE_URL, ClusterLog, open_log
from skitter.settings import LogOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

mine = logging.getLogger("my.spider")


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Loggers as a new process has them."""
    root, ours = logging.getLogger(), logging.getLogger("skitter")
    before = root.level, ours.level
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.NOTSET)
    yield
    root.setLevel(before[0])
    ours.setLevel(before[1])


@contextmanager
def on_page(url: str) -> Iterator[None]:
    before = PAGE_URL.set(url)
    yield
    PAGE_URL.reset(before)


def texts(log: ClusterLog) -> list[str]:
    return [line.text for line in log.waiting()]


def test_what_a_logger_of_the_user_says_has_level_and_page():
    log = ClusterLog()
    with open_log(LogOptions()), log.attached(), on_page("https://u:secret@a.test/x"):
        mine.info("found %d", 3)
        mine.debug("not wanted")
        logging.getLogger("skitter.page").warning("hm")
    assert [line[1:4] for line in log.waiting()] == [
        ("info", "found 3", "https://***@a.test/x"),
        ("warning", "hm", "https://***@a.test/x"),
    ]


def test_lines_stay_until_the_server_has_them():
    log = ClusterLog()
    for n in range(4):
        log("warning" if n % 2 else "info", str(n))
    first = log.waiting()
    log("info", "later")
    log.sent(first[2])
    assert texts(log) == ["3", "later"]


def test_a_flood_keeps_the_newest_drowns_no_warning_and_is_counted():
    log = ClusterLog()
    log("warning", "important")
    for n in range(KEPT + 7):
        log("info", str(n))
    lines = log.waiting()
    assert len(lines) == KEPT + 2
    assert lines[0].text == "important"
    assert lines[1].text == "7"
    assert lines[-1].text == "7 lines were dropped from the log: too many at once"
    log.sent(lines[-1])
    assert log.waiting() == []


def test_threads_may_log_while_lines_are_taken():
    def talk() -> None:
        for _ in range(400):
            mine.info("x")

    log = ClusterLog()
    with open_log(LogOptions()), log.attached():
        threads = [threading.Thread(target=talk) for _ in range(4)]
        for thread in threads:
            thread.start()
        taken = 0
        while any(thread.is_alive() for thread in threads) or log.waiting():
            lines = log.waiting()
            taken += sum(line.text == "x" for line in lines)
            if lines:
                log.sent(lines[-1])
    assert taken <= 1600
    assert taken > 0


def test_two_jobs_in_a_process_have_each_their_own_lines():
    one, other = ClusterLog(), ClusterLog()

    def talk() -> None:
        other.own()
        mine.info("of the other")

    with open_log(LogOptions()), one.attached(), other.attached():
        one("info", "of one")
        thread = threading.Thread(target=talk)
        thread.start()
        thread.join()
        mine.info("of nobody")
    assert texts(one) == ["of one", "of nobody"]
    assert texts(other) == ["of the other", "of nobody"]


def test_an_engine_is_heard_only_when_something_is_wrong():
    log = ClusterLog()
    with open_log(LogOptions()), log.attached():
        logging.getLogger("scrapy.core").info("Spider opened")
        logging.getLogger("celery.worker").error("cannot connect")
    assert texts(log) == ["cannot connect"]


def test_an_exception_is_named():
    log = ClusterLog()
    with log.attached():
        try:
            raise ValueError("no price")
        except ValueError:
            mine.exception("a book")
    assert texts(log) == ["a book: ValueError: no price"]


def test_the_level_is_that_of_all_loggers_and_of_what_costs_anything():
    with open_log(LogOptions(level="warning")):
        log = ClusterLog()
        log("info", "before it is attached")
    with open_log(LogOptions(level="warning")), log.attached():
        assert not mine.isEnabledFor(logging.INFO)
        assert not logging.getLogger("skitter.page").isEnabledFor(logging.INFO)
        log("info", "started")
        log("warning", "hm")
    assert texts(log) == ["hm"]


def test_with_debug_everything_is_there():
    with open_log(LogOptions(level="debug")):
        log = ClusterLog()
        with log.attached():
            mine.debug("x")
    assert texts(log) == ["x"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_file_has_a_line_for_each_record(form, tmp_path: Path):
    file = tmp_path / "skitter.log"
    with open_log(LogOptions(file=file, format=form)), on_page("https://a.test/x"):
        mine.info("found %s", "postgresql://u:secret@h/d")
        mine.debug("not wanted")
    (line,) = file.read_text().splitlines()
    assert "secret" not in line
    if form == "json":
        record = json.loads(line)
        assert (record["level"], record["logger"], record["url"], record["text"]) == (
            "info", "my.spider", "https://a.test/x", "found postgresql://***@h/d",
        )  # fmt: skip
    else:
        assert "INFO" in line
        assert "my.spider: found postgresql://***@h/d  https://a.test/x" in line


def test_a_file_that_cannot_be_written_is_a_mistake_of_the_user(tmp_path: Path):
    with (
        pytest.raises(UsageError, match="the log cannot be written to"),
        open_log(LogOptions(file=tmp_path / "nowhere" / "x.log")),
    ):
        pass


def test_an_outage_that_is_noticed_again_and_again_is_one_line_at_its_own_time():
    """351 of 393 lines repeated one; all had the time at which the server was back."""
    log = ClusterLog()
    for _ in range(350):
        log("warning", "Redis does not answer: results are kept")
    log("warning", "another")
    log("info", "a page")
    log("info", "a page")
    lines = log.waiting()
    assert [line.times for line in lines] == [350, 1, 1, 1]
    first = lines[0]._replace(at=100.0, last_at=220.0)
    level, text, _, at = first.entry(now=230.0, server_now=1000.0)
    assert (level, at) == ("warning", 870.0)
    assert text == "Redis does not answer: results are kept (said 350 times in 2 min)"
