"""Reasons that differ only in their values count as one."""

from __future__ import annotations

import pytest

from skitter.crawl.findings import HandlerErrors, dead_reasons, kind_of
from skitter.frontier.workers import Event, log
from skitter.model import Failure, Request

BROKEN = "handler page failed: KeyError: '{}' (shop.py:12: price = prices[name])"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("404 Not Found", "404 Not Found"),
        ("redirect loop: https://a.test/1 -> https://a.test/2", "redirect loop: ... -> ..."),
        (BROKEN.format("a"), "handler page failed: KeyError (shop.py:12: price = prices[name])"),
        (
            "handler page failed: it yielded a set (shop.py:3: yield {1})",
            "handler page failed: it yielded a set (shop.py:3: yield {1})",
        ),
        ("handler page failed: it yielded 'x'", "handler page failed: it yielded '...'"),
    ],
)
def test_what_differs_from_page_to_page_is_left_out(reason, kind):
    assert kind_of(reason) == kind


async def test_dead_letters_are_counted_by_kind(frontier):
    await frontier.add([Request(url=f"https://a.test/{i}") for i in range(3)])
    leases = (await frontier.lease(3)).leases
    reasons = [BROKEN.format("a"), "404 Not Found", BROKEN.format("b")]
    pairs = zip(leases, reasons, strict=True)
    await frontier.bury([Failure(lease=lease, error=reason) for lease, reason in pairs])

    assert list((await dead_reasons(frontier)).values()) == [2, 1]


async def test_errors_of_handlers_are_read_from_the_log_once(frontier):
    errors, since_s = HandlerErrors(), await frontier.server_time() - 1
    await log(frontier, "warning", "w", f"https://a.test/1: {BROKEN.format('a')}")
    await log(frontier, "warning", "w", "https://a.test/2: 503 Service Unavailable")
    frontier.shards[0].clock = None  # the log has the real time

    first = await errors.read(frontier, since_s=0)
    await log(frontier, "warning", "w", f"https://a.test/3: {BROKEN.format('c')}")
    again = await errors.read(frontier, since_s=since_s)

    assert first == [f"{BROKEN.format('a')}, on https://a.test/1"]
    assert again == []
    assert errors.lines(3) == [f"2 x {BROKEN.format('c')}, on https://a.test/3"]


def test_only_the_newest_kinds_are_shown():
    errors = HandlerErrors()
    for i in range(5):
        text = f"https://a.test/: handler page failed: E{i}: x (shop.py:{i}: x)"
        errors.add(Event(id=f"{i}-0", at=0, level="warning", worker="w", text=text))

    assert [line.split(":")[1] for line in errors.lines(2)] == [" E4", " E3"]


REJECTED = (
    "an item from https://a.test/{n} was rejected: price: no float: '{n}' (shop.py:9: yield x)"
)
BLOCKS = "a handler blocks: shop.py:3: time.sleep(4) held up every page of its worker for {n}.0 s."


@pytest.mark.parametrize(
    ("level", "texts", "remarks"),
    [
        ("warning", [BLOCKS], ["blocked: shop.py:3: time.sleep(4) held up every page of its worker "
                               "for 0.0 s."]),
        ("warning", [REJECTED], ["rejected: price: no float: '0' (shop.py:9: yield x), from "
                                 "https://a.test/0"]),
        ("warning", [REJECTED, REJECTED.replace("price", "title")], [
            "rejected: price: no float: '0' (shop.py:9: yield x), from https://a.test/0",
            "rejected: title: no float: '0' (shop.py:9: yield x), from https://a.test/0",
        ]),
        ("info", ["an item from https://a.test/ was rejected: the user's hook dropped it"], []),
        ("warning", ["https://a.test/: 404 Not Found"], []),
    ],
)  # fmt: skip
def test_a_rejected_item_and_a_line_that_blocks_are_remarked_on_once(level, texts, remarks):
    errors = HandlerErrors()
    for n in range(3):
        for text in texts:
            event = Event(id=f"{n}-0", at=0, level=level, worker="w", text=text.format(n=n))
            errors.add(event)

    assert errors.remarks() == remarks
    assert errors.remarks() == []
