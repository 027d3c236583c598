"""Plain lines of a running crawl, where there is no terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from skitter.cli.progress import SAME_EVERY_S, CrawlDisplay, Moment, line
from skitter.model import State, Stats


def moment(stats: Stats) -> Moment:
    return Moment(stats=stats, rate=0.0, workers=1, elapsed_s=1.0)


def test_a_line_counts_items_and_those_that_were_set_aside():
    said = line(moment(Stats(job="j", state=State.RUN, done=1, stored=3, rejected=2)))
    assert said.startswith("1 page, ")
    assert "3 stored, 2 set aside, 1 worker, " in said


def test_the_same_line_comes_once_a_minute_and_another_at_once():
    out = StringIO()
    display = CrawlDisplay(Console(file=out))
    for now, text in ((100.0, "a"), (110.0, "a"), (120.0, "b"), (130.0 + SAME_EVERY_S, "b")):
        display._print(text, now)
    assert out.getvalue().split() == ["a", "b", "b"]
