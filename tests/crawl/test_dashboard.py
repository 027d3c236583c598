"""A crawl with its dashboard beside it."""

from __future__ import annotations

import json
import os
import re
import signal

import httpx

from skitter.demo import SPIDER
from skitter.frontier.workers import live_workers
from waiting import PATIENCE_S, until

NICE = """
import os
from skitter import Spider
spider = Spider("nice", ["%URL%"])
@spider.page
def page(page):
    yield {"nice": os.nice(0)}
"""


def test_a_dashboard_is_there_for_as_long_as_its_crawl(open_shop, make_machine):
    shop = open_shop()
    machine = make_machine(shop)
    with shop.silent():
        crawl = machine.start("run", str(SPIDER), "--workers", "1", "--dashboard")
        assert crawl.stderr
        line = next(line for line in crawl.stderr if line.startswith("Dashboard: ")).rstrip("\n")
        assert len(line) <= 80
        [(address, code)] = re.findall(r"(http://127\.0\.0\.1:\d+/)#token=(\S+)$", line)
        with httpx.Client(base_url=address, timeout=PATIENCE_S) as browser:
            assert browser.post("api/login", json={"token": code}).status_code == 200
            job = until(lambda: _with_worker(browser))
            assert job["state"] == "running"
        [worker] = [one for one in machine.ask(live_workers) if one.kind == "worker"]
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) == os.nice(0) + 10

        crawl.send_signal(signal.SIGKILL)
        until(lambda: not _answers(address))


def test_workers_give_way_to_a_server_on_their_machine_while_it_lives(
    monkeypatch, open_shop, make_machine, tmp_path
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    machine = make_machine(open_shop())
    (machine.folder / "nice.py").write_text(NICE.replace("%URL%", machine.shop.url))

    def priority(job: str) -> int:
        done = machine.call("run", "nice.py", "--job", job, "--workers", "1", "-o", f"{job}.jsonl")
        assert done.returncode == 0, done.stderr
        found: int = json.loads((machine.folder / f"{job}.jsonl").read_text())["nice"]
        return found

    served = machine.start("serve", "--port", "0")
    assert served.stdout
    assert "Serving" in served.stdout.readline()
    assert priority("beside") == os.nice(0) + 10
    served.kill()
    served.wait()
    assert priority("alone") == os.nice(0)


def _with_worker(browser: httpx.Client) -> dict[str, object] | None:
    answer = browser.get("api/jobs/books")
    found = answer.json() if answer.status_code == 200 else {}
    return found if found.get("processes", {}).get("worker") else None


def _answers(address: str) -> bool:
    try:
        return httpx.get(address + "healthz", timeout=PATIENCE_S).status_code == 200
    except httpx.TransportError:
        return False
