"""Jobs are created, opened and purged, also when somebody died half way."""

from __future__ import annotations

import pytest

from conftest import rude
from skitter.errors import BadOption, JobClosed, JobMismatch, JobMissing
from skitter.frontier import frontier as frontier_module
from skitter.frontier.audit.auditor import audit
from skitter.frontier.audit.why import look_at_host, why
from skitter.frontier.control import (
    change_options,
    operator_options,
    release_options,
    set_host,
    set_state,
)
from skitter.frontier.dead import dead_letters, drop, revive
from skitter.frontier.feed import take_feed
from skitter.frontier.items import ItemStream, RejectedItem, reject_items
from skitter.frontier.jobs import create_job, list_jobs, open_job, purge_job
from skitter.frontier.sites.learned import ask_robots, store_robots
from skitter.frontier.totals import read_options
from skitter.frontier.transport.connection import Server, connect
from skitter.frontier.transport.keys import feed_key
from skitter.frontier.workers import Heartbeat, beat, log
from skitter.model import Added, Completion, Failure, Request, State
from skitter.settings import JobOptions, Layout, Limits, Politeness

SHARDED = Layout(shards=4)
PAGES = [Request(url=f"https://h{n}.test/") for n in range(40)]


async def test_one_request_is_found_whatever_its_shard(make_frontier):
    frontier = await make_frontier(rude(), Layout(shards=8))
    await frontier.add(Request(url=f"https://a.test/{n}") for n in range(20))

    found = [lease for _ in range(20) for lease in (await frontier.lease(1)).leases]

    assert len(found) == 20


async def test_an_interrupted_purge_is_refused_and_can_be_finished(server, job, clock):
    frontier = await create_job(server, job, options=rude(), layout=SHARDED, clock=clock)
    await frontier.add(PAGES)
    await server.command("LPUSH", feed_key(job), "https://a.test/")
    await frontier.shards[1].call("control", ["state", "purge"], create=0)
    await server.command("DEL", frontier.shards[0].keys.key("control"))

    with pytest.raises(JobClosed, match="half purged"):
        await create_job(server, job)
    await purge_job(await open_job(server, job, as_found=True))

    left = [key async for key in server.client.scan_iter(match=f"*{job}[:}}]*")]
    assert left == []
    assert job not in await list_jobs(server)


async def test_nobody_who_comes_late_brings_a_purged_job_back(server, job, clock):
    frontier = await create_job(server, job, options=rude(), layout=SHARDED, clock=clock)
    await purge_job(frontier)

    late = (
        beat(frontier, Heartbeat(name="w", host="h", pid=1, started_at=0, at=0)),
        log(frontier, "info", "w", "too late"),
        reject_items(frontier, RejectedItem(url="https://a.test/", field="", reason="x", item=1)),
        ask_robots(frontier, "a.test"),
        store_robots(frontier, "a.test", b"rules", ttl_s=60),
        ItemStream(frontier, "l").read(1, 0),
        set_host(frontier, "a.test", delay_s=1),
        change_options(frontier, {"delay_s": 5}),
    )
    for call in late:
        with pytest.raises(JobMissing):
            await call

    assert [key async for key in server.client.scan_iter(match=f"*{job}[:}}]*")] == []


async def test_two_who_set_different_options_do_not_undo_each_other(make_frontier):
    one, two = await make_frontier(rude()), await make_frontier()
    await change_options(one, {"delay_s": 2.5, "max_pages": 10})
    await change_options(two, {"max_depth": 3, "base_s": 1})

    options = await read_options(one.shards[0])

    assert (options.politeness.delay_s, options.limits.max_pages) == (2.5, 10)
    assert (options.limits.max_depth, options.retries.base_s) == (3, 1)
    await change_options(one, {"max_pages": None})
    assert (await read_options(two.shards[0])).limits.max_pages is None
    with pytest.raises(BadOption, match="option must be one of delay_s"):
        await change_options(one, {"dealy_s": 1})


async def test_a_retry_obeys_the_backoff_that_another_process_has_set(
    make_frontier, clock, monkeypatch
):
    one, two = await make_frontier(rude()), await make_frontier()
    await change_options(two, {"base_s": 0, "cap_s": 0})
    monkeypatch.setattr(frontier_module, "OPTIONS_FRESH_S", 0)
    await one.add([Request(url="https://a.test/")])
    [lease] = (await one.lease(1)).leases

    await one.retry([Failure(lease=lease, error="x")])

    assert len((await one.lease(1)).leases) == 1


