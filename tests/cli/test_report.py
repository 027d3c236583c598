"""The closing words of a crawl."""

from __future__ import annotations

import pytest

from skitter.cli.report import Went, end_of
from skitter.model import State, Stats


@pytest.mark.parametrize(
    ("state", "over", "words"),
    [
        (State.RUN, True, "finished"),
        (State.RUN, False, "stopped; run it again to go on"),
        (State.CANCEL, False, "cancelled; to go on, `skitter resume j` and run it again"),
    ],
)
def test_a_crawl_says_how_it_ended_and_how_to_go_on(state, over, words):
    before, after = (Stats(job="j", state=state, seen=9, done=done) for done in (0, 5))

    assert end_of(Went(before, after, 1.0, over=over)) == words
