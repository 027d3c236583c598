"""The benchmark of the HTTP server runs, at a size at which it measures nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.http.dashboards import Dashboards
from benchmarks.http.push import Push
from benchmarks.peers import FASTAPI
from benchmarks.suite import measure

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


async def test_producers_and_dashboards_are_served_beside_a_crawl(ground):
    here = replace(FASTAPI, home="", requirements=())  # the tests have it, for schemathesis
    parts = [Push(seconds=0.2, rounds=1, peers=(here,)), Dashboards(clients=2, seconds=1.0)]
    findings = await measure(ground, parts)

    p95, p50, cpu, share = findings
    assert (p95.goal, cpu.goal, share.goal) == ("under 10 ms", "half of FastAPI's", "under 20%")
    assert 0 < p50.measured <= p95.measured
    assert cpu.peer
    assert share.measured > 0
