"""What a crawl says: at its end, and while it runs."""

from __future__ import annotations

import json

import pytest

from skitter.crawl.lifecycle import _why_idle
from skitter.crawl.plan import Plan
from skitter.demo import SPIDER
from skitter.model import State, Stats
from skitter.settings import resolve
from skitter.spider import Spider

pytestmark = pytest.mark.timeout(300)

TALKING = """
import sys
from skitter import Limits, Politeness, Spider
spider = Spider("talk", ["%URL%"], politeness=Politeness(delay_s=0, max_in_flight=4),
                limits=Limits(max_pages=3))
@spider.page
def page(page):
    print("printed by a handler")
    yield {"url": page.url}
    yield from page.follow_all()
"""


GOES_WRONG = """
import sys
from skitter import Limits, Politeness, Spider
spider = Spider("wrong", ["%URL%"], politeness=Politeness(delay_s=0, max_in_flight=4),
                limits=Limits(max_pages=3))
@spider.page
def page(page):
    yield {"url": page.url}
    yield from page.follow_all()
@spider.transform
def leave(item):
    sys.exit(1)
@spider.on_finish
def boast(stats):
    raise ValueError("no postcard")
"""

MOSTLY_DEAD = """
from skitter import Politeness, Spider
spider = Spider("dead", ["%URL%", "%URL%/missing", "%URL%/gone"],
                politeness=Politeness(delay_s=0, max_in_flight=4))
@spider.page
def page(page):
    yield {"url": page.url}
"""


def test_a_crawl_by_one_kind_of_workers_says_what_is_left_to_others():
    plain, rendering = Spider("plain", ["https://a.test/"]), Spider("made", ["https://a.test/"])

    @plain.page
    @rendering.page(render=True)
    def page(page): ...

    def left(spider: Spider, only: str | None) -> str:
        config = resolve({"workers.only": only})
        return Plan(spider=spider, job="a", config=config, out="").left_to_others

    assert left(rendering, None) == left(plain, "http") == ""
    assert left(rendering, "http").startswith("--only http: pages that need a browser wait for")
    assert left(rendering, "browser").startswith("--only browser: pages that need no browser wait")


@pytest.fixture
def machine(open_shop, make_machine):
    shop = open_shop(books=50)
    machine = make_machine(shop)
    for name, text in (("talk", TALKING), ("wrong", GOES_WRONG), ("dead", MOSTLY_DEAD)):
        (machine.folder / f"{name}.py").write_text(text.replace("%URL%", shop.url))
    return machine


def test_when_nothing_was_fetched_it_is_no_success(machine):
    done = machine.call("crawl", f"{machine.shop.url}/missing", "--rate", "none", "-p", "1")

    assert done.returncode == 1, done.stderr
    assert "no page was completed" in done.stdout
    assert "missing: 404 Not Found" in done.stdout  # it says why


def test_when_every_item_was_rejected_it_is_no_success_and_hooks_fail_after_the_report(machine):
    done = machine.call("run", "wrong.py", "--workers", "1")

    assert done.returncode == 1, done.stderr
    assert "no item was stored: all of them were rejected. 3 pages in" in done.stdout
    assert "items    0 in wrong.db\nrejected 3 items: `skitter rejected wrong`" in done.stdout
    assert "an on_finish hook failed: ValueError: no postcard (wrong.py:15: raise" in done.stderr
    aside = json.loads(machine.call("rejected", "wrong", "--json").stdout)
    assert "transform leave failed: SystemExit: 1 (wrong.py:12: sys.exit(1))" in aside[0]["reason"]


def test_when_most_urls_are_dead_it_is_no_success_unless_so_many_may(machine):
    done = machine.call("run", "dead.py", "--workers", "1")
    again = machine.call("run", "dead.py", "--workers", "1", "--max-dead", "2", "--json")

    assert done.returncode == 1, done.stderr
    assert "finished, but most URLs are dead. 1 page in" in done.stdout
    rows = machine.call("export", "dead", "--to", "-").stdout
    assert [json.loads(line)["url"] for line in rows.splitlines()] == [machine.shop.url]
    report = json.loads(again.stdout)
    assert (again.returncode, report["dead"], report["items"], report["rejected"]) == (0, 2, 1, 0)


def test_a_crawl_that_ends_at_max_pages_says_so_and_its_processes_may_print(machine):
    done = machine.call("run", "talk.py", "--workers", "1", "-o", "talk.jsonl", "--json")

    report = json.loads(done.stdout)  # what handlers print is not in the way
    assert done.returncode == 0, done.stderr
    assert report["end"] == f"stopped at max_pages=3; {report['pending']:,} URLs left"
    assert report["pending"] > 0
    assert done.stderr.count("printed by a handler") == 3
    log = machine.folder / ".skitter" / "logs" / "talk.log"
    assert log.read_text().count("printed by a handler") == 3

    again = machine.call("run", "talk.py", "--workers", "1", "-o", "talk.jsonl")
    assert "talk has reached its max_pages: a larger --max-pages, or none," in again.stderr
    assert "--fresh" not in again.stderr  # it would lose what is left

    machine.call("set", "talk", "--max-pages", "5")
    joined = machine.call("worker", "talk.py", "--processes", "1", "--name", "worker-3")

    assert joined.returncode == 0, joined.stderr
    assert machine.stats("talk").done == 5  # whoever joins takes the job as it is
    assert " worker-3-" in machine.call("logs", "talk").stdout


def test_a_worker_that_comes_first_makes_the_job_as_its_spider_wants_it(machine, until):
    machine.start("up").communicate()
    helper = machine.start("worker", str(SPIDER), "--processes", "1", "--job", "shelf")
    until(lambda: machine.children("work"))

    options = json.loads(machine.call("set", "shelf", "--json").stdout)

    assert options["politeness"]["delay_s"] == 0
    assert options["limits"]["max_items"] == 50_000
    helper.terminate()
    adding = f"It has no URLs yet: `skitter run {SPIDER} --job shelf` adds some."
    assert adding in helper.communicate()[1]


@pytest.mark.parametrize(
    ("counts", "keep_alive", "said"),
    [
        ({}, False, "--fresh starts over, `skitter redo j.py` handles its pages again."),
        ({"dead": 1}, False, "`skitter dead retry j --all` queues its dead letters again."),
        ({"kept_out": {"pattern": 3}}, False, "exclude or include refused are found again only"),
        (
            {"kept_out": {"drain": 3}},
            False,
            "Links that drain refused are found again only with --fresh.",
        ),
        ({"revisits": 2}, False, "none of the 2 pages to revisit is due yet."),
        ({"revisits": 2, "next_visit_s": 65.0}, False, "due yet, the next one in 1 min 5 s."),
        ({}, True, "waits for new URLs, revisits and scheduled rounds."),
    ],
)
def test_a_crawl_that_has_nothing_to_do_says_what_would_change_that(counts, keep_alive, said):
    idle = _why_idle(Stats(job="j", state=State.RUNNING, **counts), "j.py", keep_alive=keep_alive)
    assert said in idle
    assert ("--fresh" in idle) == (not keep_alive and "revisits" not in counts)
