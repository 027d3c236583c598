"""Dead letters are read, brought back and dropped."""

from __future__ import annotations

import pytest

from skitter.crawl.redo import Redo
from skitter.errors import BadOption
from skitter.frontier.audit.auditor import audit
from skitter.frontier.audit.why import why
from skitter.frontier.dead import Filter, dead_letters, drop, find_dead, forget, revive
from skitter.frontier.frontier import Frontier
from skitter.frontier.items import RejectedFrom, read_rejected, reject_items
from skitter.frontier.records.failed import FailedPage, FailedPages, failed_pages
from skitter.model import Added, Completion, Failure, Request
from skitter.settings import Bloom, JobOptions, Layout, Visits


async def bury(frontier: Frontier, count: int, error: str = "404", host: str = "a.test") -> None:
    await frontier.add(Request(url=f"https://{host}/{n}") for n in range(count))
    leases = []
    while batch := (await frontier.lease(500)).leases:
        leases += batch
    await frontier.bury([Failure(lease=lease, error=error) for lease in leases])


async def letters_of(frontier: Frontier, which: Filter | None = None):
    return [letter async for letter in dead_letters(frontier, which)]


async def test_all_of_many_letters_of_one_moment_are_listed_once(frontier):
    await bury(frontier, 1234)

    letters = await letters_of(frontier)

    assert len(letters) == 1234
    assert len({letter.url for letter in letters}) == 1234


async def test_a_letter_tells_what_happened(frontier, clock):
    await frontier.add([Request(url="https://a.test/x", priority=7, meta={"page": 3}, depth=2)])
    [lease] = (await frontier.lease(1)).leases
    await frontier.bury([Failure(lease=lease, error="404 not found")])

    [letter] = await letters_of(frontier)

    assert (letter.url, letter.reason, letter.failures) == ("https://a.test/x", "404 not found", 1)
    assert letter.at == clock.now_ms / 1000
    assert (letter.request.meta, letter.request.depth, letter.priority) == ({"page": 3}, 2, 7)
    assert await find_dead(frontier, letter.fingerprint) == letter


@pytest.mark.parametrize(
    ("which", "count"),
    [
        (Filter(), 15),
        (Filter(url="b.test"), 5),
        (Filter(url="https://a.test/*"), 10),
        (Filter(url="https://*/3"), 2),
        (Filter(reason="TIME"), 5),
        (Filter(url="a.test", reason="timeout"), 0),
    ],
)
async def test_letters_are_filtered_by_url_and_reason(frontier, which, count):
    await bury(frontier, 10, "404")
    await bury(frontier, 5, "timeout", host="b.test")

    assert len(await letters_of(frontier, which)) == count


async def test_revived_letters_are_pending_again_with_a_clean_record(frontier):
    await bury(frontier, 300)

    assert await revive(frontier, await letters_of(frontier)) == 300
    assert await letters_of(frontier) == []

    leases = (await frontier.lease(500)).leases
    assert {lease.attempt for lease in leases} == {1}
    assert len(leases) == 300
    assert (await audit(frontier)).clean


async def test_reviving_while_listing_misses_nobody(frontier):
    await bury(frontier, 700)
    revived = 0

    async for letter in dead_letters(frontier):
        revived += await revive(frontier, [letter])

    assert revived == 700


async def test_a_dropped_letter_stays_seen(frontier):
    await bury(frontier, 1)

    assert await drop(frontier, await letters_of(frontier)) == 1

    assert await frontier.add([Request(url="https://a.test/0")]) == [Added.SEEN]
    report = await audit(frontier)
    assert report.clean
    assert (report.counts["dropped"], report.counts["seen"]) == (1, 1)


async def test_a_forgotten_letter_may_come_back(frontier):
    await bury(frontier, 1)

    await drop(frontier, await letters_of(frontier), forget=True)

    assert await frontier.add([Request(url="https://a.test/0")]) == [Added.NEW]
    assert (await audit(frontier)).clean


async def test_a_bloom_filter_cannot_forget_and_says_so(make_frontier):
    frontier = await make_frontier(layout=Layout(bloom=Bloom(capacity=1000)))
    await bury(frontier, 1)

    with pytest.raises(BadOption, match="Bloom filter cannot forget"):
        await drop(frontier, await letters_of(frontier), forget=True)


async def test_a_page_that_is_done_is_forgotten_and_may_come_again(frontier):
    done, waiting, dead = (Request(url=f"https://a.test/{name}") for name in ("x", "y", "z"))
    await frontier.add([done, dead])
    first, second = (await frontier.lease(2)).leases
    await frontier.complete([Completion(lease=first)])
    await frontier.bury([Failure(lease=second, error="404")])
    await frontier.add([waiting])
    unknown = Request(url="https://a.test/unknown")

    assert await forget(frontier, [done, waiting, dead, unknown]) == [True, False, False, False]

    stats = await frontier.stats()
    assert (stats.seen, stats.done, stats.pending, stats.dead) == (2, 0, 1, 1)
    assert (await audit(frontier)).problems == set()
    assert (await why(frontier, done.url)).state == "unknown"
    assert await frontier.add([done, waiting, dead]) == [Added.NEW, Added.SEEN, Added.SEEN]
    assert await forget(frontier, [done]) == [False], "it waits"
    assert (await audit(frontier)).problems == set()


async def test_a_page_that_is_to_be_visited_again_is_forgotten_with_that(make_frontier):
    frontier = await make_frontier(options=JobOptions(visits=Visits(revisit=True)))
    page = Request(url="https://a.test/x")
    await frontier.add([page])
    [lease] = (await frontier.lease(1)).leases
    await frontier.complete([Completion(lease=lease)])

    assert await forget(frontier, [page]) == [True]

    assert (await frontier.stats()).seen == 0
    assert (await audit(frontier)).problems == set()


async def test_only_items_whose_pages_are_handled_again_are_no_longer_rejected(frontier):
    kept, gone = (Request(url=f"https://a.test/{name}") for name in ("kept", "gone"))
    await frontier.add([kept, gone])
    while leases := (await frontier.lease(10)).leases:
        await frontier.complete([Completion(lease=one) for one in leases])
    for page in (kept, gone):
        item = RejectedFrom(url=page.url, field="price", reason="no", item={}, request=page)
        await reject_items(frontier, item)
    assert await forget(frontier, [gone]) == [True]
    for fetched in (1, 0):  # the second time, nothing of it is left to do
        did = await Redo(frontier, None, None, Filter(), rejected=True).mark()
        assert (did.fetched, did.left) == (fetched, 1)
        assert [one.url for one in await read_rejected(frontier, 9)] == [gone.url]


async def test_pages_that_were_forgotten_half_way_leave_room_for_others(frontier):
    async def keep(*numbers: int) -> list[str]:
        pages = FailedPages(most=2, max_mb=1)
        for n in numbers:
            page = FailedPage(
                fingerprint=f"{n}", url=f"u{n}", reason="no", at=n, status=500, headers=[], body=b""
            )
            pages.add(page)
        await pages.send(frontier)
        return [one.url for one in await failed_pages(frontier)]

    assert await keep(1, 2) == await keep(3) == ["u1", "u2"]
    await frontier.home.command("HDEL", "failed", "1")  # killed before the next command
    assert await keep(4) == await keep(5) == ["u2", "u4"]
