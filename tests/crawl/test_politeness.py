"""What the frontier knows about politeness outlives its workers, and agrees with the site's log."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest

from crawl.clocked import clocked_site
from crawl.conftest import kill
from crawl.test_departures import write_spider
from skitter.frontier.audit.why import look_at_host

pytestmark = pytest.mark.timeout(300)

DELAY_S = 1.0
#: A request may be on its way for longer than the next one, on a machine with much to do.
SMALLEST_S = 0.55 * DELAY_S


def test_the_audit_agrees_with_the_log_of_the_site_while_workers_are_killed(make_machine, until):
    with clocked_site(pages=12, latency_s=0.1) as site:
        machine = make_machine(site)
        write_spider(machine, site, delay_s=DELAY_S)
        run = machine.start("run", "clock.py", "--workers", "4", "-o", "rows.jsonl")
        for asked in (4, 6, 8):
            until(lambda: len(site.arrivals) >= asked)  # noqa: B023
            kill(random.choice(until(lambda: machine.children("work"))))
        _, err = run.communicate(timeout=600)
    assert run.returncode == 0, err

    audited = machine.call("audit", "clock", "--politeness", "--json")

    [host] = json.loads(audited.stdout)
    known, unknown = host["requests"], host["vanished"]
    assert known <= len(site.arrivals) <= known + unknown
    assert min(site.gaps) >= SMALLEST_S
    assert host["smallest_gap_s"] >= SMALLEST_S
    assert host["smallest_gap_s"] == pytest.approx(min(site.gaps), abs=DELAY_S - SMALLEST_S)
    assert host["most_in_flight"] == site.most_in_flight == 1
    assert host["disallowed"] == []


def test_workers_that_are_all_killed_leave_the_rest_and_the_delay_of_a_host_behind(
    make_machine, until
):
    with clocked_site(pages=7, busy={"/p/2": "4"}) as site:
        machine = make_machine(site)
        write_spider(machine, site, delay_s=DELAY_S)
        run = machine.start("run", "clock.py", "--workers", "2", "-o", "rows.jsonl")
        until(lambda: "/p/2" in site.paths)
        host = site.url.split("/")[2]

        async def is_known(frontier):
            return "raised_ms" in (await look_at_host(frontier, host)).own

        until(lambda: machine.ask(is_known, "clock"))
        kill(run.pid, *machine.children("work"))
        run.communicate()

        again = machine.call("run", "clock.py", "--workers", "2", "-o", "rows.jsonl")

    assert again.returncode == 0, again.stderr
    refused = site.paths.index("/p/2")
    moments = [moment for moment, _ in site.arrivals[refused:]]
    first, *gaps = (after - before for before, after in pairwise(moments))
    assert first >= 4
    assert min(gaps) >= 2 * SMALLEST_S


def test_two_crawls_of_one_host_that_share_are_polite_together(make_machine):
    with clocked_site(pages=5) as site:
        machine = make_machine(site)
        write_spider(machine, site, delay_s=DELAY_S)
        share = ("--workers", "1", "-s", "politeness.shared=true")
        first = machine.start("run", "clock.py", "--job", "one", *share, "-o", "one.jsonl")
        second = machine.start("run", "clock.py", "--job", "two", *share, "-o", "two.jsonl")
        for run in (first, second):
            _, err = run.communicate(timeout=600)
            assert run.returncode == 0, err

    assert len(site.paths) == 2 * 6
    assert min(site.gaps) >= SMALLEST_S
