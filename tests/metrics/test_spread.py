"""Durations in doublings: sixteen numbers instead of a histogram."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from skitter.observe.metrics import DOUBLINGS, Recorder, Row, doubling_of, quantile


@given(st.lists(st.floats(4, 60_000), min_size=1, max_size=200))
def test_a_quantile_is_in_the_doubling_of_the_true_one(durations):
    counts = Counter(map(doubling_of, durations))
    found = quantile(tuple(counts[at] for at in range(DOUBLINGS)), 0.95)

    true = sorted(durations)[-(-95 * len(durations) // 100) - 1]
    assert found is not None
    assert true / 2 <= found <= true * 2


def test_what_is_beyond_counts_in_the_first_or_the_last():
    assert (doubling_of(0), doubling_of(3.9), doubling_of(4)) == (0, 0, 1)
    assert doubling_of(1e9) == DOUBLINGS - 1
    assert quantile((), 0.95) is None


def test_rows_are_added_doubling_by_doubling():
    assert Row(1, spread=(1,)).plus(Row(2, spread=(0, 2))) == Row(3, spread=(1, 2))


def test_a_recorder_tells_them_of_every_host_route_and_session():
    recorder = Recorder()
    kind = ("ok", "2xx", "a.test", "dc-1", "shop")
    for ms in (5.0, 6.0, 100.0, None):
        recorder.add_exchange(kind, ms=ms)

    tables = recorder.take("w-1").tables
    for table, member in (("host", "a.test"), ("route", "dc-1"), ("session", "shop")):
        row = tables[table][member]
        assert (row.ok, row.spread[1], row.spread[5], sum(row.spread)) == (4, 2, 1, 3)
