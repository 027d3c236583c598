"""Log buckets: the same index, quantiles and bound of error as the `ddsketch` package."""

from __future__ import annotations

import pytest
from ddsketch import DDSketch
from ddsketch.mapping import LogarithmicMapping
from hypothesis import given
from hypothesis import strategies as st

from skitter.observe.metrics import (
    HIGHEST,
    LOWEST,
    PER_DOUBLING,
    Histogram,
    bucket_of,
    merged,
    middle_ms,
    upper_ms,
)

GAMMA = 2 ** (1 / PER_DOUBLING)
ERROR = (GAMMA - 1) / (GAMMA + 1)
durations = st.floats(min_value=0.009, max_value=upper_ms(HIGHEST - 1))


def filled(values):
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


def test_the_error_is_at_most_two_point_two_per_cent():
    assert ERROR < 0.022


@given(durations)
def test_a_bucket_has_the_index_that_ddsketch_gives_it(ms):
    theirs = LogarithmicMapping(ERROR).key
    # On a bound the two may round the logarithm differently.
    assert theirs(ms * (1 - 1e-12)) <= bucket_of(ms) <= theirs(ms * (1 + 1e-12))


@given(durations)
def test_the_middle_of_its_bucket_is_near_a_duration(ms):
    assert abs(middle_ms(bucket_of(ms)) - ms) <= ms * (ERROR + 1e-9)


@given(st.lists(durations, min_size=1, max_size=200), st.sampled_from([0, 0.5, 0.95, 0.99, 1]))
def test_quantiles_are_those_of_ddsketch(values, share):
    sketch = DDSketch(relative_accuracy=ERROR)
    for value in values:
        sketch.add(value)
    ours = filled(values).quantile(share)
    assert ours == pytest.approx(sketch.get_quantile_value(share), rel=0.05)
    exact = sorted(values)[int(share * (len(values) - 1))]
    assert ours == pytest.approx(exact, rel=ERROR + 1e-9)


@given(st.lists(durations, max_size=50), st.lists(durations, max_size=50))
def test_a_merge_is_as_if_all_had_been_added_to_one(some, more):
    both = merged([filled(some), filled(more)])
    assert both.buckets == filled([*some, *more]).buckets
    assert both.count == len(some) + len(more)
    assert both.sum_ms == pytest.approx(sum(some) + sum(more))


def test_timings_of_some_microseconds_are_told_apart():
    for ms in (0.01, 0.02, 0.05):
        assert middle_ms(bucket_of(ms)) == pytest.approx(ms, rel=0.03)


@pytest.mark.parametrize("ms", [-1, 0, 1e-9])
def test_what_takes_no_time_is_in_the_first_bucket(ms):
    assert bucket_of(ms) == LOWEST


def test_what_takes_days_is_in_the_last_bucket():
    assert bucket_of(1e12) == HIGHEST


def test_nothing_measured_has_no_quantile_and_no_mean():
    assert Histogram().quantile(0.5) is None
    assert Histogram().mean_ms is None


def test_it_tells_how_many_took_no_longer():
    histogram = filled([1, 2, 4, 8, 16])
    assert [histogram.count_up_to(ms) for ms in (0.5, 1, 4, 5, 100)] == [0, 1, 3, 3, 5]
