"""A home-made queue on Redis is taken over, whole and in its order."""

from __future__ import annotations

import asyncio
import json

import pytest
from redis import Redis

from skitter import JobOptions, Politeness, URLQueue
from skitter.errors import UsageError
from skitter.frontier.adoption import HomeMade, take_over
from skitter.frontier.audit.auditor import audit
from skitter.frontier.jobs import create_job, note_fingerprinter, open_job
from skitter.frontier.records.filters import read_seen, write_seen
from skitter.frontier.transport.connection import connect
from skitter.model import Added, Completion, Failure, Request
from skitter.settings import Layout

AT_ONCE = JobOptions(politeness=Politeness(delay_s=0, max_in_flight=10_000))


@pytest.fixture
def theirs(server_url, job):
    with Redis.from_url(server_url, decode_responses=True) as client:
        yield client
        if left := client.keys(f"{job}-own:*"):
            client.delete(*left)


def page(n):
    return f"https://shop.example/{n}"


def adopt(server_url, job, **how):
    queues = how.pop("queues", [f"{job}-own:queue"])

    async def take():
        async with connect(server_url) as server:
            return await take_over(server, HomeMade(job=job, queues=queues, **how))

    return asyncio.run(take())


def popped(job, server_url):
    with URLQueue(job, redis=server_url, options=AT_ONCE) as queue:
        return list(iter(queue.pop, None))


def test_scores_become_priorities_and_seen_pages_are_not_fetched_again(theirs, job, server_url):
    theirs.zadd(f"{job}-own:queue", {page(n): n / 10 for n in range(700)})
    theirs.sadd(f"{job}-own:seen", *map(page, range(1500)))

    taken = adopt(server_url, job, seen=f"{job}-own:seen")
    assert (taken.entries, taken.queued, taken.known, taken.dead) == (700, 700, 0, 0)
    assert (taken.seen, taken.remembered) == (1500, 800)
    again = adopt(server_url, job, seen=f"{job}-own:seen")
    assert (again.queued, again.known, again.remembered) == (0, 700, 0)

    with URLQueue(job, redis=server_url, options=AT_ONCE) as queue:
        assert not queue.push(page(1400)), "it was seen there"
    assert [one.url for one in popped(job, server_url)] == [page(n) for n in reversed(range(700))]
    assert not theirs.exists(f"{job}-own:queue", f"{job}-own:seen")
    assert theirs.zcard(f"{job}-own:queue:adopted") == 700


def test_the_lowest_score_first_even_if_scores_are_times(theirs, job, server_url):
    theirs.zadd(f"{job}-own:queue", {page(n): 1_700_000_000 + n for n in range(20)})
    adopt(server_url, job, lowest_first=True)
    assert [one.url for one in popped(job, server_url)] == [page(n) for n in range(20)]


def test_what_was_in_flight_is_fetched_again(theirs, job, server_url):
    theirs.rpush(f"{job}-own:queue", page(1), page(2))
    theirs.hset(f"{job}-own:running", page(3), "1700000000")
    theirs.sadd(f"{job}-own:seen", page(1), page(2), page(3), page(4))
    queues = [f"{job}-own:running", f"{job}-own:queue"]
    taken = adopt(server_url, job, queues=queues, seen=f"{job}-own:seen")
    assert taken.remembered == 1
    assert [one.url for one in popped(job, server_url)] == [page(3), page(1), page(2)]


def test_entries_may_be_json_and_what_is_none_is_a_dead_letter(theirs, job, server_url):
    entry = json.dumps({"url": page(1), "depth": 2, "retries": 1, "meta": {"shop": 7}})
    theirs.rpush(f"{job}-own:queue", entry, "not a url", '{"page": 3}')
    taken = adopt(server_url, job)
    assert (taken.queued, taken.dead) == (1, 2)
    (lease,) = popped(job, server_url)
    assert lease.request.meta == {"shop": 7, "retries": 1}
    assert lease.request.depth == 2


def test_hashes_of_urls_are_refused_before_anything_changes(theirs, job, server_url):
    theirs.rpush(f"{job}-own:queue", page(1))
    theirs.sadd(f"{job}-own:seen", page(1), "5d41402abc4b2a76b9719d911017c592")
    with pytest.raises(UsageError, match=r"1 members .* are not URLs.*Leave --seen out"):
        adopt(server_url, job, seen=f"{job}-own:seen")
    assert theirs.exists(f"{job}-own:queue")


def test_missing_and_strange_keys_are_named(theirs, job, server_url):
    with pytest.raises(UsageError, match="nothing to adopt"):
        adopt(server_url, job)
    theirs.set(f"{job}-own:queue", "text")
    with pytest.raises(UsageError, match="is a string"):
        adopt(server_url, job)


# --- what a job has fetched, in a file ------------------------------------------------------------


async def test_what_a_job_has_fetched_goes_through_a_file_to_another_one(
    server, job, make_frontier
):
    frontier, lines = await make_frontier(AT_ONCE), list[str]()
    await frontier.add([Request(url=page(n)) for n in range(3)])
    with pytest.raises(UsageError, match="3 pages to fetch, which would count as fetched"):
        await write_seen(frontier, lines.append)
    leases = (await frontier.lease(3)).leases
    await frontier.complete([Completion(lease=one) for one in leases[:2]])
    await frontier.bury([Failure(lease=leases[2], error="gone")])

    assert await write_seen(frontier, lines.append) == 2
    for _ in range(2):  # the second time nothing is news
        await read_seen(server, f"{job}-2", lines)
    second = await open_job(server, f"{job}-2")

    codes = await second.add([Request(url=one.url) for one in leases])
    assert codes == [Added.SEEN, Added.SEEN, Added.NEW]  # what was given up is tried again
    stats = await second.stats()
    assert (stats.seen, stats.done, stats.pending) == (3, 2, 1)
    assert not (await audit(second)).problems


async def test_a_file_is_refused_where_its_numbers_mean_other_pages(server, job, make_frontier):
    frontier, lines = await make_frontier(), list[str]()
    await note_fingerprinter(frontier, "scrapy")
    await frontier.add([Request(url=page(1))])
    await frontier.complete([Completion(lease=one) for one in (await frontier.lease(1)).leases])
    await write_seen(frontier, lines.append)
    for name, layout in (("by-url", Layout()), ("sharded", Layout(shards=2))):
        other = await create_job(server, f"{job}-{name}", layout=layout)
        await note_fingerprinter(other, "scrapy" if name == "sharded" else "")
        await other.add([Request(url=page(2))])

    with pytest.raises(UsageError, match="in another way"):
        await read_seen(server, f"{job}-by-url", lines)
    with pytest.raises(UsageError, match="2 shards"):
        await read_seen(server, f"{job}-sharded", lines)
    with pytest.raises(UsageError, match="no fingerprint"):
        await read_seen(server, job, [*lines, "what is this?"])
    assert await read_seen(server, f"{job}-sharded", [page(1), page(2)]) == (2, 1)
    assert await other.add([Request(url=page(1))]) == [Added.SEEN]  # as its nodes identify it
