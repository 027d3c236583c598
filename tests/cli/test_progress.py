"""Plain lines of a running crawl, where there is no terminal."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

from rich.console import Console

from skitter.cli.show.progress import SAME_EVERY_S, CrawlDisplay, Moment, block, eta_of, line
from skitter.cli.status import _status_rows
from skitter.crawl.watch import Overview
from skitter.frontier.sites.hosts import Bound
from skitter.frontier.workers import Heartbeat
from skitter.model import State


def a_look(**fields: Any) -> Overview:
    """One moment of a crawl."""
    worker = Heartbeat(name="w", host="h", pid=1, started_at=0.0, at=9.0)
    basis: dict[str, Any] = {
        "job": "j",
        "state": State.RUNNING,
        "status": "running",
        "at": 9.0,
        "remaining": 0,
    }
    return Overview(**basis | {"workers": [worker], "elapsed_s": 9.0} | fields)


def test_a_line_counts_items_and_those_that_were_rejected():
    said = line(Moment(a_look(done=1, stored=3, rejected=2)))
    assert said.startswith("1 page, ")
    assert "3 items stored, 2 rejected, 1 worker, " in said


def test_a_line_counts_what_is_to_be_tried_again():
    said = line(Moment(a_look(delayed=1)))
    assert ", 0 pending, 0 in flight, 1 delayed, 0 dead, " in said


def test_a_line_says_that_a_job_is_paused():
    assert line(Moment(a_look(state=State.PAUSED))).startswith("paused: 0 pages, ")


def test_a_slow_crawl_is_not_said_to_stand_still():
    said = [line(Moment(a_look(pages_per_s=rate))) for rate in (0.0, 0.3, 1.0, 12.4)]
    assert [text.split(", ")[1] for text in said] == ["0/s", "0.3/s", "1.0/s", "12/s"]


def test_the_same_line_comes_once_a_minute_and_another_at_once():
    out = StringIO()
    display = CrawlDisplay(Console(file=out))
    for now, text in ((100.0, "a"), (110.0, "a"), (120.0, "b"), (130.0 + SAME_EVERY_S, "b")):
        display._print(text, now)
    assert out.getvalue().split() == ["a", "b", "b"]


def test_an_estimate_is_rounded_up_to_a_second():
    assert [eta_of(a_look(eta_s=eta_s)) for eta_s in (None, 0.1, 50.0)] == ["-", "1 s", "50 s"]


def test_the_block_says_how_long_is_left_only_if_that_is_known():
    for eta_s, says in (
        (0.4, "9 s so far, 1 s left for the URLs known so far"),
        (None, "9 s so far"),
    ):
        shown = StringIO()
        Console(file=shown, width=80).print(block(Moment(a_look(eta_s=eta_s))))
        assert shown.getvalue().splitlines()[-1].rstrip() == says


def test_status_says_one_of_what_there_is_one_of():
    one = a_look(fed=1, duplicates=1, retried=1, lost=1, late=1, trapped=1)
    said = "; ".join(str(value) for _, value in _status_rows(one))
    assert "1 message waiting for a worker; " in said
    assert "; 1 duplicate, 1 retry; 1 lease expired, 1 late result refused; 1 URL held" in said


def test_text_from_outside_is_shown_as_text():
    evil = "[/bold]\x1b[2J\udcff:boom:"
    shown = StringIO()
    console = Console(file=shown, width=80, force_terminal=True, color_system=None, emoji=False)
    look = a_look(job=evil, done=1, pending=9, bound=Bound(evil, 5, 1.0, 5.0), notes=[evil])
    console.print(block(Moment(look, errors=[evil])))
    assert shown.getvalue().count("[/bold]\ufffd[2J\ufffd:boom:") == 4


def test_the_block_shows_items_and_the_last_errors_of_handlers():
    shown = StringIO()
    look = a_look(done=1, stored=1234, items=56, rejected=7)
    Console(file=shown, width=80).print(block(Moment(look, errors=["3 x broken"], error_count=3)))
    text = " ".join(shown.getvalue().split())
    assert "items 1,234 waiting 56 rejected 7" in text
    assert text.endswith("3 handler errors: 3 x broken")


def test_the_block_leaves_room_for_what_a_terminal_echoes_behind_it():
    """A ^C in the last column would begin a line, and the block would not be erased as a whole."""
    shown = StringIO()
    console = Console(file=shown, width=80, force_terminal=True, color_system=None, soft_wrap=True)
    with CrawlDisplay(console) as display:
        display.show(Moment(a_look(), errors=["failed " * 30]))

    visible = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.getvalue()).replace("\r", "\n")
    assert max(map(len, visible.splitlines())) == 76