async def test_a_job_whose_creator_died_is_made_whole(server, job, clock):
    frontier = await create_job(server, job, options=rude(), layout=SHARDED, clock=clock)
    await server.command("DEL", frontier.shards[2].keys.key("control"))
    with pytest.raises(JobMissing):
        await open_job(server, job)

    again = await create_job(server, job, options=rude(), clock=clock)

    assert await again.add(PAGES) == [Added.NEW] * len(PAGES)


def test_half_a_shard_is_refused():
    with pytest.raises(BadOption):
        Layout(shards=2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad", [{"depth": "x"}, {"depth": -1}, {"method": 5}, {"body": 5}, {"meta": {"n": 2**70}}]
)
async def test_one_bad_request_in_a_batch_writes_nothing_of_it(frontier, bad):
    with pytest.raises(BadOption):
        await frontier.add([Request(url="https://a.test/"), Request(url="https://b.test/", **bad)])

    assert (await frontier.stats()).seen == 0
    assert (await audit(frontier)).clean


async def test_links_of_a_page_that_was_under_way_survive_a_cancel(frontier):
    await frontier.add([Request(url="https://a.test/")])
    [lease] = (await frontier.lease(1)).leases
    await set_state(frontier, State.CANCELLED)
    await frontier.complete([Completion(lease=lease, links=[Request(url="https://a.test/1")])])

    await set_state(frontier, State.RUNNING)

    assert [one.url for one in (await frontier.lease(5)).leases] == ["https://a.test/1"]


async def test_a_rejected_message_is_dropped_and_never_revived(frontier):
    await frontier.server.command("LPUSH", feed_key(frontier.job), "nonsense")
    await take_feed(frontier)
    letters = [letter async for letter in dead_letters(frontier)]

    assert await revive(frontier, letters) == 0
    assert await drop(frontier, letters) == 1
    assert (await audit(frontier)).clean


async def test_a_message_that_cannot_be_encoded_does_not_stop_the_feed(frontier):
    key = feed_key(frontier.job)
    huge = '{"url": "https://a.test/", "meta": {"n": 123456789012345678901234567890}}'
    await frontier.server.command("LPUSH", key, huge, "https://a.test/ok")

    assert await take_feed(frontier) == 2
    assert len((await frontier.lease(5)).leases) == 1


@pytest.mark.parametrize("place", ["delayed", "lease"])
async def test_a_damaged_row_stops_nobody_else(frontier, clock, place):
    shard = frontier.shards[0]
    await shard.server.command("ZADD", shard.keys.key(place), 1, "99")
    await frontier.add([Request(url="https://a.test/")])

    assert len((await frontier.lease(5)).leases) == 1


@pytest.mark.parametrize("options", [{"dealy_s": 1}, {"max_in_flight": -1}, {"delay_s": -2}])
async def test_a_host_takes_only_values_that_make_sense(frontier, options):
    with pytest.raises(BadOption):
        await set_host(frontier, "a.test", **options)


async def test_high_priority_is_found_among_many_hosts_after_an_idle_time(make_frontier, clock):
    frontier = await make_frontier()
    await frontier.add(PAGES + [Request(url=f"https://h{n}.test/2") for n in range(40)])
    leases = (await frontier.lease(40)).leases
    await frontier.complete([Completion(lease=lease) for lease in leases])
    await frontier.add([Request(url="https://h39.test/best", priority=900)])
    clock.advance(5)

    [first] = (await frontier.lease(1)).leases

    assert first.url == "https://h39.test/best"


async def test_opening_a_job_with_the_options_it_has_looks_at_no_host(server, job):
    frontier = await create_job(server, job, options=rude(max_pages=5), layout=SHARDED)
    await frontier.add(PAGES)
    places = [shard.keys.key("due") for shard in frontier.shards]
    for place in places:
        await server.command("UNLINK", place)

    await create_job(server, job, options=rude(max_pages=5))
    assert sum([await server.command("ZCARD", place) for place in places]) == 0

    # One shard differs: whoever set its options last was interrupted.
    await server.command("HSET", frontier.shards[2].keys.key("control"), "max_pages", 4)
    await create_job(server, job, options=rude(max_pages=5))
    assert sum([await server.command("ZCARD", place) for place in places]) == len(PAGES)


