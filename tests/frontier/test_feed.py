"""The list that anybody may push to."""

from __future__ import annotations

import json

import pytest

from skitter.errors import UsageError
from skitter.frontier.audit.auditor import audit
from skitter.frontier.dead import dead_letters
from skitter.frontier.feed import parse_message, take_feed
from skitter.frontier.transport.keys import feed_key


async def lpush(frontier, *messages: str | bytes) -> None:
    await frontier.server.command("LPUSH", feed_key(frontier.job), *messages)


async def test_urls_and_json_are_taken_in_their_order(frontier):
    full = {
        "url": "https://a.test/2",
        "method": "POST",
        "headers": {"X-A": "1"},
        "body": "q=1",
        "meta": {"n": 5},
        "priority": 3,
    }
    await lpush(frontier, "https://a.test/1", json.dumps(full), "https://a.test/3")

    assert await take_feed(frontier) == 3

    leases = (await frontier.lease(5)).leases
    assert [lease.url[-1] for lease in leases] == ["2", "1", "3"]
    request = leases[0].request
    assert (request.method, request.body, request.meta) == ("POST", b"q=1", {"n": 5})
    assert (await frontier.stats()).fed == 0


async def test_a_stream_is_read_as_well_as_a_list(frontier):
    async def xadd(*fields: object) -> None:
        await frontier.server.command("XADD", feed_key(frontier.job), "*", *fields)

    await xadd("url", "https://a.test/1")
    await xadd("data", '{"url": "https://a.test/2", "priority": 1}')
    await xadd("url", "https://a.test/3", "priority", "5", "meta", '{"n": 5}', "unique", "7")
    await xadd("data", "no-url")
    await xadd("url", "https://a.test/1")
    assert ((await frontier.stats()).fed, (await audit(frontier)).clean) == (5, True)

    assert await take_feed(frontier) == 5

    leases = (await frontier.lease(5)).leases
    assert [lease.url[-1] for lease in leases] == ["3", "2", "1"]
    assert (leases[0].request.meta, leases[0].request.unique) == ({"n": 5}, "7")
    assert [one.request.meta async for one in dead_letters(frontier)] == [{"message": "no-url"}]
    assert (await frontier.stats()).fed == 0
    assert await take_feed(frontier) == 0


async def test_a_bad_message_is_a_dead_letter_and_stops_nobody(frontier):
    await lpush(
        frontier, "nonsense", b"\xff\xfe", '{"url": 5}', '{"x": 1}', '{"url": "', "https://a.test/"
    )

    assert await take_feed(frontier) == 6

    letters = [letter async for letter in dead_letters(frontier)]
    texts = {letter.request.meta["message"] for letter in letters}
    assert texts == {"nonsense", "\ufffd\ufffd", '{"url": 5}', '{"x": 1}', '{"url": "'}
    assert all(letter.reason for letter in letters)
    assert len((await frontier.lease(5)).leases) == 1
    assert (await audit(frontier)).clean


async def test_messages_beyond_max_pending_stay_in_the_list(make_frontier):
    from conftest import rude

    frontier = await make_frontier(rude(max_pending=2))
    await lpush(frontier, *(f"https://a.test/{n}" for n in range(5)))

    assert await take_feed(frontier) == 2
    assert await take_feed(frontier) == 0
    assert (await frontier.stats()).fed == 3


async def test_only_one_worker_takes_at_a_time(frontier):
    await lpush(frontier, "https://a.test/")
    lock = feed_key(frontier.job) + ":lock"
    await frontier.server.command("SET", lock, "somebody")

    assert await take_feed(frontier) == 0
    assert (await frontier.stats()).fed == 1


@pytest.mark.parametrize(
    "message", [b'{"url": "https://a.test/", "prio": 1}', b"{}", b"{not json", b'{"url": null}']
)
def test_a_message_that_is_no_request_says_why(message):
    with pytest.raises(UsageError, match="the message"):
        parse_message(message)
