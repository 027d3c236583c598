"""How many processes there should be."""

from __future__ import annotations

import pytest

from skitter.fleet.plan import Load, bounded, restart_after_s, wanted_processes


@pytest.mark.parametrize(
    ("requested", "current", "waiting", "cpu", "wanted"),
    [
        (5, 1, 0, 1.0, 5),  # a request is a command
        (None, 0, 10, 0.0, 1),  # at least one
        (None, 1, 10, 0.0, 1),  # ten requests are worth one worker
        (None, 1, 10_000, 0.9, 2),  # up to the cores, whatever the CPU
        (None, 2, 10_000, 0.7, 2),  # beyond them only while the machine is idle
        (None, 2, 10_000, 0.3, 3),
        (None, 4, 10_000, 0.3, 4),  # never more than twice the cores
        (None, 4, 10_000, 0.95, 3),  # one less when it is too busy
        (None, 4, 150, 0.3, 2),  # the queue is not worth more
        (0, 1, 10_000, 0.3, 2),  # 0 is automatic too
    ],
)
def test_the_plan(requested, current, waiting, cpu, wanted):
    load = Load(cores=2, waiting=waiting, cpu_share=cpu)

    assert wanted_processes(requested, current, load) == wanted


def test_a_process_that_keeps_dying_is_started_ever_more_slowly():
    pauses = [restart_after_s(deaths) for deaths in range(20)]

    assert pauses[0] == 0
    assert pauses == sorted(pauses)
    assert pauses[-1] == 30


@pytest.mark.parametrize(
    ("requested", "cores", "wanted"),
    [(None, 4, None), (0, 4, 0), (20, 1, 20), (10_000_000, 1, 32), (10_000_000, 16, 128)],
)
def test_a_number_from_the_server_is_bounded_by_what_the_machine_can_bear(requested, cores, wanted):
    assert bounded(requested, cores) == wanted
