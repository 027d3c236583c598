"""What people see of the quality of what is scraped."""

from __future__ import annotations

import pytest

from skitter.app import open_crawl
from skitter.frontier.audit.auditor import audit
from skitter.frontier.records.health import Observed, find_bad, observe
from skitter.settings import QualityOptions, resolve
from skitter.spider import Spider


@pytest.fixture
async def observed(skitter_here, make_frontier, clock):
    """A job in which a field with an odd name was filled, and is not any more."""
    frontier = await make_frontier()
    odd = "\x1b[31mprice"
    for filled in (100, 100, 0, 0):
        columns = {"text:title": 100, f"number:{odd}": filled}
        await observe(frontier, [Observed("book", 100, 100, 0, columns)])
        clock.advance(10)
    return frontier.job


async def test_fields_are_shown_now_and_before_and_the_exit_code_is_1(skitter_here, observed):
    answer = await skitter_here("quality", observed)

    lines = [line.split() for line in answer.out.splitlines()]
    assert answer.exit_code == 1
    assert lines[1] == ["book", "(items", "per", "page)", "1", "1", "████"]
    assert lines[2] == ["book", "title", "text", "100%", "100%", "████"]
    assert lines[3] == ["book", "\ufffd[31mprice", "number", "0%", "100%", "██▁▁"]
    assert "is filled in 0% of the items, down from 100%" in answer.out
    assert "\x1b" not in answer.out


async def test_the_same_as_json(skitter_here, observed):
    answer = await skitter_here("quality", observed, "--json")

    assert [one["handler"] for one in answer.json["bad"]] == ["book"]
    assert answer.json["rows"][1] == {
        "handler": "book",
        "field": "title",
        "type": "text",
        "now": 1.0,
        "before": 1.0,
        "history": [1.0] * 4,
    }


async def test_status_warns(skitter_here, observed):
    answer = await skitter_here("status", observed, "--json")

    [note] = answer.json["notes"]
    assert note.endswith("is filled in 0% of the items, down from 100%")


async def test_thresholds_are_settings(skitter_here, observed, monkeypatch):
    monkeypatch.setenv("SKITTER_QUALITY_MAX_FILL_DROP", "none")

    assert (await skitter_here("quality", observed)).exit_code == 0


async def test_thresholds_of_a_spider_hold_wherever_somebody_looks(
    skitter_here, observed, server, monkeypatch
):
    """Those that look do not load the spider."""
    spider = Spider(observed, quality=QualityOptions(max_fill_drop=None, on_bad="fail"))
    config = resolve(job=observed, spider=spider.tables)
    frontier, _ = await open_crawl(server, observed, spider, config)

    assert (await skitter_here("quality", observed)).exit_code == 0
    assert (await skitter_here("status", observed, "--json")).json["notes"] == []
    assert await find_bad(frontier) == []
    assert (await audit(frontier)).clean

    await frontier.home.command("SET", "thresholds", b"nonsense")
    assert (await skitter_here("quality", observed)).exit_code == 1


def test_a_job_without_pages_has_no_quality(skitter, job):
    skitter("create", job)

    answer = skitter("quality", job)

    assert (answer.exit_code, answer.out) == (0, f"{job}: no page has been handled yet.\n")
