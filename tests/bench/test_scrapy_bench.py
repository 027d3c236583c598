"""The benchmark of a Scrapy node runs, at a size at which it measures nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.crawl.site import open_site
from benchmarks.ground import prepare_ground
from benchmarks.peers import Peer
from benchmarks.scrapy_node import SCRIPT, Contender, Sizes, measure
from needs import need


@pytest.fixture(autouse=True)
def nginx():
    need("nginx")


async def test_the_same_spider_runs_on_both_schedulers_and_trips_are_counted():
    told: list[str] = []
    here = Peer("Scrapy", Path(sys.executable), SCRIPT)
    field = [Contender("skitter", here), Contender("plain", here), Contender("plain", here)]

    async with prepare_ground(told.append) as ground, open_site(ground.directory / "s") as site:
        findings = await measure(ground, site.publish(60), field, Sizes(pages=60, rounds=1))

    speed, cpu, beside, trips = findings
    assert speed.goal == "90% of plain Scrapy"
    assert beside.goal == "150% of scrapy-redis"
    assert cpu.ok is None
    assert trips.measured > 0
    assert "scrapy: round 1 of 1, skitter" in told


async def test_a_crawl_that_missed_a_page_is_no_result():
    here = Peer("Scrapy", Path(sys.executable), SCRIPT)

    async with prepare_ground(print) as ground, open_site(ground.directory / "s") as site:
        with pytest.raises(AssertionError, match="plain: 31 of 40 pages"):
            await Contender("plain", here).crawl(ground, site.publish(30), 40)


def test_without_scrapy_it_is_one_sentence_that_names_the_extra(monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.scrapy_node.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "scrapy", "--quick"])

    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert "pip install 'skitter[scrapy]'" in capsys.readouterr().err
