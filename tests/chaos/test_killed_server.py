"""The server is killed while everybody works: what was acknowledged stays, the rest is redone."""

from __future__ import annotations

import pytest

from chaos.rig import assert_clean, finished, once, progress, results, rude, slow, until
from chaos.worker import links_of, pages, patient
from skitter.frontier.jobs import create_job, open_job
from skitter.model import Request

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    ("urls", "kills", "seed"), [(2000, 4, 1), *(slow(10_000, 30, seed) for seed in (2, 3))]
)
async def test_workers_and_adders_ride_through_a_server_that_is_killed_again_and_again(
    private_server, frontier, fleet, chance, urls, kills
):
    for _ in range(2):
        fleet.start("work", private_server.url, frontier.job, lease_s=5, fetch_s=0.001)
    half = urls // 2
    adders = [
        fleet.start(
            "add", private_server.url, frontier.job, first=first, last=first + half, batch=10
        )
        for first in (0, half)
    ]
    await fleet.ready(4)

    for _ in range(kills):
        await progress(frontier, fleet, by=chance.randint(1, urls // (2 * kills)))
        await private_server.restart()

    await fleet.ended(adders)
    await until(lambda: finished(frontier, fleet), what="the crawl is finished")
    await fleet.dismiss()
    assert fleet.oracle.urls("added") == once(pages(0, urls))
    assert sum(event.facts["count"] for event in fleet.oracle.events("new")) == urls
    # What was done before a kill is done after it; what was not answered was done once.
    assert fleet.oracle.urls("done") == await results(frontier) == once(pages(0, urls))
    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.seen, stats.items) == (urls, 0, urls, urls)
    await assert_clean(frontier)


@pytest.mark.parametrize(
    ("urls", "kills", "seed"), [(1000, 3, 1), *(slow(6000, 20, seed) for seed in (2, 3))]
)
async def test_a_kill_that_takes_the_last_answers_with_it_repeats_no_result(
    private_server, frontier, fleet, chance, urls, kills
):
    await frontier.add([Request(url=url) for url in pages(0, urls)])
    added = private_server.append_only_file.stat().st_size
    for _ in range(3):
        fleet.start("work", private_server.url, frontier.job, fetch_s=0.001)
    await fleet.ready(3)

    for _ in range(kills):
        await progress(frontier, fleet, by=chance.randint(1, urls // (2 * kills)))
        written = private_server.append_only_file.stat().st_size
        await private_server.restart(cut_to=chance.randint(added, written))

    await until(lambda: finished(frontier, fleet), what="the crawl is finished")
    await fleet.dismiss()
    assert max(fleet.oracle.urls("done").values()) > 1  # answers were taken, and given again
    assert await results(frontier) == once(pages(0, urls))
    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.seen, stats.items) == (urls, 0, urls, urls)
    await assert_clean(frontier)


@pytest.mark.parametrize(("urls", "seed"), [(1500, 1), *(slow(6000, seed) for seed in (2, 3))])
async def test_a_crawl_goes_on_after_all_workers_and_the_server_died_at_once(
    private_server, fleet, job, chance, urls
):
    async with patient(private_server.url) as server:
        frontier = await create_job(server, job, options=rude())
        await frontier.add([Request(url=url) for url in pages(0, urls)])
        for _ in range(3):
            fleet.start("work", private_server.url, job, links=1, fetch_s=0.001)
        await progress(frontier, fleet, by=chance.randint(1, urls // 2))
        private_server.kill()
        for one in fleet.living:
            fleet.kill(one)

    await until(lambda: not private_server.alive, what="the server is gone")
    private_server.start()
    async with patient(private_server.url) as server:
        frontier = await open_job(server, job)
        assert fleet.oracle.urls("done").keys() <= (await results(frontier)).keys()
        assert not await finished(frontier)
        await assert_clean(frontier)

        for _ in range(3):
            fleet.start("work", private_server.url, job, links=1)
        await until(lambda: finished(frontier, fleet), what="the crawl is finished")
        await fleet.dismiss()
        links = [link for url in pages(0, urls) for link in links_of(url, 1)]
        assert await results(frontier) == once([*pages(0, urls), *links])
        await assert_clean(frontier)
