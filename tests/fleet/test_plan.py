"""How many processes there should be."""

from __future__ import annotations

import pytest

from skitter.crawl.plan import Load, bounded, restart_after_s, wanted_processes
from skitter.frontier.workers import (
    Heartbeat,
    Wish,
    changes_by,
    describe_changes,
    share_of,
)


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
        (0, 1, 10_000, 0.3, 0),  # its share may be none
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
    [(0, 4, 0), (20, 1, 20), (10_000_000, 1, 32), (10_000_000, 16, 128)],
)
def test_a_number_from_the_server_is_bounded_by_what_the_machine_can_bear(requested, cores, wanted):
    assert bounded(requested, cores) == wanted


def beats(*names: str, kind: str = "worker") -> list[Heartbeat]:
    """`host/name`, in the order in which they started."""
    return [
        Heartbeat(name=one, host=one.split("/")[0], pid=1, kind=kind, started_at=at, at=99.0)
        for at, one in enumerate(names)
    ]


def test_one_worker_fewer_of_six_on_three_machines_stops_one():
    machines = beats("a/s", "b/s", "c/s", kind="supervisor")
    running = beats("a/1", "a/2", "b/1", "b/2", "c/1", "c/2")

    fewer = changes_by(Wish(5), running, machines)
    each = changes_by(Wish(5, per_machine=True), running, machines)
    auto = changes_by(Wish(0), running, machines)

    assert [one.becomes for one in fewer] == [2, 2, 1]
    assert describe_changes(fewer) == "1 stops on c"
    assert [one.becomes for one in each] == [5, 5, 5]
    assert describe_changes(each) == "3 start on a; 3 start on b; 3 start on c"
    assert ([one.becomes for one in auto], describe_changes(auto)) == ([None] * 3, "")


@pytest.mark.parametrize("total", [0, 1, 2, 3, 7, 1000])
def test_the_shares_of_all_machines_add_up_to_the_total(total):
    names = [f"s{i}" for i in range(4)]

    assert sum(share_of(total, one, names) for one in names) == total
    assert share_of(total, "new", []) == total  # before it hears of itself
