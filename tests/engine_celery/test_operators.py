"""What an operator of Celery may do to a crawl in progress: it costs time, and nothing else."""

from __future__ import annotations

import pytest

from engine_celery.test_crawls import assert_complete, begin, finish, rows
from waiting import until

pytestmark = [pytest.mark.timeout(300), pytest.mark.chaos]


def active(station) -> list[str]:
    """The ids of all tasks that workers run or hold."""
    asked = station.app.control.inspect(timeout=3)
    found = [asked.active() or {}, asked.reserved() or {}]
    return [task["id"] for one in found for tasks in one.values() for task in tasks]


@pytest.mark.parametrize(
    "limit",
    [("--max-tasks-per-child", "1"), ("--time-limit", "3", "--soft-time-limit", "2")],
    ids=["one task per process", "seconds per task"],
)
def test_a_limit_of_the_workers_costs_a_pump_and_no_page(slow_station, limit):
    slow_station.worker("-c", "2", *limit)
    begin(slow_station, pumps=2)

    finish(slow_station)
    assert_complete(slow_station)


def test_tasks_that_are_revoked_and_queues_that_are_purged_are_made_up_for(slow_station):
    slow_station.worker("-c", "2")
    begin(slow_station, pumps=2)
    until(lambda: len(rows(slow_station)) > 5)

    slow_station.app.control.revoke(active(slow_station), terminate=True, signal="SIGKILL")
    slow_station.app.control.purge()

    finish(slow_station)
    assert_complete(slow_station)


def test_a_pool_that_is_shrunk_to_one_and_grown_again_goes_on(slow_station):
    slow_station.worker("-c", "3")
    begin(slow_station, pumps=3)
    until(lambda: len(rows(slow_station)) > 5)

    slow_station.app.control.pool_shrink(2)
    slow_station.app.control.pool_grow(2)
    queue = slow_station.settings.queues.http
    slow_station.app.control.cancel_consumer(queue)
    slow_station.app.control.add_consumer(queue)

    finish(slow_station)
    assert_complete(slow_station)
