"""The proof: a crawl of a hostile site ends, with every innocent page stored."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawl.conftest import Machine
from hostile.site import ANSWERS, INNOCENT, PAGES
from waiting import until

HERE = Path(__file__).parent
MAX_MB = 400
COMPLEX = "takes the parser too much time or memory"

#: What becomes of each evil page: dead for a reason, or done, with or without an item of its own.
DEAD = {
    "half-a-million-links": COMPLEX,
    "nested": COMPLEX,
    "nested-end-tags": COMPLEX,
    "options": COMPLEX,
    "formatting": COMPLEX,
    "attributes": COMPLEX,
    "line-breaks": COMPLEX,
    "follows-with-a-lot-of-meta": "cannot be stored: .* the limit is 262,144",
    "exits": "SystemExit: 2",
    "%EF%BF%BD%EF%BF%BD%EF%BF%BD": "404",  # the one link to nowhere that is one
    "gzip-bomb": "the body is over",
    "endless-body": "the body is over",
    "redirect-loop?again": "redirect loop",
    "endless-redirects/10": "more than 10 redirects",
    "header-flood": "the headers are over the limit",
    "long-header": "the headers are over the limit",
    "no-http": "the response is not HTTP",
    "cut-off": "the body was cut off",
    "strange-status": "999",
}
REJECTED = {
    "comments",
    "huge-text",
    "yields-a-huge-item",
    "yields-half-a-character",
    "yields-what-is-nested",
}
CAPPED = {"many-links", "yields-a-million-items", "yields-for-ever"}
DONE = {"binary", "half-characters", "links-to-nowhere", "many-links"}


@pytest.fixture
def site(tmp_path) -> Iterator[str]:
    ready = tmp_path / "ready"
    server = subprocess.Popen([sys.executable, str(HERE / "site.py"), str(ready)])
    until(ready.exists)
    yield ready.read_text()
    server.kill()
    server.wait()


@pytest.fixture
def machine(site, short_dir, nursery) -> Iterator[Machine]:
    folder = short_dir / "hostile"
    folder.mkdir()
    environment = {**os.environ, "HOSTILE_SITE": site}
    environment.pop("SKITTER_DIR", None)
    no_shop: Any = None
    one = Machine(folder, no_shop, environment, nursery)
    yield one
    one.stop_all()


def peak_mb(pid: int) -> float:
    """The most memory that a process has had."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(peak[1]) / 1024 if peak else 0.0


def words(machine: Machine, *command: str) -> Any:
    answer = machine.call(*command, "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def name_of(url: str) -> str:
    return url.partition("/evil/")[2]


@pytest.mark.timeout(300)
def test_a_crawl_of_a_hostile_site_ends_with_every_innocent_page_stored(machine):
    assert {*PAGES, *ANSWERS} == {
        name.partition("?")[0].partition("/")[0] for name in {*DEAD, *REJECTED, *CAPPED, *DONE}
    } - {"%EF%BF%BD%EF%BF%BD%EF%BF%BD"}
    peaks: dict[int, float] = {}
    run = machine.start(
        "run", str(HERE / "spider.py"), "--workers", "2", "--out", "rows.jsonl", "--json"
    )
    while run.poll() is None:
        server = machine.server_pid()
        for pid in [*machine.children("work"), *machine.children("load"), *filter(None, [server])]:
            peaks[pid] = max(peaks.get(pid, 0.0), peak_mb(pid))
        time.sleep(0.1)
    out, err = run.communicate()

    report = json.loads(out)
    assert (report["finished"], report["pending"]) == (True, 0), err
    rows = [json.loads(line) for line in (machine.folder / "rows.jsonl").read_text().splitlines()]
    stored = {row["url"].partition("/good/")[2] for row in rows if row.get("title")}
    assert stored >= {str(n) for n in range(INNOCENT)}

    letters = {
        name_of(one["url"]): one["reason"] for one in words(machine, "dead", "list", "hostile")
    }
    assert set(letters) == set(DEAD)
    for name, reason in DEAD.items():
        assert re.search(reason, letters[name]), (name, letters[name])
    aside = {name_of(one["url"]) for one in words(machine, "rejected", "hostile")}
    assert aside == REJECTED
    assert report["capped"] == len(CAPPED)
    log = "\n".join(event["text"] for event in events(machine))
    for name in CAPPED:
        assert re.search(rf"/evil/{name}: .*left out", log), name
    assert {name_of(row["url"]) for row in rows if row.get("url")} >= DONE

    assert machine.call("audit", "hostile").returncode == 0
    assert len(peaks) >= 4
    assert max(peaks.values()) < MAX_MB, peaks


def events(machine: Machine) -> list[dict[str, Any]]:
    answer = machine.call("logs", "hostile", "--json", "-n", "1000")
    return [json.loads(line) for line in answer.stdout.splitlines()]
