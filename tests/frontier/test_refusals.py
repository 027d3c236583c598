"""What a crawl keeps out is counted by kind, remembered up to a bound, and explained by `why`."""

from __future__ import annotations

import time

import pytest

from cli.conftest import skitter, skitter_here  # noqa: F401
from fetch.site import reply, serve
from skitter.engine.caches import DISALLOWED
from skitter.engine.delivery import Delivery
from skitter.engine.outbox import RequestMemory
from skitter.engine.visit import Completed
from skitter.fetch.robots import RobotsRules, explain_rules
from skitter.frontier import feed
from skitter.frontier.audit.auditor import audit
from skitter.frontier.audit.why import why
from skitter.frontier.feed import ExcludedLink, find_refusal, record_refusals
from skitter.frontier.sites.learned import store_robots
from skitter.model import Completion, Failure, Request
from skitter.spider import HandlerOutput, Refused, Scope, Spider
from skitter.urls import Canonical, fingerprint, identify

HOME = "https://a.test/"
SCOPE = ExcludedLink("scope", "host b.test is not among the allowed hosts", HOME)
ROBOTS = ExcludedLink("robots", "skitter", HOME)
RULES = RobotsRules.from_response(200, b"User-agent: skitter\nDisallow: /secret\n", at=time.time())


def fp(url: str) -> str:
    return fingerprint(identify(url).canonical)


async def test_each_link_is_counted_once_by_kind(frontier):
    await record_refusals(frontier, {"https://b.test/": SCOPE, "https://a.test/secret": ROBOTS})
    await record_refusals(frontier, {"https://b.test/": SCOPE, "https://b.test/2": SCOPE})

    stats = await frontier.stats()
    assert stats.kept_out == {"scope": 2, "robots": 1}
    assert (stats.seen, stats.refused) == (0, 0)
    assert (await audit(frontier)).clean


async def test_the_count_of_many_is_close_and_the_record_is_bounded(frontier, monkeypatch):
    monkeypatch.setattr(feed, "KEPT", 1000)
    urls = [f"https://b.test/{n}" for n in range(6000)]
    for first in range(0, len(urls), 700):
        await record_refusals(frontier, dict.fromkeys(urls[first : first + 700], SCOPE))

    assert (await frontier.stats()).kept_out["scope"] == pytest.approx(6000, rel=0.03)
    known = [url for url in urls if await find_refusal(frontier, fp(url))]
    assert known == urls[-len(known) :]
    assert 500 <= len(known) <= 1000 + 2 * feed.BATCH


async def test_why_tells_what_kept_a_link_out_and_where_it_was(frontier):
    await record_refusals(frontier, {"https://b.test/x?b=1&a=2": SCOPE})

    found = await why(frontier, "https://b.test/x?a=2&b=1")

    assert (found.state, found.refused_by, found.found_on) == ("refused", "scope", HOME)
    assert found.because == [
        "it is out of scope: host b.test is not among the allowed hosts",
        f"it was found on {HOME}",
    ]


async def test_why_tells_the_line_of_robots_txt(frontier):
    await record_refusals(frontier, {"https://a.test/secret/1": ROBOTS})
    await store_robots(frontier, "a.test", RULES.to_bytes(), ttl_s=60)

    found = await why(frontier, "https://a.test/secret/1", robots=read_robots)

    assert found.because[0] == "robots.txt disallows it for skitter"
    assert found.because[-1] == "robots.txt: disallowed by line 2, `Disallow: /secret`."


async def test_why_tells_it_of_a_page_that_is_dead_for_that_reason(frontier):
    url = "https://a.test/secret/1"
    await frontier.add([Request(url=url)])
    [lease] = (await frontier.lease(1)).leases
    await frontier.bury([Failure(lease=lease, error=DISALLOWED)])
    assert (await why(frontier, url, robots=read_robots)).because[-1].startswith("its robots.txt")

    await store_robots(frontier, "a.test", RULES.to_bytes(), ttl_s=60)

    assert "line 2" in (await why(frontier, url, robots=read_robots)).because[-1]


def read_robots(stored: bytes, url: str, name: str | None) -> str:
    return explain_rules(stored, url, name or "Skitter/0.1")


async def test_a_page_that_was_taken_in_later_is_not_called_refused(frontier):
    await record_refusals(frontier, {HOME: SCOPE})
    await frontier.add([Request(url=HOME)])
    assert (await why(frontier, HOME)).state == "pending"


@pytest.mark.parametrize("packed", [b"\xc1", b"\x01", b"\x93\x01\x02\x03"])
async def test_damage_to_the_record_is_survived(frontier, packed):
    key = frontier.home.keys.key("refused", "new")
    await frontier.server.command("HSET", key, fp(HOME), packed)
    assert (await why(frontier, HOME)).state == "unknown"


async def test_what_is_no_url_is_counted_too(frontier):
    await record_refusals(frontier, {"mailto:me": SCOPE, "\ud800": SCOPE, "x" * 100_000: SCOPE})
    assert (await frontier.stats()).kept_out == {"scope": 3}


# --- from a worker --------------------------------------------------------------------------------


async def test_a_worker_tells_each_refusal_once_and_nothing_if_there_is_none(frontier, monkeypatch):
    sent: list[int] = []
    record = feed.record_refusals

    async def spy(frontier, found):
        sent.append(len(found))
        await record(frontier, found)

    monkeypatch.setattr("skitter.engine.delivery.record_refusals", spy)
    delivery = Delivery(frontier, RequestMemory(), lambda level, text: None)
    for number in range(3):
        await frontier.add([Request(url=f"{HOME}{number}")])
        [lease] = (await frontier.lease(1)).leases
        refused = [("https://b.test/", Refused("far"))] * 5 if number else []
        output = HandlerOutput(refused=refused)
        delivery.add(Completed(Completion(lease=lease), output))
        await delivery.flush()

    assert sent == [1]
    assert (await frontier.stats()).kept_out == {"scope": 1}


async def test_a_crawl_reports_what_it_kept_out(server_url, job, tmp_path, skitter_here):  # noqa: F811
    home = b"<a href=/secret><a href=/skip/1><a href=/ok><a href=http://elsewhere.test/>"
    pages = {
        "/robots.txt": reply(b"User-agent: *\nDisallow: /secret\n"),
        "/": reply(home, "content-type: text/html"),
        "/ok": reply(home, "content-type: text/html"),
    }
    async with serve(pages) as site:
        spider = Spider(job, site.url(), scope=Scope(exclude=["/skip/*"]))
        spider.page(follow)
        report = await spider.run(
            str(tmp_path / "x.db"), redis=server_url, settings={"politeness.delay_s": 0}
        )
    assert report.kept_out == {"scope": 2, "robots": 1}
    assert site.paths.count("/secret") == 0
    said = await skitter_here("status", job)
    assert "excluded  3 links: 2 out of scope, 1 by robots.txt" in said.out
    assert (await skitter_here("status", job, "--json")).json["kept_out"] == report.kept_out
    said = await skitter_here("why", job, site.url("/secret"))
    assert "robots.txt: disallowed by line 2, `Disallow: /secret`." in said.out
    said = await skitter_here("why", job, site.url("/skip/1"))
    assert "it is out of scope: it matches exclude pattern '/skip/*'" in said.out
    done = (await skitter_here("why", job, site.url("/ok"), "--json")).json
    assert (done["state"], done["done"]["status"], done["done"]["items"]) == ("done", 200, 0)


def follow(page):
    yield from page.follow_all()


def test_the_rules_of_a_job_decide_what_is_the_same():
    assert feed._fingerprint("https://a.test/#x", Canonical()) == fp("https://a.test/")
