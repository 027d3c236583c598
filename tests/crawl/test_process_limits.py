"""What one worker may have: memory, and pages of a certain size."""

from __future__ import annotations

import json

import pytest

from crawl.test_crawls import assert_complete

pytestmark = pytest.mark.timeout(300)


def test_workers_over_their_memory_are_replaced_and_no_page_is_blamed(open_shop, make_machine):
    """Fifty megabytes are less than any worker has: each ends after its first pages."""
    shop = open_shop()
    machine = make_machine(shop)

    run = machine.run("--workers", "2", "--max-memory", "50", "--json")

    assert run.returncode == 0, run.stderr
    assert_complete(machine, shop)
    log = machine.call("logs", "books", "-n", "1000").stdout
    assert "over --max-memory 50" in log


def test_a_page_over_the_size_that_was_asked_for_is_a_dead_letter(open_shop, make_machine):
    shop = open_shop()
    machine = make_machine(shop)

    run = machine.call(
        *("crawl", shop.url, "--rate", "none", "--max-pages", "5", "--workers", "1"),
        *("--max-page-size", "0.01", "--job", "small", "--json"),
    )

    reasons = json.loads(machine.call("dead", "list", "small", "--json").stdout)
    assert any(
        "the body is over 0.01 MB (fetch.max_body_mb)" in one["reason"] for one in reasons
    ), run.stderr
