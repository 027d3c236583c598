"""Agents and their runs, as processes on one server."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from crawl.conftest import Machine, kill
from skitter.app import open_server
from skitter.frontier.frontier import Frontier
from skitter.frontier.records.runs import Runs, Spec, new_id
from skitter.frontier.transport.keys import JOBS
from skitter.frontier.workers import live_workers
from skitter.settings import Settings
from waiting import until

SHOP = """
import os
from skitter import Page, Politeness, Spider

def shop(kind: str = "book", pages: int = 3) -> Spider:
    spider = Spider("shop", start=[os.environ["SKITTER_DEMO_URL"]],
                    politeness=Politeness(delay_s=0, max_in_flight=8))

    @spider.page
    async def listing(page: Page):
        print("a print of the user's")
        yield {"url": page.url, "kind": kind}
        for link in page.css("article.book h3 a"):
            yield page.follow(link, listing)

    return spider
"""


@pytest.fixture
def machine(open_shop, make_machine):
    made = make_machine(open_shop(books=50))
    (made.folder / "spiders").mkdir()
    (made.folder / "spiders" / "shop.py").write_text(SHOP)
    return made


def agent(machine, *words: str):
    """One that has reported what it offers."""
    started = machine.start("agent", "--spiders", "spiders/*.py", "--workers", "1", *words)
    for line in started.stderr:
        if line.startswith("offers"):
            return started
    raise AssertionError("the agent has ended")


def runs(machine, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(machine.call("runs", "--json", *words).stdout)
    return found


def test_an_agent_carries_out_what_its_list_names_as_run_does(machine):
    (machine.folder / "spiders" / "broken.py").write_text("import nothing_of_that_name\n")
    (machine.folder / "spiders" / "helper.py").write_text("A = 1\n")
    (machine.folder / "elsewhere.py").write_text(SHOP.replace('"shop"', '"elsewhere"'))
    started = agent(machine)
    words = ("start", "shop", "-a", "kind=rare", "--max-pages", "9", "--wait", "--json")
    ended = machine.call(*words)

    run = json.loads(ended.stdout)
    assert (ended.returncode, run["state"], run["job"]) == (0, "finished", "shop")
    assert (run["report"]["pages"], run["report"]["items"], run["report"]["exit_code"]) == (9, 9, 0)
    assert run["version"].startswith("shop ")
    rows = machine.call("export", "shop", "--from", "shop.db", "--to", "rows.jsonl")
    assert rows.returncode == 0
    assert (machine.folder / "rows.jsonl").read_text().count('"rare"') == 9

    refused = machine.call("start", "elsewhere")
    assert "no agent offers a spider 'elsewhere': agents offer" in refused.stderr
    assert "cannot be loaded by its agent" in machine.call("start", "broken.py").stderr
    assert "takes kind, pages" in machine.call("start", "shop", "-a", "size=1").stderr

    again = machine.call("runs", "again", run["id"], "--wait")
    assert again.returncode == 0
    assert "repeats" in again.stdout
    newest, first = runs(machine)
    assert (newest["again"], newest["arguments"], first["id"]) == (
        run["id"],
        {"kind": "rare"},
        run["id"],
    )

    started.terminate()
    assert started.wait() == 0
    waits = machine.call("start", "shop")
    assert "No agent offers this spider now" in waits.stderr


def test_a_run_whose_process_is_killed_and_whose_agent_is_stopped_goes_on_elsewhere(machine):
    with machine.shop.silent():
        first = agent(machine, "--name", "first")
        identity = json.loads(machine.call("start", "shop", "--json").stdout)["id"]
        [process] = until(lambda: machine.children("started"))
        os.kill(process, signal.SIGKILL)
        until(lambda: [one for one in machine.children("started") if one != process])
        first.terminate()
        first.send_signal(signal.SIGINT)
        assert first.wait() == 0
        [run] = runs(machine)
        assert (run["state"], run["lost"]) == ("waiting", 1)
    second = agent(machine, "--name", "second")
    run = until(lambda: runs(machine)[0]["ended_at"] and runs(machine)[0])
    assert (run["id"], run["state"], run["agent"]) == (identity, "finished", "second")
    assert run["report"]["finished"] is True
    assert run["report"]["pages_now"] == run["report"]["pages"]
    assert machine.stats("shop").done == run["report"]["items"] == run["report"]["pages"]
    second.terminate()
    assert second.wait() == 0


def test_a_run_is_stopped_and_its_report_says_so(machine):
    started = agent(machine)
    with machine.shop.silent():
        identity = json.loads(machine.call("start", "shop", "--json").stdout)["id"]
        until(lambda: runs(machine)[0]["version"])
        waits = json.loads(machine.call("start", "shop", "--json").stdout)["id"]
        assert "is stopped" in machine.call("runs", "stop", waits).stdout
        assert "stops" in machine.call("runs", "stop", identity).stdout
    until(lambda: runs(machine)[1]["ended_at"])
    waiting, stopped = runs(machine)
    assert (waiting["state"], waiting["report"]) == ("stopped", None)
    assert (stopped["state"], stopped["report"]["finished"]) == ("stopped", False)
    started.terminate()
    assert started.wait() == 0


def test_a_scheduled_round_is_a_run_of_an_agent(machine):
    one_page = SHOP.replace("article.book", "nothing")
    (machine.folder / "spiders" / "shop.py").write_text(one_page)
    other = one_page.replace('"shop"', '"other"').replace("def shop", "def other")
    (machine.folder / "spiders" / "other.py").write_text(other)
    assert machine.call("run", "spiders/shop.py", "--workers", "1").returncode == 0
    machine.ask(_spoil, "shop")
    loader = machine.start("load", "shop", "--to", "shop.db")
    until(lambda: [one.kind for one in machine.ask(live_workers, "shop")] == ["loader"])
    machine.call("schedule", "add", "shop", "--every", "1s")
    started = agent(machine)
    until(lambda: any(run["state"] == "finished" for run in runs(machine)))
    machine.call("schedule", "remove", "shop")
    first = next(run for run in reversed(runs(machine)) if run["state"] == "finished")
    assert (first["by"], first["report"]["pages_now"]) == ("schedule", 1)
    started.terminate()
    loader.terminate()
    assert (started.wait(), loader.wait()) == (0, 0)


async def _spoil(frontier: Frontier) -> None:
    """There is a job of a newer release, too."""
    await frontier.server.command("HSET", JOBS, "other", '{"format": 99}')


MANY = """
import os
from skitter import Page, Politeness, Retries, Spider

