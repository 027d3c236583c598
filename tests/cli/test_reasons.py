"""Reasons that differ only in their values count as one."""

from __future__ import annotations

import pytest

from skitter.crawl.reasons import HandlerErrors, dead_reasons, kind_of
from skitter.frontier.admin.log import Event, log
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
