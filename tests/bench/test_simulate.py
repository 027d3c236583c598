"""The simulated crawl, at sizes at which it measures nothing: its web, its clock, its fairness."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.frontier.lease import Clock
from benchmarks.frontier.nodes import Nodes
from benchmarks.simulate.__main__ import OPTIONS
from benchmarks.simulate.crawl import Crawl, Plan
from benchmarks.simulate.outcome import Costs, jain, outcome_of
from benchmarks.simulate.web import TIMEOUT_S, Place, Web, place_of
from benchmarks.suite import measure
from skitter.frontier.audit.auditor import audit
from skitter.frontier.jobs import create_job

ROOT = Path(__file__).parents[2]
WEB = Web(hosts=60, urls=3_000)
COSTS = Costs(bytes_total=1000, server_us=1e6, client_us=1e6, real_s=1)


def test_sizes_are_a_zipf_that_adds_up_and_every_url_leads_back_to_its_place():
    sizes = [WEB.size(host) for host in range(WEB.hosts)]

    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == pytest.approx(WEB.urls, rel=0.02)
    assert sizes[0] == pytest.approx(10 * sizes[9], rel=0.02)
    assert place_of(Place(59, 7).url) == Place(59, 7)


def test_every_host_can_be_found_from_the_first_and_some_are_slow_or_dead():
    found, new = {0}, [0]
    while new:
        links = WEB.links(Place(new.pop(), 0), random.Random(1))
        fresh = {one.host for one in links if one.page == 0} - found
        found |= fresh
        new += fresh
    web = Web(hosts=1000, urls=1000)
    dead = [host for host in range(1000) if web.latency_s(host) == TIMEOUT_S]

    assert found == set(range(WEB.hosts))
    assert 10 <= len(dead) <= 30
    assert not web.answer(Place(dead[0], 0), random.Random(1)).ok


async def test_a_simulated_crawl_is_polite_by_the_virtual_clock_and_adds_up(server, job):
    clock = Clock()
    frontier = await create_job(server, job, options=OPTIONS, clock=clock)
    crawl = Crawl(frontier, clock, Plan(WEB, pages=400, slots=50, seeds=6), progress=print)

    await crawl.run()
    outcome = outcome_of(crawl, await frontier.stats(), COSTS)

    assert outcome.pages >= 400
    assert outcome.bound_by_slots < 1, "60 hosts cannot keep 50 slots busy"
    assert max(crawl.served.values()) <= outcome.virtual_s + 1, "a second between two requests"
    assert outcome.urls_seen > outcome.pages + outcome.in_flight
    assert (await audit(frontier)).clean


@pytest.mark.parametrize(("shares", "index"), [([5, 5, 5], 1.0), ([9, 0, 0], 1 / 3), ([], 1.0)])
def test_fairness_is_one_for_equal_shares_and_little_if_one_has_all(shares, index):
    assert jain(shares) == pytest.approx(index)


async def test_the_work_of_each_node_of_a_cluster_is_measured(ground):
    part = Nodes(urls=60, hosts=6, nodes=(1, 2), rounds=1)
    found = await measure(ground, [part])
    calls = {one.what.split(", ")[2][:7]: one.measured for one in found if one.unit == "calls"}

    assert len(found) == 6
    assert 0 < calls["2 nodes"] < calls["1 nodes"]


def test_sizes_are_options_of_the_command():
    words = [sys.executable, "-m", "benchmarks.simulate", "--help"]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert all(f"--{name}" in told for name in ("hosts", "urls", "pages", "slots", "shards"))