spider = Spider("spider-{number}", start=[os.environ["SKITTER_DEMO_URL"] + "?n={number}"],
                politeness=Politeness(delay_s=0.5),
                retries=Retries(base_s=0.1, max_losses=100))

@spider.page
async def page(page: Page):
    yield {{"url": page.url}}
    for link in page.css("article.book h3 a"):
        yield page.follow(link, book)

@spider.page
async def book(page: Page):
    yield {{"url": page.url}}
"""


@dataclass
class Killer:
    """Kills what it meets: agents, the processes of runs, workers, loaders and the server."""

    machine: Machine
    agents: list[subprocess.Popen[str]]
    chance: random.Random = field(default_factory=lambda: random.Random(20))
    killed: Counter[str] = field(default_factory=Counter)

    def strike(self) -> None:
        kinds = ["agent", "started", "started", "work", "load", "server"]
        what = self.chance.choice(kinds)
        self.killed[what] += 1
        if what == "agent":
            place = self.chance.randrange(len(self.agents))
            self.agents[place].kill()
            self.agents[place].communicate()
            self.agents[place] = agent(self.machine, "--runs", "4")
        elif what == "server":
            kill(self.machine.server_pid())
        elif pids := self.machine.children(what):
            kill(self.chance.choice(pids))


@pytest.mark.chaos
def test_20_spiders_on_2_agents_with_everything_killed_end_once_with_their_reports(machine):
    names = [f"spider-{number}" for number in range(20)]
    for number in range(20):
        code = MANY.format(number=number)
        (machine.folder / "spiders" / f"many{number}.py").write_text(code)
    machine.call("up")
    plain = machine.call("run", "spiders/many0.py", "--job", "alone", "--workers", "1", "--json")
    expected = json.loads(plain.stdout)["pages"]
    assert expected > 5
    asyncio.run(_start(machine, names))

    killer = Killer(machine, [agent(machine, "--runs", "4") for _ in range(2)])
    ends: dict[str, float] = {}
    while len(ends) < len(names):
        for run in until(lambda: _runs_or_none(machine)):
            if run["ended_at"]:
                assert ends.setdefault(run["id"], run["ended_at"]) == run["ended_at"]
        if killer.killed.total() < 60:
            killer.strike()

    found = runs(machine, "--limit", "100")
    assert {run["id"]: run["ended_at"] for run in found} == ends
    assert sum(run["lost"] for run in found) > 5  # they were hit
    for run in found:
        report = run["report"]
        assert (run["state"], report["finished"]) == ("finished", True), run
        assert (report["pages"], report["items"]) == (expected, expected), run
        assert report["pages_now"] == expected, run
        assert machine.call("audit", run["job"]).returncode == 0
    for process in killer.agents:
        process.terminate()
        process.communicate()


async def _start(machine: Machine, names: list[str]) -> None:
    async with open_server(Settings(directory=machine.folder / ".skitter")) as server:
        for name in names:
            await Runs.on(server).start(Spec(spider=name), new_id(), job=name)


def _runs_or_none(machine) -> list[dict[str, Any]] | None:
    """None: the server was killed a moment ago."""
    answer = machine.call("runs", "--json", "--limit", "100")
    return json.loads(answer.stdout) if answer.returncode == 0 else None


PROJECT = {
    "scrapy.cfg": "[settings]\ndefault = shelf.settings\n",
    "shelf/__init__.py": "",
    "shelf/spiders/__init__.py": "",
    "shelf/settings.py": "BOT_NAME = 'shelf'\nSPIDER_MODULES = ['shelf.spiders']\n",
    "shelf/spiders/shelves.py": """
