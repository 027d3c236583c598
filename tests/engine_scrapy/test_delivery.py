"""What a node sends: each page once, and none keeps the others."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Spider
from scrapy.settings import Settings

from skitter.crawl.job_loader import keep_rejected
from skitter.engine.departures import Departures
from skitter.errors import ServerUnreachable
from skitter.frontier.dead import dead_letters
from skitter.frontier.items import RejectedItem
from skitter.frontier.records.health import read_quality
from skitter.model import Request
from skitter.scrapy.node.mailbox import FailedItem, Mailbox, OpenLease
from skitter.scrapy.node.sender import ResultSender
from skitter.scrapy.settings import read_options


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def delivery(frontier, job, said) -> ResultSender:
    options = read_options(Settings({"SKITTER_JOB": job}), Spider("books"))
    return ResultSender(
        frontier,
        Mailbox(),
        options,
        say=lambda level, text: said.append(text),
        departures=Departures(frontier),
        on_duplicates=lambda links: None,
    )


async def pages(delivery: ResultSender, count: int) -> list[OpenLease]:
    """Under way, and through: their results are in the outbox."""
    await delivery.frontier.add(Request(url=f"http://a.test/{n}") for n in range(count))
    leases = (await delivery.frontier.lease(count)).leases
    entries = [OpenLease(lease, 0.0) for lease in leases]
    for entry in entries:
        delivery.mailbox.outbox.add(entry)
    return entries


async def test_a_page_that_cannot_be_stored_is_a_dead_letter_and_the_others_are_done(delivery):
    first, bad, last = await pages(delivery, 3)
    first.items, bad.items, last.items = [{"n": 1}], [{"n": object()}], [{"n": 3}]

    await delivery.flush()

    stats = await delivery.frontier.stats()
    assert (stats.done, stats.dead, stats.items) == (2, 1, 2)
    [letter] = [one async for one in dead_letters(delivery.frontier)]
    assert letter.url == bad.lease.url
    assert letter.reason.startswith("its results cannot be stored: ")
    assert (delivery.pages, delivery.errors) == (2, 1)


async def test_when_the_server_goes_away_half_way_what_was_answered_is_not_sent_again(
    delivery, said, monkeypatch
):
    await pages(delivery, 2)
    item = RejectedItem(url="http://a.test/0", field="", reason="no", item={})
    delivery.mailbox.outbox.add(FailedItem(item))

    async def fail(*args: Any) -> None:
        raise ServerUnreachable("it is away")

    monkeypatch.setattr("skitter.scrapy.node.sender.keep_rejected", fail)
    with pytest.raises(ServerUnreachable):
        await delivery.flush()
    assert len(delivery.mailbox.outbox) == 3
    monkeypatch.setattr("skitter.scrapy.node.sender.keep_rejected", keep_rejected)
    await delivery.flush()

    stats = await delivery.frontier.stats()
    assert (stats.done, stats.late, stats.rejected) == (2, 0, 1)
    assert (delivery.pages, len(delivery.mailbox.outbox)) == (2, 0)
    assert said == ["an item from http://a.test/0 was rejected: no"]


async def test_items_of_pages_that_are_done_count_for_the_quality(delivery):
    stream, lists, late = await pages(delivery, 3)
    stream.items, stream.more_items = [{"title": "A", "price": None}], [{"title": "B", "price": 1}]
    lists.pushes = [("list", b"{}")]
    late.items = [{"title": "C"}]
    await delivery.frontier.release([late.lease])

    await delivery.flush()
    await delivery.quality.send(delivery.frontier)

    [history] = await read_quality(delivery.frontier)
    [window] = history.windows
    assert (history.handler, window.pages, window.items) == ("parse", 2, 3)
    assert window.filled == {("title", "text"): 2, ("price", "number"): 1}
