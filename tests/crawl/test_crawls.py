"""A spider runs: the exact set of items, whatever happens on the way."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections import Counter
from itertools import pairwise
from urllib.parse import urlsplit

import pytest

from bookshop import expected_dead, expected_items, fetched_twice, trespasses
from crawl.conftest import kill
from skitter.demo import SPIDER
from skitter.embedded import ServerOptions, start, stop
from skitter.frontier.audit.auditor import audit
from skitter.frontier.audit.rules import AuditReport
from skitter.frontier.dead import dead_letters
from skitter.frontier.frontier import Frontier
from skitter.frontier.transport.keys import feed_key

pytestmark = pytest.mark.timeout(300)


def in_order(items):
    return sorted(items, key=lambda item: item["upc"])


def assert_complete(machine, shop) -> None:
    """Every book once, dead letters as foreseen, every URL accounted for."""
    assert in_order(machine.rows()) == in_order(expected_items(shop.expected))

    async def account_for_all(frontier: Frontier) -> tuple[list[str], AuditReport]:
        return [one.url async for one in dead_letters(frontier)], await audit(frontier)

    dead, found = machine.ask(account_for_all)
    assert sorted(dead) == sorted(expected_dead(shop.expected, shop.url))
    assert (found.problems, found.exact) == (set(), True)


def test_a_crawl_brings_exactly_the_items_of_the_site_and_asks_politely(open_shop, make_machine):
    shop = open_shop()
    machine = make_machine(shop)

    done = machine.run("--workers", "2", "--json")

    assert done.returncode == 0, done.stderr
    assert_complete(machine, shop)
    assert machine.call("audit", "books").returncode == 0
    log = shop.log()
    assert fetched_twice(log) == []
    assert trespasses(log) == []
    assert Counter(entry.page for entry in log)["/robots.txt"] == 1
    report = json.loads(done.stdout)
    assert (report["finished"], report["pending"], report["items_waiting"]) == (True, 0, 0)


def test_running_it_again_before_a_page_is_due_says_so(open_shop, make_machine):
    shop = open_shop(books=50)
    machine = make_machine(shop)
    machine.run("--revisit")
    asked = len(shop.log())

    again = machine.run("--revisit")

    assert re.search(
        r"books is finished, and none of the \d+ pages to revisit is due yet", again.stderr
    )
    assert len(shop.log()) == asked


def test_revisits_that_come_too_late_say_how_many_pages_they_leave_out(open_shop, make_machine):
    machine = make_machine(open_shop(books=50))
    machine.run("--max-pages", "4")

    late = machine.run("--max-pages", "6", "--revisit")
    later = machine.run("--max-pages", "6", "--revisit")

    left_out = "4 pages were done by books without --revisit, and will not be visited again"
    assert left_out in late.stderr
    assert left_out in later.stderr


def test_running_it_again_fetches_nothing_and_fresh_fetches_all(open_shop, make_machine):
    shop = open_shop(books=50)
    machine = make_machine(shop)
    machine.run()
    asked = len(shop.log())

    again = machine.run()
    refused = machine.run("--fresh")
    fresh = machine.run("--fresh", "--yes", "--json")

    assert again.returncode == 0
    assert "is finished, and its start URLs are not new: --fresh starts over" in again.stderr
    assert "`skitter dead retry books --all` queues its dead letters again" in again.stderr
    assert refused.returncode == 2
    assert json.loads(fresh.stdout)["pages_now"] > 50
    assert len(shop.log()) > 1.5 * asked
    assert_complete(machine, shop)


#: A worker is one of them in test_a_crashing_worker_is_started_again.
VICTIMS = [
    "load",
    "everything",
    # In every run, tests/storm kills a supervisor and tests/chaos/test_killed_server.py a server.
    pytest.param("run", marks=pytest.mark.chaos),
    pytest.param("server", marks=pytest.mark.chaos),
]


@pytest.mark.parametrize("victim", VICTIMS)
def test_kill_9_in_the_middle_and_resume_to_the_same_items(open_shop, make_machine, until, victim):
    shop = open_shop(latency_s=0.05)
    machine = make_machine(shop)
    crawl = machine.start("run", str(SPIDER), "--workers", "2", "--concurrency", "4")
    until(lambda: len(machine.rows()) > 10)

    if victim in ("server", "everything"):
        kill(machine.server_pid())
    if victim == "everything":
        crawl.kill()
    if victim == "run":
        crawl.kill()
    kill(*machine.children("skitter" if victim == "everything" else victim))
    if victim in ("run", "everything"):
        crawl.wait()
        assert len(machine.rows()) < len(expected_items(shop.expected))
    _, said = crawl.communicate(timeout=100)
    if crawl.returncode:  # else it went on by itself
        done = machine.run("--json")
        assert done.returncode == 0, said + done.stderr

    assert_complete(machine, shop)


def test_two_machines_share_one_crawl_and_fetch_no_page_twice(open_shop, make_machine, short_dir):
    shop = open_shop(latency_s=0.03)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = short_dir / "shared"
    start(home, ServerOptions(port=port, password="secret"))
    try:
        redis = f"redis://:secret@127.0.0.1:{port}"
        one = make_machine(shop, SKITTER_REDIS_URL=redis)
        two = make_machine(shop, SKITTER_REDIS_URL=redis)
        helper = two.start("worker", str(SPIDER), "--processes", "2", "--concurrency", "4")
        main = one.start("run", str(SPIDER), "--workers", "2", "--concurrency", "4", "--json")
        out, err = main.communicate(timeout=600)
        helper.communicate(timeout=600)

        assert main.returncode == 0, err
        assert helper.returncode == 0
        assert_complete(one, shop)
        assert fetched_twice(shop.log()) == []
        assert json.loads(out)["finished"]
    finally:
        stop(home)


def test_a_stopped_crawl_hands_back_what_it_holds_and_exits_130(open_shop, make_machine, until):
    shop = open_shop(latency_s=0.1)
    machine = make_machine(shop)
    crawl = machine.start("run", str(SPIDER), "--workers", "2", "--concurrency", "4")
    until(lambda: len(machine.rows()) > 5)

    crawl.send_signal(signal.SIGINT)
    out, _ = crawl.communicate(timeout=600)

    stats = machine.stats()
    assert crawl.returncode == 130
    assert "stopped; run it again to continue" in out
    assert (stats.leased, stats.lost) == (0, 0)
    assert machine.run().returncode == 0
    assert_complete(machine, shop)


def test_what_is_pushed_to_the_feed_of_a_living_crawl_is_fetched(open_shop, make_machine, until):
    shop = open_shop(books=50)
    machine = make_machine(shop)
    machine.start("run", str(SPIDER), "--workers", "1", "--keep-alive")
    until(lambda: len(machine.rows()) == 50)
    until(lambda: machine.stats().finished)

    client = _client(machine)
    client.lpush(feed_key("books"), f"{shop.url}?fed=1", "no url at all")

    until(lambda: any("fed=1" in entry.target for entry in shop.log()))
    until(lambda: client.llen(feed_key("books")) == 0)
    client.close()
    found = machine.call("dead", "list", "books", "--match", "no url at all", "--json")
    assert json.loads(found.stdout)[0]["request"]["meta"] == {"message": "no url at all"}

    second = machine.call("run", str(SPIDER), "--max-pages", "70")
    assert "all its workers now obey max_pages=70 (not none)." in second.stderr


def _client(machine):
    import redis

    return redis.Redis(unix_socket_path=str(machine.folder / ".skitter" / "valkey.sock"))


def test_a_crawl_without_a_spider_writes_pages_as_json_lines(open_shop, make_machine):
    shop = open_shop(books=50)
    machine = make_machine(shop)

    done = machine.call(
        "crawl", shop.url, "--depth", "1", "--rate", "none", "--out", "pages.jsonl", "--json"
    )

    assert done.returncode == 0, done.stderr
    pages = [json.loads(line) for line in (machine.folder / "pages.jsonl").read_text().splitlines()]
    home = next(page for page in pages if urlsplit(page["url"]).path == "/")
    assert home["status"] == 200
    assert home["title"]
    assert len(home["links"]) > 10
    assert json.loads(done.stdout)["pages"] == len(pages) + _redirects(shop)


def test_crawls_of_two_sites_in_one_folder_have_a_file_each(open_shop, make_machine):
    shop = open_shop(books=50)
    machine = make_machine(shop)

    for url in (shop.url, open_shop(books=50).url):
        done = machine.call("crawl", url, "--max-pages", "1", "--rate", "none", "-p", "1")
        assert done.returncode == 0, done.stderr

    assert len(list(machine.folder.glob("localhost*.jsonl"))) == 2


def _redirects(shop) -> int:
    return len({entry.page for entry in shop.log() if 300 <= entry.status < 400})


def test_a_polite_crawl_keeps_its_distance_over_all_workers(open_shop, make_machine):
    shop = open_shop(books=50)
    machine = make_machine(shop)

    machine.call(
        "crawl", shop.url, "--max-pages", "8", "--rate", "5", "--workers", "2", "--out", "x.jsonl"
    )

    pages = [entry for entry in shop.log() if entry.page != "/robots.txt"]
    assert len(pages) == 8
    gaps = [after.monotonic - before.monotonic for before, after in pairwise(pages)]
    # The server hands one out every 0.2 s; a worker may be a little late with one and not the next.
    assert sum(gaps) > 7 * 0.2 * 0.9


def test_a_spider_with_an_error_shows_the_users_own_line(open_shop, make_machine):
    machine = make_machine(open_shop(books=50))
    (machine.folder / "bad.py").write_text("def broken(:")

    done = machine.call("run", "bad.py")

    assert done.returncode == 2
    assert "invalid syntax" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_crashing_worker_is_started_again(open_shop, make_machine, until):
    shop = open_shop(latency_s=0.05)
    machine = make_machine(shop)
    crawl = machine.start("run", str(SPIDER), "--workers", "2", "--concurrency", "4")
    first = until(lambda: len(found := machine.children("work")) == 2 and found)

    kill(first[0])

    until(lambda: len(now := machine.children("work")) == 2 and set(now) != set(first))
    _, err = crawl.communicate(timeout=600)
    assert crawl.returncode == 0, err
    assert_complete(machine, shop)
    logs = machine.call("logs", "books", "--level", "error").stdout
    assert "was killed by SIGKILL" in logs
    assert "returned to the queue" in logs


def test_scaling_while_it_runs(open_shop, make_machine, until):
    shop = open_shop(latency_s=0.2)
    machine = make_machine(shop)
    crawl = machine.start("run", str(SPIDER), "--workers", "1", "--concurrency", "2")
    until(lambda: len(machine.children("work")) == 1)

    machine.call("scale", "books", "3")

    until(lambda: len(machine.children("work")) == 3)
    crawl.send_signal(signal.SIGINT)
    crawl.communicate(timeout=600)
    assert crawl.returncode == 130
