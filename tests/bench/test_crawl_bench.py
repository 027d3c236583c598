"""The benchmark of a crawl runs, at sizes at which it measures nothing. No clock is judged here.

One measurement runs in every test run; the others are `chaos`.
"""

from __future__ import annotations

import asyncio
import io
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from rich.console import Console
from selectolax.lexbor import LexborHTMLParser

from benchmarks.contest import Contender, Figure
from benchmarks.crawl import CRAWL
from benchmarks.crawl.catalogue import Catalogue
from benchmarks.crawl.celery import Celery
from benchmarks.crawl.docs import Docs
from benchmarks.crawl.job import RATE, begin, check_all, synthetic_site
from benchmarks.crawl.load import Load
from benchmarks.crawl.memory import Memory
from benchmarks.crawl.pending import Pending
from benchmarks.crawl.profile import (
    FRONTIER,
    LOOP,
    PARSE,
    THREADS,
    count_layers,
    make_rows,
    split_time,
)
from benchmarks.crawl.profile import LINKS as LINKS_LAYER
from benchmarks.crawl.scale import pages_per_second
from benchmarks.crawl.shop import Shop
from benchmarks.crawl.speed import Speed, crawl_bare
from benchmarks.crawl.start import Start, cpu_time_s
from benchmarks.crawl.tls import Tls
from benchmarks.pages import (
    LINKS,
    PAGE_BYTES,
    links_found_twice,
    random_links,
    tree_links,
    write_page,
)
from benchmarks.peers import SCRAPY_CATALOGUE, SCRAPY_CRAWL
from benchmarks.processes import run_to_end, started
from benchmarks.render import report_table
from benchmarks.report import Finding, Report, describe_machine
from benchmarks.suite import measure, run_suite
from benchmarks.synthetic import make_answer
from benchmarks.worker import Worked
from needs import need
from skitter.errors import BadOption, InfrastructureError

SPEED = Speed(pages=60, rounds=1, peer_pages=30, peer_rounds=1, peers=())
WORKED = Worked(
    pages=100,
    errors=0,
    seconds=1.0,
    cpu_s=0.05,
    main_thread_cpu_s=0.04,
    rss_mb=60.0,
    peak_mb=61.0,
)


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


def test_links_that_are_found_twice_have_two_pages_that_lead_to_them():
    found = Counter(link for number in range(100) for link in links_found_twice(number))

    assert {found[link] for link in range(6, 501)} == {2}


def test_a_synthetic_site_has_its_pages_and_no_others():
    assert make_answer(b"GET /p/3.html HTTP/1.1\r\nHost: x", 10).startswith(b"HTTP/1.1 200 OK")
    for target in (b"/p/10.html", b"/robots.txt", b"/"):
        assert make_answer(b"GET %b HTTP/1.1" % target, 10).startswith(b"HTTP/1.1 404")


async def test_a_site_is_written_once_and_served_by_nginx(with_site):
    first = with_site.publish(30)

    assert with_site.publish(30) == first
    assert len(list((with_site.site.www / "p30").iterdir())) == 30
    assert (await crawl_bare(with_site, first, 30))[RATE][0] > 0
    assert ", nginx" in await with_site.version()


def test_without_nginx_it_is_one_sentence_and_what_to_do(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, path: None)
    with pytest.raises(InfrastructureError, match="apt-get install nginx-light"):
        run_suite(CRAWL)


# --- who crawls -----------------------------------------------------------------------------------


@pytest.mark.chaos
async def test_the_celery_engine_crawls_the_same_site_as_our_own_workers(with_site):
    [finding] = await measure(with_site, [Celery(pages=60, rounds=1, peers=())])

    assert finding.measured > 0
    assert finding.goal == "0.8 times"


async def test_a_worker_and_a_bare_loop_meet_on_the_same_site(with_site, told):
    findings = await measure(with_site, [SPEED])

    beside_bare, cpu, main_cpu = findings
    assert beside_bare.measured > 0
    assert beside_bare.ok is not None
    assert beside_bare.goal == "75% of the bare loop"
    assert cpu.ok is None
    assert main_cpu.measured < cpu.measured
    assert "speed: round 1 of 1, worker" in told
    assert await with_site.server.command("DBSIZE") == 0