import os
from scrapy import Spider

class Shelves(Spider):
    name = "shelves"
    start_urls = [os.environ["SKITTER_DEMO_URL"]]

    def __init__(self, kind="book", *words, **more):
        super().__init__(*words, **more)
        self.kind = kind
        if "place" in more:
            self.start_urls = [more["place"]]

    def parse(self, response):
        yield {"kind": self.kind}
        for link in response.css("article.book h3 a"):
            yield response.follow(link, self.parse_book)

    def parse_book(self, response):
        yield {"kind": self.kind}
""",
}


@pytest.fixture
def project(machine):
    for name, code in PROJECT.items():
        (machine.folder / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (machine.folder / "project" / name).write_text(code)
    return machine


def _kill_and_see_another(machine: Machine, what: str) -> None:
    [process] = until(lambda: machine.children(what))
    kill(process)
    until(lambda: machine.children(what) not in ([], [process]))


def test_a_scrapy_projects_run_goes_on_whatever_is_killed_and_ends_once(project):
    machine = project
    started = agent(machine, "--spiders", "project/scrapy.cfg")
    assert (
        "its project says where items go" in machine.call("start", "shelves", "-o", "a.db").stderr
    )
    assert (
        "did you mean limits.max_pages"
        in machine.call("start", "shelves", "--max-items", "1").stderr
    )
    with machine.shop.silent():
        words = ("start", "shelves", "-a", "kind=rare", "-a", "other=1", "--workers", "2", "--json")
        identity = json.loads(machine.call(*words).stdout)["id"]
        for what in ("node", "started"):
            _kill_and_see_another(machine, what)
    run = until(lambda: runs(machine)[0]["ended_at"] and runs(machine)[0])
    assert (run["id"], run["state"], run["lost"], run["job"]) == (
        identity,
        "finished",
        1,
        "shelves",
    )
    assert run["version"].startswith("shelves ")
    assert run["report"]["pages_now"] == run["report"]["pages"] >= run["report"]["items"]
    pages = [entry.page for entry in machine.shop.log()]
    assert pages.count("/") == 1  # a node that comes late begins nothing anew
    assert run["report"]["items"] == len(set(pages))
    until(lambda: not machine.children("node"))
    assert "shelves" not in machine.call("status").stdout  # SCHEDULER_PERSIST is not set

    place = machine.shop.url.replace("localhost", "127.0.0.1")
    refused = machine.call("start", "shelves", "-a", f"place={place}", "--wait")
    assert refused.returncode == 1
    assert "is a loopback address" in refused.stdout
    assert len(machine.shop.log()) == len(pages)
    started.terminate()
    assert started.wait() == 0
