"""The benchmark of a Scrapy node runs, at a size at which it measures nothing."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from benchmarks import __main__ as command
from benchmarks.scrapy_node import PLAIN, Node
from benchmarks.suite import measure
from skitter.extras import install

pytestmark = pytest.mark.timeout(300)


@pytest.mark.chaos
async def test_the_same_spider_runs_on_both_schedulers_and_trips_are_counted(with_site, told):
    peer = replace(PLAIN, title="scrapy-redis")
    findings = await measure(with_site, [Node(pages=60, rounds=1, peers=(peer,))])

    speed, cpu, beside, trips = findings
    assert speed.goal == "90% of plain Scrapy"
    assert beside.goal == "150% of scrapy-redis"
    assert cpu.ok is None
    assert trips.measured > 0
    assert "scrapy: round 1 of 1, skitter" in told


@pytest.mark.chaos
async def test_a_crawl_that_missed_a_page_is_no_result(with_site):
    with pytest.raises(AssertionError, match="plain: 31 of 40 pages"):
        await PLAIN.crawl(with_site.publish(30), pages=40, socket=with_site.socket)


def test_without_scrapy_it_is_one_sentence_that_names_the_extra(monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.scrapy_node.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "scrapy", "--quick"])

    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert install("scrapy") in capsys.readouterr().err