@pytest.mark.chaos
async def test_real_documentation_is_crawled_with_and_without_checks(
    with_site, tmp_path, monkeypatch
):
    """As it is after a download: a folder for each package."""
    monkeypatch.setenv("SKITTER_BENCH_DIR", str(tmp_path))
    for package, place in (("a-doc", "a/html"), ("b-doc", "b")):
        folder = tmp_path / "documentation" / package / "usr" / "share" / "doc" / place
        folder.mkdir(parents=True)
        (folder / "index.html").write_text('<title>x</title><a href="1.html">1</a>')
        (folder / "1.html").write_text("<title>one</title>")

    beside_spider, beside_itself, *cpu = await measure(with_site, [Docs(rounds=1)])

    assert ", 5 pages of real documentation" in beside_spider.what
    assert (beside_spider.goal, beside_spider.ok is None) == ("70% of the spider", False)
    assert (beside_itself.goal, beside_itself.ok is None) == ("at most 1.1 times the time", False)
    assert [one.unit for one in cpu] == ["us/page"] * 2


async def test_a_crawl_that_missed_a_page_is_no_result(ground):
    frontier = await begin(ground, "http://a.test/")
    with pytest.raises(AssertionError, match="0 of 1 pages done"):
        await check_all(frontier, 1)


async def test_a_bare_loop_that_missed_a_page_is_no_result(with_site):
    with pytest.raises(AssertionError, match="30 of 31 pages"):
        await crawl_bare(with_site, with_site.publish(30), 31)


@pytest.mark.chaos
async def test_memory_is_that_of_a_worker_that_did_all_pages(ground):
    [found] = await measure(ground, [Memory(pages=100)])

    assert 10 < found.measured < 500
    assert found.goal == "at most 150"


@pytest.mark.chaos
async def test_pages_by_tls_are_fetched_by_both_and_their_authority_is_known(with_site):
    by_clock, per_core, _ = await measure(with_site, [Tls(pages=10, rounds=1)])

    assert by_clock.goal == "80% of the bare loop"
    assert per_core.measured > 0


@pytest.mark.chaos
async def test_a_loader_stores_every_item_in_each_database(ground):
    need("initdb")
    found = await measure(ground, [Load(items=50, rounds=1)])

    assert [one.what.split(",")[0] for one in found] == [
        "one loader into SQLite",
        "one loader into PostgreSQL",
    ]
    assert all(one.measured > 0 for one in found)


@pytest.mark.chaos
async def test_a_worker_is_stopped_when_so_many_urls_wait(ground):
    [found] = await measure(ground, [Pending(urls=500)])

    assert 10 < found.measured < 500
    assert found.goal == "at most 120"


@pytest.mark.chaos
async def test_a_start_is_compared_with_a_python_that_does_nothing(ground):
    menu, by_url, embedded, library = await measure(ground, [Start(rounds=1)])

    assert menu.ratio is not None
    for status in (by_url, embedded):
        assert status.ratio is not None
        assert 1 < menu.ratio < status.ratio
    assert library.ok is None


@pytest.mark.chaos
async def test_whole_commands_are_compared_with_plain_scrapy(with_site):
    rival = replace(SCRAPY_CRAWL, home="", requirements=())
    up, starts, shop, _ = await measure(with_site, [Shop(pages=3, rounds=1, peers=(rival,))])

    assert (up.goal, starts.goal, shop.goal) == ("at most 1.0 s", "at most 1.5 s", "no slower")
    assert up.measured > 0
    assert starts.measured > 0
    assert shop.peer is not None
    assert shop.ratio == pytest.approx(shop.peer / shop.measured)


async def test_a_catalogue_is_stored_by_us_and_by_scrapy(with_site):
    rival = replace(SCRAPY_CATALOGUE, home="", requirements=())
    part = Catalogue(products=22, rounds=1, peer_rounds=1, peers=(rival,))  # two shelves
    [row] = await measure(with_site, [part])

    assert (row.goal, row.unit) == ("5 times", "s")
    assert row.peer is not None
    assert row.ratio == pytest.approx(row.peer / row.measured)


