"""What others wrote to the server where we keep our own: it counts as absent."""

from __future__ import annotations

import pytest

from skitter.frontier.audit.auditor import audit
from skitter.frontier.workers import heartbeats, was_heard
from skitter.model import Request

DEEP = b"\x91" * 5000  # an array in an array in an array ...


@pytest.mark.parametrize("nonsense", [DEEP, b"\xc0", b"\x81\xa8failures\xa1x", b"\xff", b"\x90"])
async def test_trouble_that_cannot_be_read_is_none(frontier, nonsense):
    await frontier.add([Request(url="https://a.test/")])
    [fp] = await frontier.home.command("HKEYS", "task")
    await frontier.home.command("HSET", "trouble", fp, nonsense)

    [lease] = (await frontier.lease(1)).leases

    assert (lease.url, lease.attempt, lease.losses) == ("https://a.test/", 1, 0)


async def test_a_request_nested_too_deeply_is_a_dead_letter_and_the_audit_goes_on(frontier):
    await frontier.add([Request(url="https://a.test/"), Request(url="https://b.test/")])
    fp, _ = await frontier.home.command("HKEYS", "task")
    priority, host, _ = (await frontier.home.command("HGET", "task", fp)).split(b" ", 2)
    await frontier.home.command("HSET", "task", fp, b" ".join([priority, host, DEEP]))

    assert (await audit(frontier)).problems
    assert len((await frontier.lease(2)).leases) == 1
    assert (await frontier.stats()).dead == 1


async def test_heartbeats_and_lines_of_the_log_that_are_not_ours_are_left_out(frontier):
    await frontier.home.command("HSET", "workers", "w", DEEP)
    await frontier.home.command("XADD", "events", "*", "d", "x")

    assert await heartbeats(frontier) == []
    assert not await was_heard(frontier, "w")
