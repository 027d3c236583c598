"""The benchmark of a crawl runs, at sizes at which it measures nothing. No clock is judged here."""

from __future__ import annotations

import asyncio
import io
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from rich.console import Console
from selectolax.lexbor import LexborHTMLParser

from benchmarks import report_table
from benchmarks.crawl import Sizes, run_crawl
from benchmarks.crawl.benchmark import measure
from benchmarks.crawl.field import begin, check_all, synthetic_site
from benchmarks.crawl.memory import measure_memory
from benchmarks.crawl.pages import LINKS, PAGE_BYTES, random_links, tree_links, write_page
from benchmarks.crawl.peers import Rival
from benchmarks.crawl.processes import run_peer, run_to_end, started
from benchmarks.crawl.profile import FRONTIER, LOOP, PARSE, THREADS, count_layers, make_findings
from benchmarks.crawl.profile import LINKS as LINKS_LAYER
from benchmarks.crawl.scale import pages_per_second
from benchmarks.crawl.site import Site, open_site
from benchmarks.crawl.speed import crawl_bare
from benchmarks.crawl.synthetic import make_answer
from benchmarks.crawl.tasks import Worked
from benchmarks.ground import Ground, prepare_ground
from benchmarks.peers import Peer
from benchmarks.report import Report, describe_machine
from needs import need
from skitter.errors import BadOption, InfrastructureError

TINY = Sizes(
    pages=60,
    rounds=1,
    rival_pages=30,
    rival_rounds=1,
    scale_s=0.5,
    scale_rounds=1,
    memory_pages=100,
    profile_pages=60,
)
WORKED = Worked(
    pages=100,
    errors=0,
    seconds=1.0,
    cpu_s=0.05,
    main_thread_cpu_s=0.04,
    rss_mb=60.0,
    peak_mb=61.0,
)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
async def ground(told: list[str]) -> AsyncIterator[Ground]:
    async with prepare_ground(told.append) as prepared:
        yield prepared


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    need("nginx")
    async with open_site(tmp_path / "site") as opened:
        yield opened


# --- what is crawled ------------------------------------------------------------------------------


def test_a_page_has_its_size_its_links_and_a_title_of_its_own():
    page = write_page(7, random_links(7, 5000))
    tree = LexborHTMLParser(page.decode())

    assert len(page) == PAGE_BYTES
    assert len(tree.css("a[href]")) == LINKS
    assert [title.text() for title in tree.css("title")] == ["Page 7"]


@pytest.mark.parametrize("links", [random_links, tree_links])
def test_every_page_of_a_site_can_be_reached_from_the_first(links):
    pages, found, todo = 500, {0}, [0]
    while todo:
        new = set(links(todo.pop(), pages)) - found
        found |= new
        todo += new

    assert found == set(range(pages))


def test_a_synthetic_site_has_its_pages_and_no_others():
    assert make_answer(b"GET /p/3.html HTTP/1.1\r\nHost: x", 10).startswith(b"HTTP/1.1 200 OK")
    for target in (b"/p/10.html", b"/robots.txt", b"/"):
        assert make_answer(b"GET %b HTTP/1.1" % target, 10).startswith(b"HTTP/1.1 404")


async def test_a_site_is_written_once_and_served_by_nginx(site):
    first = site.publish(30)

    assert site.publish(30) == first
    assert len(list((site.www / "p30").iterdir())) == 30
    assert (await crawl_bare(first, 30)).pages == 30
    assert site.server.startswith("nginx")


def test_without_nginx_it_is_one_sentence_and_what_to_do(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, path: None)
    with pytest.raises(InfrastructureError, match="apt-get install nginx-light"):
        run_crawl()


# --- who crawls -----------------------------------------------------------------------------------


@pytest.mark.chaos
async def test_the_celery_engine_crawls_the_same_site_beside_nobody(ground, site, told):
    [finding] = await measure(ground, site, [], TINY, ["celery"])

    assert finding.measured > 0
    assert finding.ok is None


async def test_a_worker_and_a_bare_loop_meet_on_the_same_site(ground, site, told):
    findings = await measure(ground, site, [], TINY, ["speed"])

    beside_bare, cpu = findings
    assert beside_bare.measured > 0
    assert beside_bare.ok is not None
    assert beside_bare.goal == "60% of the bare loop"
    assert cpu.ok is None
    assert "speed: round 1 of 1, worker" in told
    assert await ground.server.command("DBSIZE") == 0


async def test_a_crawl_that_missed_a_page_is_no_result(ground):
    frontier = await begin(ground, "http://a.test/")
    with pytest.raises(AssertionError, match="0 of 1 pages done"):
        await check_all(frontier, 1)


