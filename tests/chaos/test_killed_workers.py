"""Workers that die, stop or kill themselves: every URL is done, each with one visible result."""

from __future__ import annotations

import os
import signal

import pytest

from chaos.rig import assert_clean, finished, once, progress, results, rude, slow, until
from chaos.worker import links_of, pages
from skitter.frontier.dead import dead_letters
from skitter.frontier.jobs import create_job
from skitter.model import Request

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    ("urls", "kills", "seed"), [(3000, 6, 1), *(slow(10_000, 40, seed) for seed in (2, 3))]
)
async def test_workers_killed_at_random_moments_lose_nothing_and_repeat_no_result(
    private_server, frontier, fleet, chance, urls, kills
):
    await frontier.add([Request(url=url) for url in pages(0, urls)])
    for _ in range(3):
        fleet.start("work", private_server.url, frontier.job)

    for _ in range(kills):
        await progress(frontier, fleet, by=chance.randint(1, urls // (2 * kills)))
        fleet.kill(chance.choice(fleet.living))
        fleet.start("work", private_server.url, frontier.job)

    await until(lambda: finished(frontier, fleet), what="the crawl is finished")
    await fleet.dismiss()
    assert await results(frontier) == once(pages(0, urls))
    assert fleet.oracle.urls("fetched").keys() == set(pages(0, urls))
    assert max(fleet.oracle.urls("done").values()) == 1
    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.items) == (urls, 0, urls)
    assert stats.lost > 0  # some kills hit a worker at work
    await assert_clean(frontier)


async def test_a_worker_stopped_past_its_lease_completes_too_late_and_changes_nothing(
    private_server, frontier, fleet, tmp_path
):
    [url] = pages(0, 1)
    await frontier.add([Request(url=url)])
    gate = tmp_path / "gate"
    orders = {"gate": str(gate), "lease_s": 0.3, "links": 2}
    stopped = fleet.start("hold", private_server.url, frontier.job, **orders)
    await until(lambda: fleet.oracle.count("holding"), what="the first one has it")
    os.kill(stopped.pid, signal.SIGSTOP)

    other = fleet.start("work", private_server.url, frontier.job, lease_s=60, links=2)
    await until(lambda: finished(frontier, fleet), what="the other one finished it")
    before = await frontier.stats()
    assert (before.done, before.lost, before.late) == (3, 1, 0)

    gate.touch()
    os.kill(stopped.pid, signal.SIGCONT)
    await fleet.ended([stopped])
    assert fleet.oracle.urls("late") == {url: 1}
    after = await frontier.stats()
    assert after.late == 1
    assert after == type(before)(
        **{name: getattr(before, name) for name in before.__slots__} | {"late": 1}
    )
    assert await results(frontier) == once([url, *links_of(url, 2)])
    await fleet.dismiss()
    assert {event.pid for event in fleet.oracle.events("done")} == {other.pid}
    await assert_clean(frontier)


@pytest.mark.parametrize(
    ("urls", "stops", "seed"), [(600, 4, 1), *(slow(10_000, 40, seed) for seed in (2, 3))]
)
async def test_workers_stopped_at_random_moments_are_refused_as_often_as_they_are_late(
    private_server, frontier, fleet, chance, urls, stops
):
    await frontier.add([Request(url=url) for url in pages(0, urls)])
    for _ in range(3):
        fleet.start("work", private_server.url, frontier.job, lease_s=0.2, fetch_s=0.002)
    await fleet.ready(3)
    overtaken = 0

    for _ in range(stops):
        await progress(frontier, fleet, by=chance.randint(1, urls // (4 * stops)))
        stopped = chance.choice(fleet.living)
        await fleet.stop(stopped)
        # The last one of a batch may be done without its worker having heard so.
        if len(held := fleet.oracle.held_by(stopped.pid)) > 1:

            async def another_has_one_of_them_or_all_is_done(held=held, pid=stopped.pid):
                holders = {event.url: event.pid for event in fleet.oracle.events("leased")}
                return any(holders[url] != pid for url in held) or await finished(frontier)

            await until(another_has_one_of_them_or_all_is_done, what="a lease ran out")
            overtaken += 1
        os.kill(stopped.pid, signal.SIGCONT)

    await until(lambda: finished(frontier, fleet), what="the crawl is finished")
    await fleet.dismiss()
    assert (await frontier.stats()).late == fleet.oracle.count("lost") >= overtaken > 0
    assert fleet.oracle.urls("done") == await results(frontier) == once(pages(0, urls))
    await assert_clean(frontier)


@pytest.mark.parametrize(("urls", "batch"), [(60, 1), slow(5000, 1), (60, 20)])
async def test_a_url_that_kills_its_worker_is_dead_after_max_losses_and_the_others_are_done(
    private_server, private, fleet, job, urls, batch
):
    frontier = await create_job(private, job, options=rude(max_losses=3))
    poison = "https://poison.test/"
    others = pages(0, urls, hosts=urls)  # each of a host of its own: the poison gets no turn less
    orders = {"lease_s": 0.3, "batch": batch, "poison": "poison"}
    await frontier.add([Request(url=url) for url in [poison, *others]])

    async def a_worker_died_or_all_is_done():
        return not fleet.living or await finished(frontier)

    while not await finished(frontier):
        if not fleet.living:
            victim = fleet.start("work", private_server.url, job, **orders)
            fleet.killed.add(victim.pid)
        await until(a_worker_died_or_all_is_done, what="a worker dies, or all is done")

    await fleet.dismiss()
    assert fleet.oracle.urls("fetched")[poison] == 3
    [letter] = [letter async for letter in dead_letters(frontier)]
    assert (letter.url, letter.losses, letter.failures) == (poison, 3, 0)
    assert letter.reason == "its worker vanished 3 times"
    assert await results(frontier) == once(others)
    await assert_clean(frontier)
