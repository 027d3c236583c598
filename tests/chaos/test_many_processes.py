"""Many at once: no URL is new twice, no host starves, no clock but the server's counts."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from urllib.parse import urlsplit

import pytest

from chaos.rig import assert_clean, finished, once, results, rude, slow, until
from chaos.worker import links_of, pages
from needs import need
from skitter.frontier.control import configure
from skitter.frontier.jobs import create_job
from skitter.model import Request
from skitter.settings import JobOptions, Politeness, Retries

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("urls", [2000, slow(50_000)])
async def test_the_new_ones_of_four_adders_of_overlapping_sets_add_up_to_the_union(
    private_server, frontier, fleet, tmp_path, urls
):
    gate = tmp_path / "gate"
    step = urls // 5
    for number in range(4):
        orders = {"first": number * step, "last": number * step + 2 * step, "batch": 50}
        fleet.start("add", private_server.url, frontier.job, gate=str(gate), **orders)
    await fleet.ready(4)
    gate.touch()
    await fleet.ended()

    new = sum(event.facts["count"] for event in fleet.oracle.events("new"))
    stats = await frontier.stats()
    assert new == stats.seen == stats.pending == len(fleet.oracle.urls("added")) == urls
    assert stats.duplicates == 4 * 2 * step - urls
    await assert_clean(frontier)


@pytest.mark.parametrize("max_in_flight", [1, 20])
@pytest.mark.parametrize(("huge", "small"), [(10_000, 10), slow(50_000, 50)])
async def test_a_huge_host_gets_no_more_turns_than_each_of_a_hundred_small_ones(
    private_server, frontier, fleet, huge, small, max_in_flight
):
    await configure(frontier, rude(max_in_flight=max_in_flight))
    # The huge one is there first, with all it has.
    await frontier.add([Request(url=f"https://huge.test/{i}") for i in range(huge)])
    others = [f"https://small{i % 100}.test/{i}" for i in range(100 * small)]
    await frontier.add([Request(url=url) for url in others])
    fleet.start("work", private_server.url, frontier.job, batch=20, bulk=True, lease_s=60)
    await until(
        lambda: fleet.oracle.urls("done").keys() >= set(others) or fleet.complaints(),
        what="all small hosts are done",
    )

    line = [urlsplit(event.url).hostname for event in fleet.oracle.events("leased")]
    last = max(at for at, host in enumerate(line) if host != "huge.test")
    # One turn a round; one more because it came first, one because the last round is not over.
    assert Counter(line[: last + 1])["huge.test"] <= small + 2
    await configure(frontier, rude())
    await until(lambda: finished(frontier, fleet), what="the huge host is done")
    await fleet.dismiss()
    assert (await frontier.stats()).done == huge + len(others)
    await assert_clean(frontier)


HOUR_S = 3600


@pytest.fixture
def faketime() -> str:
    return need("libfaketime")


def clock_off_by(library: str, hours: int) -> dict[str, str]:
    return {
        "LD_PRELOAD": library,
        "FAKETIME": f"{hours:+d}h",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # that one never tells the time of day
    }


@pytest.mark.parametrize("urls", [30, slow(1000)])
async def test_workers_whose_clocks_are_an_hour_off_keep_their_leases_and_the_delays(
    private_server, private, fleet, job, faketime, urls
):
    delay_s = 0.1
    options = JobOptions(politeness=Politeness(delay_s=delay_s), retries=Retries(max_losses=1))
    frontier = await create_job(private, job, options=options)
    await frontier.add([Request(url=url) for url in pages(0, urls, hosts=3)])
    off = {
        fleet.start(
            "work", private_server.url, job, env=clock_off_by(faketime, hours), timed=True,
            batch=1, lease_s=60,
        ).pid: hours
        for hours in (-1, 0, 1)
    }  # fmt: skip
    await until(lambda: finished(frontier, fleet), what="the crawl is finished")
    await fleet.ready(3)
    await fleet.dismiss()

    [now] = [event.facts["clock"] for event in fleet.oracle.events("ready") if not off[event.pid]]
    for event in fleet.oracle.events("ready"):
        assert abs(event.facts["clock"] - now - off[event.pid] * HOUR_S) < HOUR_S / 2
    leased = {event.url: event.facts for event in fleet.oracle.events("leased")}
    visible = await results(frontier)
    assert visible == fleet.oracle.urls("leased") == once(pages(0, urls, hosts=3))
    # One in flight: pages of a host are leased in the order in which they are completed. A lease
    # falls between `before` and `after`, so this holds however slow a worker is.
    for host in range(3):
        turns = [leased[url] for url in visible if urlsplit(url).hostname == f"h{host}.test"]
        gaps = [then["after"] - first["before"] for first, then in pairwise(turns)]
        assert min(gaps) >= delay_s * 1000
    stats = await frontier.stats()
    assert (stats.done, stats.lost, stats.late, stats.dead) == (urls, 0, 0, 0)
    await assert_clean(frontier)


async def test_what_a_worker_held_whose_clock_is_an_hour_ahead_comes_back_when_it_is_killed(
    private_server, frontier, fleet, faketime, tmp_path
):
    [url] = pages(0, 1)
    await frontier.add([Request(url=url)])
    orders = {"gate": str(tmp_path / "never"), "lease_s": 0.3}
    ahead, behind = clock_off_by(faketime, 1), clock_off_by(faketime, -1)
    one = fleet.start("hold", private_server.url, frontier.job, env=ahead, **orders)
    await until(lambda: fleet.oracle.count("holding") or fleet.complaints(), what="it has it")
    fleet.kill(one)
    # Were it the worker's clock that counted, this lease would last an hour and more.
    fleet.start("work", private_server.url, frontier.job, env=behind, links=1)
    await until(lambda: finished(frontier, fleet), what="the other one finished it")
    await fleet.dismiss()
    assert await results(frontier) == once([url, *links_of(url, 1)])
    await assert_clean(frontier)
