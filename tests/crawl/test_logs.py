"""What handlers and transforms log is in `skitter logs`, with level, worker and page."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.timeout(300)

SPIDER = """
import logging
from skitter import Politeness, Spider, Limits
spider = Spider("talks", ["%URL%"], politeness=Politeness(delay_s=0), limits=Limits(max_pages=1))
log = logging.getLogger(__name__)

@spider.page
def page(page):
    log.info("from a logger of mine")
    log.debug("too quiet")
    page.log.warning("from the page, %d", 7)
    yield {"n": 1}

@spider.transform
def change(item):
    log.error("from a transform")
    return item
"""


@pytest.fixture
def machine(open_shop, make_machine):
    shop = open_shop(books=50)
    machine = make_machine(shop)
    (machine.folder / "talks.py").write_text(SPIDER.replace("%URL%", shop.url))
    return machine


def test_what_a_handler_logs_is_in_the_log_of_the_crawl(machine):
    done = machine.call(
        "run", "talks.py", "--workers", "1", "-o", "rows.jsonl", "--log-file", "all.log"
    )
    assert done.returncode == 0, done.stderr
    assert "skitter.loader: loader started" in (machine.folder / "all.log").read_text()
    told = machine.call("logs", "talks", "--json").stdout.splitlines()
    events = {one["text"]: one for one in map(json.loads, told)}

    assert events["from a logger of mine"]["level"] == "info"
    assert events["from the page, 7"]["level"] == "warning"
    assert events["from a transform"]["level"] == "error"
    for text in ("from a logger of mine", "from the page, 7", "from a transform"):
        assert events[text]["url"] == machine.shop.url
        assert events[text]["worker"]
    assert "too quiet" not in events
    assert {"worker started", "loader started", "worker stopped"} <= set(events)
    shown = machine.call("logs", "talks").stdout
    assert f"from the page, 7  {machine.shop.url}" in " ".join(shown.split(" "))


def test_the_level_and_a_file_are_settings(machine):
    words = ("--log-level", "warning", "--log-file", "all.log", "-s", "log.format=json")
    done = machine.call("run", "talks.py", "--workers", "1", "-o", "rows.jsonl", *words)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (machine.folder / "all.log").read_text().splitlines()]
    assert {(one["level"], one["text"], one["url"]) for one in records} >= {
        ("warning", "from the page, 7", machine.shop.url),
        ("error", "from a transform", machine.shop.url),
    }
    assert "info" not in {one["level"] for one in records}
    told = machine.call("logs", "talks", "--json").stdout.splitlines()
    assert "info" not in {json.loads(line)["level"] for line in told}
