import pytest

from skitter.errors import UsageError
from skitter.model import Added, Completion, Ended, Request


async def test_a_url_is_added_leased_and_completed(frontier):
    assert await frontier.add([Request(url="https://a.test/")]) == [Added.NEW]

    [lease] = (await frontier.lease(10)).leases
    assert await frontier.complete([Completion(lease=lease)]) == [Ended.DONE]

    stats = await frontier.stats()
    assert (stats.seen, stats.done, stats.finished) == (1, 1, True)


async def test_a_url_in_place_of_a_request_is_answered_with_what_to_write(frontier):
    with pytest.raises(UsageError, match=r"^'http://a.test/' is not a Request: write Request"):
        await frontier.add(["http://a.test/"])