def test_a_command_that_fails_is_no_result():
    with pytest.raises(InfrastructureError, match=r"exit\(3\) failed"):
        cpu_time_s(("-c", "exit(3)"))


@pytest.mark.chaos
async def test_workers_are_counted_while_all_are_at_work(ground):
    async with synthetic_site(100_000, latency_s=0.05) as seed:
        assert await pages_per_second(ground, seed, workers=2, seconds=0.3) > 0


# --- peers ----------------------------------------------------------------------------------------


async def test_a_peer_is_judged_by_its_goal_if_it_has_one(with_site, fake_peer):
    shown = fake_peer("""echo '{"pages": 30, "seconds": 3000}'""")
    slow = replace(shown, title="slow", least_ratio=30.0)
    *_, judged, unjudged = await measure(with_site, [replace(SPEED, peers=(slow, shown))])

    assert (judged.peer, judged.goal, judged.ok) == (0.01, "30 times", True)
    assert (unjudged.goal, unjudged.ok) == ("", None)
    assert judged.ratio is not None
    assert judged.ratio > 30


async def test_a_peer_that_missed_a_page_is_no_result(with_site, fake_peer):
    peer = fake_peer("""echo '{"pages": 29, "seconds": 1}'""")
    with pytest.raises(AssertionError, match="a peer: 29 of 30 pages"):
        await measure(with_site, [replace(SPEED, peers=(peer,))])


async def test_a_peer_that_does_not_end_is_ended(fake_peer):
    with pytest.raises(InfrastructureError, match="a peer was not done after 0 s"):
        await fake_peer("exec sleep 60").run(limit_s=0.2)


# --- processes ------------------------------------------------------------------------------------


async def test_a_process_that_does_not_end_is_ended():
    with pytest.raises(InfrastructureError, match="not done after 0 s"):
        await run_to_end([need("sleep"), "60"], name="it", limit_s=0.2)


async def test_a_process_that_fails_is_an_error():
    with pytest.raises(InfrastructureError, match="exit code 3"):
        await run_to_end([need("bash"), "-c", "exit 3"], name="it", limit_s=10)


async def test_a_process_ends_with_its_block():
    async with started([need("sleep"), "60"]) as process:
        assert process.returncode is None
    assert process.returncode == -15
    assert await asyncio.wait_for(process.wait(), 1) == -15


# --- where the time goes --------------------------------------------------------------------------


def test_a_sample_belongs_to_the_innermost_layer_it_is_in():
    outer = "Runner.run (/usr/lib/asyncio/runners.py:118)"
    links = "Page._find_links (/x/skitter/spider/page/page.py:261)"
    join = "join (/x/skitter/urls.py:112)"
    stacks = [
        f"{outer};{links};{join} 5",
        f"{outer};Document.tree (/x/skitter/spider/page/document.py:189) 3",
        f"{outer};offer (/x/skitter/frontier/wire.py:40);identify (/x/skitter/urls.py:84) 2",
        f"{outer} 1",
        "_find_and_load (<frozen importlib._bootstrap>:1176) 9",
    ]

    assert count_layers(stacks) == {LINKS_LAYER: 5, PARSE: 3, FRONTIER: 2, LOOP: 1}


def profile(samples: dict[str, int]) -> list[Finding]:
    worker = Contender("worker", run=_never)
    worker.series.update(split_time(Counter(samples), WORKED))
    return [row.finding("profile") for row in make_rows(worker)]


async def _never() -> dict[Figure, list[float]]:
    raise NotImplementedError


def test_the_layers_of_a_page_add_up_to_its_cpu_time():
    shown = {finding.what: finding.measured for finding in profile({PARSE: 3, LOOP: 1})}

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
    with pytest.raises(BadOption, match="one of speed, catalogue, docs, archive, tls, celery, "):
        run_suite(CRAWL, only=["sped"])


def test_the_table_says_which_benchmark_it_is():
    machine, findings = describe_machine(server="valkey 9"), profile({PARSE: 1})
    console = Console(record=True, width=200, file=io.StringIO())
    report = Report(machine=machine, quick=True, seconds=1.0, findings=findings)
    console.print(report_table(report, what="crawl"))

    assert "benchmarks crawl --quick" in console.export_text()
