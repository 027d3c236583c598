"""The audit of politeness, from the record of the last requests."""

from __future__ import annotations

import pytest

from skitter.frontier.audit.politeness import (
    LoggedRequest,
    audit_politeness,
    judge,
    most_at_once,
    open_trip,
)
from skitter.frontier.delays import SentRequest as Told
from skitter.frontier.sites.learned import store_robots
from skitter.frontier.sites.snapshots import host_facts

HOST = "a.test"


def trip(left_ms, took_ms=100, delay_ms=1000, url="https://a.test/"):
    return LoggedRequest(left_ms, took_ms, delay_ms, HOST, url)


@pytest.fixture
async def facts(frontier):
    [facts] = await host_facts(frontier.home, [HOST])
    return facts


@pytest.mark.parametrize(
    ("trips", "gap_s", "too_close"),
    [
        ([trip(0)], None, 0),
        ([trip(0), trip(1000), trip(3000)], 1, 0),
        ([trip(0), trip(985)], 0.985, 0),  # what clocks are wrong by
        ([trip(0), trip(950), trip(1900)], 0.95, 2),
        ([trip(0), trip(500, delay_ms=500)], 0.5, 0),  # the delay was another one then
        ([trip(0), trip(10, took_ms=-1), trip(1000)], 1, 0),
    ],
)
def test_gaps_are_compared_with_the_delay_of_their_time(facts, trips, gap_s, too_close):
    found = judge(facts, trips, max_in_flight=1)

    assert (found.smallest_gap_s, found.too_close) == (gap_s, too_close)
    assert bool(found.problems) == bool(too_close)
    assert found.vanished == sum(one.took_ms < 0 for one in trips)


@pytest.mark.parametrize(
    ("trips", "most"),
    [
        ([], 0),
        ([trip(0, 3)], 1),
        ([trip(0, 500), trip(500, 500)], 1),
        ([trip(0, 510), trip(500, 500)], 1),  # by no more than clocks are wrong
        ([trip(0, 600), trip(500, 500)], 2),
        ([trip(0, 5000), trip(100, 50), trip(200, 50)], 2),
    ],
)
def test_how_many_were_under_way_together(facts, trips, most):
    assert most_at_once(trips) == most
    impatient = [one._replace(delay_ms=0) for one in [*trips, trip(9**9)]]
    assert bool(judge(facts, impatient, max_in_flight=1).problems) == (most > 1)


@pytest.mark.parametrize(
    "row", ["", "1 a.test 2 3", "1 a.test x 0 1 1 https://a.test/", "1 a 1.5 0 1 1 b"]
)
def test_a_row_that_makes_no_sense_is_left_out(row):
    assert open_trip(row) is None


async def test_what_robots_txt_disallows_is_found(frontier, clock):
    urls = [
        "https://a.test/",
        "https://a.test/secret",
        "/robots.txt",
        "https://a.test/" + "x" * 300,
    ]
    told = [Told(HOST, url, clock() + 1000 * n, 0, 0.1, 1) for n, url in enumerate(urls)]
    clock.advance(60)
    await frontier.record(told)
    asked = []

    def allows(stored, url):
        asked.append(url)
        return b"secret" not in stored or "secret" not in url

    [host] = await audit_politeness(frontier, allows=allows)
    assert (host.requests, host.disallowed) == (4, None)

    await store_robots(frontier, HOST, b"secret", ttl_s=60)
    [host] = await audit_politeness(frontier, allows=allows)

    assert host.disallowed == ["https://a.test/secret"]
    assert host.problems == ["robots.txt disallows 1 of the URLs"]
    assert asked == urls[:2]
