from skitter.model import Added, Completion, Ended, Request


async def test_a_url_is_added_leased_and_completed(frontier):
    assert await frontier.add([Request(url="https://a.test/")]) == [Added.NEW]

    [lease] = (await frontier.lease(10)).leases
    assert await frontier.complete([Completion(lease=lease)]) == [Ended.DONE]

    stats = await frontier.stats()
    assert (stats.seen, stats.done, stats.finished) == (1, 1, True)
