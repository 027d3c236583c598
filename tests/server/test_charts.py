"""Charts that many look at are read once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from skitter.frontier.records.metrics import record
from skitter.observe.metrics import Batch
from skitter.server.channels import Chart, Charts


@pytest.fixture
def chart(job: str) -> Chart:
    return Chart(job, ("pages",), 600.0, 60)


async def test_those_who_look_at_one_chart_share_what_was_read(frontier: Any, chart: Chart) -> None:
    now = 100.0
    charts = Charts(clock=lambda: now)
    await record(frontier, Batch(counts=Counter(pages=3)))

    first, other = await asyncio.gather(charts.read(frontier, chart), charts.read(frontier, chart))
    assert other is first
    await record(frontier, Batch(counts=Counter(pages=4)))
    now += 0.9  # its points are of 10 s
    assert await charts.read(frontier, chart) is first
    assert await charts.read(frontier, chart._replace(points=30)) is not first

    now += 0.2
    later = await charts.read(frontier, chart)
    assert sum(one or 0 for one in first.series["pages"]) == 3
    assert sum(one or 0 for one in later.series["pages"]) == 7


async def test_one_who_leaves_does_not_end_it_for_the_others(frontier: Any, chart: Chart) -> None:
    charts = Charts()
    leaving, staying = (asyncio.create_task(charts.read(frontier, chart)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()

    assert (await staying).step_s == 10
    assert leaving.cancelled()
