"""Pages are tried in a process that shares nothing with the one that asks."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from skitter.fetch.html import markup
from skitter.fetch.html.markup import can_be_parsed
from skitter.spider import Spider
from skitter.spider.page import Page, TooComplex
from skitter.spider.run import HandlerError, run_handler
from waiting import until

UNUSUAL = "<p>text<br>" * 5000
HOSTILE = "<div>" * 200_000


def helper_pid() -> int:
    assert can_be_parsed(UNUSUAL)
    process = markup._helper()._process
    assert process is not None
    return process.pid


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_whole_group_does_not_spoil_a_trial(number):
    pid = helper_pid()

    os.kill(pid, number)

    assert can_be_parsed(UNUSUAL)
    assert helper_pid() == pid


def test_a_helper_that_was_killed_is_replaced_and_no_zombie_stays():
    pid = helper_pid()

    os.kill(pid, signal.SIGKILL)

    assert helper_pid() != pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("hostile", [HOSTILE, "<br>" * 2_000_000], ids=["slow", "large"])
def test_a_page_that_is_refused_costs_the_helper_and_no_other_page(hostile):
    pid = helper_pid()

    assert not can_be_parsed(hostile)
    assert helper_pid() != pid


def test_pages_are_tried_by_one_helper_each_within_limits_of_its_own():
    pid, large = helper_pid(), "<p>text" * 100_000

    assert all(can_be_parsed(large) for _ in range(20))  # more than a second, and more memory
    assert helper_pid() == pid


class Interrupted(Exception):
    """Raised by a signal handler, as Ctrl-C and Celery's time limits do."""


def test_an_answer_that_was_not_waited_for_is_not_that_to_the_next_page():
    helper_pid()

    def interrupt(*_):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupted):
            can_be_parsed(HOSTILE)
    finally:
        signal.signal(signal.SIGALRM, before)

    assert can_be_parsed(UNUSUAL)
    assert not can_be_parsed(HOSTILE)


def test_a_helper_that_is_suspended_is_replaced(monkeypatch):
    pid = helper_pid()
    monkeypatch.setattr(markup, "LONGEST_S", 1.0)

    os.kill(pid, signal.SIGSTOP)

    monkeypatch.setattr(markup, "_start", lambda begin=markup._start: patiently(begin, monkeypatch))
    assert can_be_parsed("<br>" * 250_000)  # more than a pipe holds
    assert helper_pid() != pid


def patiently(begin, monkeypatch):
    monkeypatch.setattr(markup, "LONGEST_S", 60.0)
    return begin()


def run(program: str) -> subprocess.CompletedProcess[str]:
    words = "import os, resource, signal\nfrom skitter.fetch.html import markup as trial\n"
    begin = f"text = {UNUSUAL[:11]!r} * 5000\nassert trial.can_be_parsed(text)\n"
    return subprocess.run(
        [sys.executable, "-c", words + begin + program],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_copy_of_a_process_has_a_helper_of_its_own():
    """As those of Celery's pool: two who talk to one helper would get each other's answers."""
    done = run(
        "if child := os.fork():\n"
        "    os.waitpid(child, 0)\n"
        "assert trial.can_be_parsed(text)\n"
        "print(trial._helper()._process.pid, flush=True)\n"
        "os._exit(0)"
    )

    assert len(set(done.stdout.split())) == 2, done.stderr


def test_the_helper_ends_with_the_process_that_asks_even_if_that_is_killed():
    done = run(
        "print(trial._helper()._process.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )

    until(lambda: not is_running(int(done.stdout)))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_worker_with_more_than_a_thousand_connections_can_ask():
    done = run(
        "trial._helpers.clear()\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n"
        "files = [open(os.devnull) for _ in range(1100)]\n"
        "print(trial.can_be_parsed(text))"
    )

    assert done.stdout == "True\n", done.stderr


async def test_other_pages_go_on_while_one_is_tried():
    ended = []
    spider = Spider("s", ["https://example.com/"])

    @spider.page
    def links(page):
        ended.append(page.url)
        page.links()

    hostile = Page.of(HOSTILE, url="https://example.com/hostile")
    other = Page.of("<p>", url="https://example.com/other")

    with pytest.raises(HandlerError, match="too much time or memory"):
        await asyncio.gather(run_handler(spider, hostile), run_handler(spider, other))
    assert ended == [other.url, hostile.url]


def test_lxml_is_not_given_what_would_stop_the_parser():
    pytest.importorskip("lxml")

    with pytest.raises(TooComplex):
        Page.of(HOSTILE).xpath("//p")


@pytest.mark.parametrize(
    "page",
    [
        f"<noframes>{'<div>' * 6_000}<a href=/hidden></a></noframes>",
        "<noframes><p></noframes>" * 10 + "<noframes><a href=/hidden></a></noframes>",
    ],
    ids=["deep", "many"],
)
def test_what_is_text_to_the_parser_and_markup_to_us_is_bounded_too(page):
    assert Page.of(page + "<a href=/seen>").links(frames=True) == ["https://example.com/seen"]


def test_the_helper_ends_with_its_process_and_nobody_is_warned():
    code = "from skitter.fetch.html.markup import can_be_parsed; print(can_be_parsed('<p>'))"
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
