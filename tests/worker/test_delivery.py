"""Outcomes are sent in batches, and kept while the server is away."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from skitter.engine.assembly import open_worker
from skitter.engine.delivery import Delivery
from skitter.engine.outbox import RequestMemory
from skitter.engine.visit import WAIT_S, Buried, Completed, Retried, Returned
from skitter.errors import InfrastructureError, JobMissing, ServerUnreachable
from skitter.fetch.http.fetcher import StaticFetcher
from skitter.frontier.control import change_options
from skitter.frontier.dead import dead_letters
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job, purge_job
from skitter.frontier.records.health import read_quality
from skitter.frontier.transport.shard import Shard
from skitter.model import Completion, Failure, Request
from skitter.settings import WorkerConfig
from skitter.spider import HandlerOutput, Rejected, Spider


def replace_method(frontier, complete_sealed):
    """The same frontier, with another way to complete pages."""

    class Other(Frontier):
        pass

    Other.complete_sealed = staticmethod(complete_sealed)  # type: ignore[method-assign]
    return Other(frontier.job, frontier.layout, frontier.options, frontier.shards)


async def leases(frontier, count):
    await frontier.add(Request(url=f"https://a.test/{n}") for n in range(count))
    return (await frontier.lease(count)).leases


async def test_each_kind_of_ending_reaches_the_frontier(frontier):
    one, two, three = await leases(frontier, 3)
    delivery = Delivery(frontier, RequestMemory(lambda: frontier.epoch), lambda level, text: None)
    delivery.add(Completed(Completion(lease=one, items=[1])))
    delivery.add(Retried(Failure(lease=two, error="slow")))
    delivery.add(Buried(Failure(lease=three, error="404")))

    await delivery.flush()

    stats = await frontier.stats()
    assert (stats.done, stats.delayed, stats.dead) == (1, 1, 1)
    assert (delivery.tally.pages, delivery.tally.errors, len(delivery)) == (1, 2, 0)


async def test_block_pages_and_skipped_ones_are_counted_for_all_to_see(frontier):
    one, two = await leases(frontier, 2)
    delivery = Delivery(frontier, RequestMemory(lambda: frontier.epoch), lambda level, text: None)
    delivery.add(Retried(Failure(lease=one, error="blocked"), blocked=True))
    delivery.add(Completed(Completion(lease=two), skipped="image/png"))

    await delivery.flush()

    stats = await frontier.stats()
    assert (stats.blocked, stats.skipped, stats.done, stats.delayed) == (1, 1, 1, 1)


async def test_links_are_remembered_only_when_the_completion_took_effect(frontier):
    memory = RequestMemory(lambda: frontier.epoch)
    delivery = Delivery(frontier, memory, lambda level, text: None)
    [lease] = await leases(frontier, 1)
    await frontier.release([lease])
    link = Request(url="https://a.test/link")
    delivery.add(Completed(Completion(lease=lease, links=[link])))
    await delivery.flush()

    assert link.url not in memory.known
    assert delivery.tally.late == 1

    [lease] = (await frontier.lease(1)).leases
    delivery.add(Completed(Completion(lease=lease, links=[link])))
    await delivery.flush()

    assert link.url in memory.known


@pytest.mark.parametrize(
    "apart",
    [
        {"method": "POST"},
        {"body": b"q=1"},
        {"unique": "again"},
        {"identity": "of an engine"},
        {"slot": "elsewhere"},
    ],
    ids=lambda apart: next(iter(apart)),
)
async def test_a_request_with_more_than_a_url_does_not_make_the_plain_get_known(frontier, apart):
    memory = RequestMemory(lambda: frontier.epoch)
    delivery = Delivery(frontier, memory, lambda level, text: None)
    [lease] = await leases(frontier, 1)
    link = Request(url="https://a.test/search", **apart)
    delivery.add(Completed(Completion(lease=lease, links=[link])))
    await delivery.flush()

    assert link.url not in memory.known


async def test_links_that_went_in_since_their_page_was_handled_are_not_sent_again(frontier):
    memory = RequestMemory(lambda: frontier.epoch)
    delivery = Delivery(frontier, memory, lambda level, text: None)
    first, second = await leases(frontier, 2)
    known, new = (Request(url=f"https://a.test/{name}") for name in ("known", "new"))
    apart = Request(url=known.url, method="POST")
    delivery.add(Completed(Completion(lease=first, links=[known])))
    await delivery.flush()
    delivery.add(Completed(Completion(lease=second, links=[known, new, apart])))
    await delivery.flush()

    stats = await frontier.stats()
    assert (stats.done, stats.pending, stats.duplicates) == (2, 3, 0)
    assert new.url in memory.known


async def hand_in_a_link(frontier, memory) -> str:
    delivery = Delivery(frontier, memory, lambda level, text: None)
    [lease] = await leases(frontier, 1)
    link = Request(url="https://a.test/link")
    delivery.add(Completed(Completion(lease=lease, links=[link])))
    await delivery.flush()
    assert link.url in memory.known
    return link.url


async def test_links_of_a_job_that_was_made_anew_are_forgotten(frontier, server):
    memory = RequestMemory(lambda: frontier.epoch)
    link = await hand_in_a_link(frontier, memory)

    await purge_job(frontier)
    await create_job(server, frontier.job)
    await frontier.lease(1)

    assert link not in memory.known


async def test_links_are_forgotten_when_the_job_begins_to_keep_depths(frontier):
    """Until a worker hears of the limit, what it has refused is kept by nobody."""
    memory = RequestMemory(lambda: frontier.epoch)
    link = await hand_in_a_link(frontier, memory)

    await change_options(frontier, {"max_depth": 3})
    await frontier.lease(1)

    assert link not in memory.known


async def test_links_are_forgotten_behind_a_new_connection(frontier, server):
    """The server may have been restarted, without its last second."""
    memory = RequestMemory(lambda: frontier.epoch)
    link = await hand_in_a_link(frontier, memory)

    await server.client.connection_pool.disconnect()
    await frontier.stats()

    assert link not in memory.known


async def test_links_that_went_in_before_a_restart_are_not_remembered_after_it(frontier, server):
    memory = RequestMemory(lambda: frontier.epoch)
    before = frontier.epoch
    await server.client.connection_pool.disconnect()
    await frontier.stats()

    memory.add_requests([Request(url="https://a.test/link")], epoch=before)

    assert not memory.known


async def test_while_the_server_is_away_results_are_kept(frontier, monkeypatch):
    said = []
    delivery = Delivery(frontier, RequestMemory(), lambda level, text: said.append(text))
    [lease] = await leases(frontier, 1)
    delivery.add(Completed(Completion(lease=lease)))
    real = type(frontier).complete_sealed
    failures = iter([True, True])

    async def away(self, completions):
        if next(failures, False):
            raise ServerUnreachable("gone fishing.")
        return await real(self, completions)

    monkeypatch.setattr(type(frontier), "complete_sealed", away)
    await delivery.flush()

    assert (await frontier.stats()).done == 1
    assert said == ["gone fishing. Results are kept; trying again."] * 2


async def test_what_was_handed_in_before_an_error_is_not_handed_in_again(frontier, monkeypatch):
    one, two = await leases(frontier, 2)
    said: list[str] = []
    delivery = Delivery(frontier, RequestMemory(), lambda level, text: said.append(text))
    delivery.add(Completed(Completion(lease=one)))
    delivery.add(Buried(Failure(lease=two, error="404")))
    real, failures = frontier.bury, [ServerUnreachable("away.")]

    async def bury(batch):
        if failures:
            raise failures.pop()
        return await real(batch)

    monkeypatch.setattr(type(frontier), "bury", lambda self, batch: bury(batch))

    await delivery.flush()

    assert (delivery.tally.pages, delivery.tally.errors, delivery.tally.late) == (1, 1, 0)
    assert said == ["away. Results are kept; trying again.", f"{two.url}: 404"]
    assert (await frontier.stats()).dead == 1


async def test_an_item_that_a_hook_dropped_is_no_warning(frontier):
    [lease] = await leases(frontier, 1)
    said: list[tuple[str, str]] = []
    delivery = Delivery(frontier, RequestMemory(), lambda *line: said.append(line))
    rejected = [Rejected({}, field, "no thanks") for field in ("", "price")]
    delivery.add(Completed(Completion(lease=lease), HandlerOutput(rejected=rejected)))

    await delivery.flush()

    assert said == [
        ("info", f"an item from {lease.url} was rejected: no thanks"),
        ("warning", f"an item from {lease.url} was rejected: price: no thanks"),
    ]


def nested(levels):
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "bad",
    [
        {"items": [b"x" * (9 * 2**20)]},
        {"items": ["half \ud83d"]},
        {"items": [2**64]},
        {"items": [nested(5000)]},
        {"items": [object()]},
        {"links": [Request(url="https://a.test/n", meta={"text": "x" * 300_000})]},
        {"links": [Request(url="https://a.test/n", meta={"text": "half \ud83d"})]},
        {"links": [Request(url="https://a.test/n", meta={1: 2})]},  # type: ignore[dict-item]
        {"links": [Request(url="https://a.test/n", depth=2**40)]},
        {"links": [Request(url="https://a.test/n", method="GE T")]},
        {"links": [Request(url="no url")]},
    ],
)
async def test_a_page_whose_results_cannot_be_sent_is_dead_and_the_others_are_done(frontier, bad):
    one, two, three = await leases(frontier, 3)
    delivery = Delivery(frontier, RequestMemory(), lambda level, text: None)
    delivery.add(Completed(Completion(lease=one, items=[1])))
    delivery.add(Completed(Completion(lease=two, **bad)))
    delivery.add(Completed(Completion(lease=three, items=[3])))

    await delivery.flush()

    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.items) == (2, 1, 2)
    [letter] = [letter async for letter in dead_letters(frontier)]
    assert letter.url == two.url
    assert letter.reason.startswith("its results cannot be stored: ")


async def test_a_page_that_the_server_refuses_is_dead_and_the_others_are_done(frontier):
    one, two, three = await leases(frontier, 3)
    delivery = Delivery(frontier, RequestMemory(), lambda level, text: None)
    for lease in (one, two, three):
        delivery.add(Completed(Completion(lease=lease)))
    real = frontier.complete_sealed

    async def complete_sealed(sealed):
        if any(each.lease is two for each in sealed):
            raise InfrastructureError("the server answered with an error: ERR what is that")
        return await real(sealed)

    delivery.frontier = replace_method(frontier, complete_sealed)

    await delivery.flush()

    stats = await frontier.stats()
    assert (stats.done, stats.dead) == (2, 1)
    assert (delivery.tally.pages, delivery.tally.late, len(delivery)) == (2, 0, 0)


async def test_that_the_job_is_gone_is_no_fault_of_a_page(frontier):
    [lease] = await leases(frontier, 1)
    delivery = Delivery(frontier, RequestMemory(), lambda level, text: None)
    delivery.add(Completed(Completion(lease=lease)))
    await purge_job(frontier)

    with pytest.raises(JobMissing):
        await delivery.flush()


async def test_pages_that_brought_too_much_are_counted_and_named(frontier):
    [lease] = await leases(frontier, 1)
    said: list[str] = []
    delivery = Delivery(frontier, RequestMemory(), lambda level, text: said.append(text))
    delivery.add(
        Completed(Completion(lease=lease), HandlerOutput(exceeded="7 items were left out"))
    )

    await delivery.flush()

    assert (await frontier.stats()).capped == 1
    assert said == [f"{lease.url}: 7 items were left out"]


async def test_fields_that_were_left_out_are_counted_and_each_is_named_once(frontier):
    said: list[str] = []
    delivery = Delivery(frontier, RequestMemory(), lambda level, text: said.append(text))
    output = HandlerOutput(undeclared=Counter(colour=3, size=1))
    for lease in await leases(frontier, 2):
        delivery.add(Completed(Completion(lease=lease), output))
        await delivery.flush()

    assert (await frontier.stats()).undeclared == 8
    assert [line.split("'")[1] for line in said] == ["colour", "size"]


async def test_a_batch_is_bounded_in_bytes_and_all_of_it_goes_in(frontier):
    """Twelve pages of 6 MB are not one call of 72 MB."""
    delivery = Delivery(frontier, RequestMemory(), lambda level, text: None)
    for lease in await leases(frontier, 12):
        delivery.add(Completed(Completion(lease=lease, items=["x" * (6 * 2**20)])))
    calls: list[int] = []
    real = frontier.complete_sealed

    async def complete_sealed(sealed):
        calls.append(sum(one.size_bytes for one in sealed))
        return await real(sealed)

    delivery.frontier = replace_method(frontier, complete_sealed)

    await delivery.flush()

    assert max(calls) < 16 * 2**20
    assert (await frontier.stats()).done == 12


async def test_the_quality_counts_pages_that_took_effect_and_no_others(frontier):
    late, done, redirect, blocked = await leases(frontier, 4)
    delivery = Delivery(frontier, RequestMemory(lambda: frontier.epoch), lambda level, text: None)
    await frontier.release([late])
    for lease in (late, done):
        completion = Completion(lease=lease, items=[{"title": "A"}])
        delivery.add(Completed(completion, HandlerOutput()))
    delivery.add(Completed(Completion(lease=redirect)))
    delivery.add(Retried(Failure(lease=blocked, error="blocked"), blocked=True))

    await delivery.flush()
    await delivery.quality.send(frontier)

    [history] = await read_quality(frontier)
    [window] = history.windows
    assert (window.pages, window.items, window.blocked) == (1, 1, 1)
    assert window.filled == {("title", "text"): 1}


@pytest.mark.parametrize(("niceness", "pages_at_once"), [(0, 6), (10, 2)])
async def test_a_worker_that_gives_way_brings_fewer_pages_at_once(
    frontier, monkeypatch, niceness, pages_at_once
):
    monkeypatch.setattr("os.nice", lambda by: niceness)
    sizes = []
    complete = Shard.complete

    async def counted(shard, each, **values):
        sizes.append(len(each))
        return await complete(shard, each, **values)

    monkeypatch.setattr(Shard, "complete", counted)
    spider = Spider(frontier.job, ["https://a.test/"])
    await frontier.add([Request(f"https://h{n}.test/") for n in range(6)])
    leases = (await frontier.lease(6)).leases
    async with open_worker(frontier, spider, WorkerConfig(), fetcher=StaticFetcher({})):
        links = [[Request(f"{one.url}{n}") for n in range(50)] for one in leases]
        await frontier.complete(
            [Completion(lease=one, links=some) for one, some in zip(leases, links, strict=True)]
        )

    assert max(sizes) == pages_at_once
    assert (await frontier.stats()).pending == 300


async def test_a_page_that_waits_for_a_name_server_has_not_failed(frontier, clock):
    await frontier.add([Request("https://a.test/")])
    delivery = Delivery(frontier, RequestMemory(lambda: frontier.epoch), lambda level, text: None)
    for _ in range(9):  # more often than max_retries
        [lease] = (await frontier.lease(1)).leases
        delivery.add(Returned(lease, waits=True))
        await delivery.flush()
        stats = await frontier.stats()
        assert (stats.delayed, stats.dead, stats.retried) == (1, 0, 0)
        clock.advance(WAIT_S)

    [lease] = (await frontier.lease(1)).leases
    assert (lease.attempt, lease.losses) == (1, 0)
