"""Plain lines of a running crawl, where there is no terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from skitter.cli.progress import SAME_EVERY_S, CrawlDisplay, Moment, block, line
from skitter.frontier.admin.eta import Bound
from skitter.model import State, Stats


def moment(stats: Stats) -> Moment:
    return Moment(stats=stats, rate=0.0, workers=1, elapsed_s=1.0)


def test_a_line_counts_items_and_those_that_were_rejected():
    said = line(moment(Stats(job="j", state=State.RUNNING, done=1, stored=3, rejected=2)))
    assert said.startswith("1 page, ")
    assert "3 items stored, 2 rejected, 1 worker, " in said


def test_the_same_line_comes_once_a_minute_and_another_at_once():
    out = StringIO()
    display = CrawlDisplay(Console(file=out))
    for now, text in ((100.0, "a"), (110.0, "a"), (120.0, "b"), (130.0 + SAME_EVERY_S, "b")):
        display._print(text, now)
    assert out.getvalue().split() == ["a", "b", "b"]


@pytest.mark.parametrize(
    ("state", "elapsed_s", "pending", "eta"),
    [
        (State.RUNNING, 60.0, 100, "50 s"),
        (State.PAUSED, 60.0, 100, "-"),
        (State.CANCELLED, 60.0, 100, "-"),
        (State.RUNNING, 1.0, 1, "-"),  # at the start nobody knows
        (State.RUNNING, 60.0, 0, "-"),
        (State.RUNNING, 60.0, 1, "1 s"),
    ],
)
def test_an_eta_is_that_of_a_crawl_that_goes_on(state, elapsed_s, pending, eta):
    stats = Stats(job="j", state=state, done=7, pending=pending)
    assert Moment(stats=stats, rate=2.0, workers=1, elapsed_s=elapsed_s).eta == eta


def test_text_from_outside_is_shown_as_text():
    evil = "[/bold]\x1b[2J\udcff:boom:"
    shown = StringIO()
    console = Console(file=shown, width=80, force_terminal=True, color_system=None, emoji=False)
    console.print(
        block(
            Moment(
                stats=Stats(job=evil, state=State.RUNNING, done=1, pending=9),
                rate=1.0,
                workers=1,
                elapsed_s=9.0,
                bound=Bound(evil, 5, 1.0, 5.0),
                notes=[evil],
                errors=[evil],
            )
        )
    )
    assert shown.getvalue().count("[/bold]\ufffd[2J\ufffd:boom:") == 4


def test_the_block_shows_items_and_the_last_errors_of_handlers():
    shown = StringIO()
    stats = Stats(job="j", state=State.RUNNING, done=1, stored=1234, items=56, rejected=7)
    moment = Moment(
        stats=stats, rate=1.0, workers=1, elapsed_s=9.0, errors=["3 x broken"], error_count=3
    )
    Console(file=shown, width=80).print(block(moment))
    text = " ".join(shown.getvalue().split())
    assert "items 1,234 waiting 56 rejected 7" in text
    assert text.endswith("3 handler errors: 3 x broken")


def test_the_block_leaves_room_for_what_a_terminal_echoes_behind_it():
    """A ^C in the last column would begin a line, and the block would not be erased as a whole."""
    shown = StringIO()
    console = Console(file=shown, width=80, force_terminal=True, color_system=None, soft_wrap=True)
    with CrawlDisplay(console) as display:
        display.show(replace(moment(Stats(job="j", state=State.RUNNING)), errors=["failed " * 30]))

    visible = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.getvalue()).replace("\r", "\n")
    assert max(map(len, visible.splitlines())) == 76