async def test_whoever_makes_a_job_while_it_is_purged_is_not_left_without_its_name(
    server, server_url, job, monkeypatch
):
    frontier = await create_job(server, job, options=rude())
    command = Server.command

    async def slow(self, *words):
        answer = await command(self, *words)
        if words[0] == "HDEL":
            with pytest.raises(JobClosed, match="half purged"):
                await create_job(other, job)
        return answer

    async with connect(server_url) as other:
        monkeypatch.setattr(Server, "command", slow)
        await purge_job(frontier)
        monkeypatch.undo()

        assert job in await list_jobs(server)
        await create_job(other, job)
        assert (await open_job(server, job)).options is not None


@pytest.mark.parametrize(
    ("stored", "shown"),
    [("run", "running"), ("pause", "paused"), ("drain", "draining"), ("cancel", "cancelled")],
)
async def test_a_state_that_an_older_release_stored_is_read_and_shown_in_our_words(
    frontier, server, job, stored, shown
):
    control = frontier.home.keys.key("control")
    await server.command("HSET", control, "state", stored)

    again = await open_job(server, job)

    assert (await again.stats()).status == (await again.lease(1)).state == shown
    await set_state(again, State(shown))
    assert (await server.command("HGET", control, "state")).decode() == stored


async def test_what_remains_is_all_that_will_be_fetched(make_frontier):
    limits = Limits(max_pages_per_host=2)
    frontier = await make_frontier(JobOptions(politeness=Politeness(delay_s=0), limits=limits))
    await frontier.add(Request(url=f"https://a.test/{n}") for n in range(5))
    for _ in range(2):
        [lease] = (await frontier.lease(1)).leases
        await frontier.complete([Completion(lease=lease)])
    await frontier.add([Request(url="https://b.test/1"), Request(url="https://b.test/2")])
    await frontier.lease(1)

    stats = await frontier.stats()

    assert (stats.pending, stats.leased, stats.shelved, stats.remaining) == (4, 1, 3, 2)


async def test_what_an_operator_set_is_known_until_it_is_released(frontier, server):
    assert await operator_options(frontier) == {}

    await change_options(frontier, {"max_pages": 7, "delay_s": 2})
    assert await operator_options(frontier) == {"delay_s": 2, "max_pages": 7}
    await release_options(frontier, ["delay_s"])

    assert await operator_options(frontier) == {"max_pages": 7}
    assert (await open_job(server, frontier.job)).options.politeness.delay_s == 2
    assert not (await audit(frontier)).problems


async def test_hosts_of_a_domain_are_one_if_the_job_was_made_so(server, job):
    options = JobOptions(politeness=Politeness(per="domain"))
    frontier = await create_job(server, job, options=options, layout=Layout(shards=3))
    urls = ("https://www.shop.co.uk/", "https://img.shop.co.uk:8443/", "https://other.co.uk/")
    await frontier.add([Request(url=url) for url in urls])

    leases = (await frontier.lease(10)).leases

    assert sorted(lease.host for lease in leases) == ["other.co.uk", "shop.co.uk"]
    again = await open_job(server, job)
    assert again.options.politeness.per == "domain"
    assert (await look_at_host(again, "img.shop.co.uk")).queued == 1
    assert (await why(again, "https://www.shop.co.uk/")).host == "shop.co.uk"
    assert (await audit(again)).clean


async def test_whether_the_hosts_of_a_domain_are_one_cannot_change(server, job):
    by_domain = JobOptions(politeness=Politeness(per="domain"))
    frontier = await create_job(server, job, options=JobOptions())
    with pytest.raises(JobMismatch, match=r"politeness\.per=host, which cannot become domain"):
        await create_job(server, job, options=by_domain)
    with pytest.raises(JobMismatch, match=r"politeness\.per=host"):
        await change_options(frontier, {"per": "domain"})

    changed = await change_options(frontier, {"per": "address", "shared": True})

    assert (changed.politeness.per, changed.politeness.shared) == ("address", True)
    assert (await create_job(server, job, layout=Layout())).options == changed
    assert (await audit(frontier)).clean