async def test_a_bare_loop_that_missed_a_page_is_no_result(site):
    with pytest.raises(AssertionError, match="30 of 31 pages"):
        await crawl_bare(site.publish(30), 31)


async def test_memory_is_that_of_a_worker_that_did_all_pages(ground):
    [found] = await measure_memory(ground, pages=100)

    assert 10 < found.measured < 500
    assert found.goal == "under 150"


async def test_workers_are_counted_while_all_are_at_work(ground):
    async with synthetic_site(100_000, latency_s=0.05) as seed:
        assert await pages_per_second(ground, seed, workers=2, seconds=0.3) > 0


# --- peers ----------------------------------------------------------------------------------------


def fake_peer(tmp_path: Path, script: str) -> Peer:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return Peer("a peer", python, "crawl_celery.py.txt")


async def test_a_rival_is_judged_by_its_goal_if_it_has_one(ground, site, tmp_path):
    peer = fake_peer(tmp_path, """echo '{"pages": 30, "seconds": 3000}'""")
    rivals = [Rival("slow", peer, {}, least_ratio=30.0), Rival("shown", peer, {})]
    *_, slow, shown = await measure(ground, site, rivals, TINY, ["speed"])

    assert (slow.peer, slow.goal, slow.ok) == (0.01, "30 times", True)
    assert (shown.goal, shown.ok) == ("", None)
    assert slow.ratio is not None
    assert slow.ratio > 30


async def test_a_rival_that_missed_a_page_is_no_result(ground, site, tmp_path):
    peer = fake_peer(tmp_path, """echo '{"pages": 29, "seconds": 1}'""")
    with pytest.raises(AssertionError, match="slow: 29 of 30 pages"):
        await measure(ground, site, [Rival("slow", peer, {})], TINY, ["speed"])


async def test_a_peer_that_does_not_end_is_ended(tmp_path):
    with pytest.raises(InfrastructureError, match="a peer was not done after 0 s"):
        await run_peer(fake_peer(tmp_path, "exec sleep 60"), limit_s=0.2)


# --- processes ------------------------------------------------------------------------------------


async def test_a_process_that_does_not_end_is_ended():
    with pytest.raises(InfrastructureError, match="not done after 0 s"):
        await run_to_end([need("bash"), "-c", "exec sleep 60"], limit_s=0.2)


async def test_a_process_that_fails_is_an_error():
    with pytest.raises(InfrastructureError, match="exit code 3"):
        await run_to_end([need("bash"), "-c", "exit 3"], limit_s=10)


async def test_a_process_ends_with_its_block():
    async with started([need("sleep"), "60"]) as process:
        assert process.returncode is None
    assert process.returncode == -15
    assert await asyncio.wait_for(process.wait(), 1) == -15


# --- where the time goes --------------------------------------------------------------------------


def test_a_sample_belongs_to_the_innermost_layer_it_is_in():
    outer = "Runner.run (/usr/lib/asyncio/runners.py:118)"
    links = "Page._find_links (/x/skitter/page.py:261)"
    join = "join (/x/skitter/urls.py:112)"
    stacks = [
        f"{outer};{links};{join} 5",
        f"{outer};Page.tree (/x/skitter/page.py:189) 3",
        f"{outer};offer (/x/skitter/frontier/wire.py:40);identify (/x/skitter/urls.py:84) 2",
        f"{outer} 1",
        "_find_and_load (<frozen importlib._bootstrap>:1176) 9",
    ]

    assert count_layers(stacks) == {LINKS_LAYER: 5, PARSE: 3, FRONTIER: 2, LOOP: 1}


def test_the_layers_of_a_page_add_up_to_its_cpu_time():
    findings = make_findings(Counter({PARSE: 3, LOOP: 1}), WORKED)
    shown = {finding.what: finding.measured for finding in findings}

    assert shown == pytest.approx(
        {
            f"CPU of a page: {PARSE}": 300,
            f"CPU of a page: {LOOP}": 100,
            f"CPU of a page: {THREADS}": 100,
        }
    )
    assert sum(shown.values()) == pytest.approx(WORKED.cpu_s / WORKED.pages * 1e6)


# --- the whole ------------------------------------------------------------------------------------


def test_an_unknown_measurement_is_refused_before_anything_starts():
    with pytest.raises(BadOption, match="one of speed, celery, scale, memory, profile"):
        run_crawl(only=["sped"])


def test_the_table_says_which_benchmark_it_is():
    machine = describe_machine(server="valkey 9", event_loop="uvloop", peer="")
    findings = make_findings(Counter({PARSE: 1}), WORKED)
    console = Console(record=True, width=200, file=io.StringIO())
    report = Report(machine=machine, quick=True, seconds=1.0, findings=findings)
    console.print(report_table(report, what="crawl"))

    assert "benchmarks crawl --quick" in console.export_text()
