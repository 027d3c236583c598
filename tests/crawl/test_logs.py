"""What handlers and transforms log is in `skitter logs`, with level, worker and page."""

from __future__ import annotations

import json

import pytest

from skitter.crawl.printed import records

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


LOUD = """
import os, signal, traceback, warnings
from pathlib import Path
from skitter import Limits, Politeness, Spider
spider = Spider("loud", ["%URL%"], politeness=Politeness(delay_s=0), limits=Limits(max_pages=1))

@spider.page
def page(page):
    print("printed")
    warnings.warn("take care")
    try:
        1 / 0
    except ZeroDivisionError:
        traceback.print_exc()
    once = Path("died")
    if not once.exists():
        once.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("of two\\nlines")
"""


def test_each_line_of_each_process_is_json_with_its_time_level_and_job(machine):
    (machine.folder / "loud.py").write_text(LOUD.replace("%URL%", machine.shop.url))
    assert machine.call("create", "loud").returncode == 0
    how = ("--log-format", "json")
    serve = machine.start("serve", "--port", "0", *how)
    load = machine.start("load", "loud", "--to", "rows.jsonl", *how)
    run = machine.call("run", "loud.py", "--workers", "1", "-o", "mine.jsonl", *how)
    for process in (serve, load):
        process.terminate()
    said = {"run": run.stdout + run.stderr}
    said |= {"serve": "".join(serve.communicate()), "load": "".join(load.communicate())}

    for name, text in said.items():
        lines = [json.loads(line) for line in text.splitlines()]
        assert lines, name
        assert all(one["at"] > 1.7e9 and one["level"] and one["text"] for one in lines), name
        assert {one["job"] for one in lines} == {"" if name == "serve" else "loud"}
    texts = [json.loads(line)["text"] for line in said["run"].splitlines()]
    assert "printed" in texts
    [warned] = {text for text in texts if "take care" in text}
    assert warned.endswith('warnings.warn("take care")')
    [traced] = {text for text in texts if text.startswith("Traceback")}
    assert traced.endswith("ZeroDivisionError: division by zero")
    assert any("was killed by SIGKILL" in text for text in texts)


def test_lines_that_belong_together_are_one_record():
    trace = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "    x", "E: no"]
    chained = ["During handling of the above exception, another exception occurred:"]
    assert records(["a", *trace, "b", *chained, *trace]) == [
        "a",
        "\n".join(trace),
        "b",
        *chained,
        "\n".join(trace),
    ]
    assert records([]) == []
    assert records(["  cut off", "b"]) == ["  cut off", "b"]
