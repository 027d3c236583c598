"""Items for loaders: each its share, nothing lost with a dead one."""

from __future__ import annotations

from skitter.frontier.items import (
    ItemStream,
    RejectedItem,
    item_page,
    read_items,
    read_rejected,
    reject_items,
    remove_items,
)
from skitter.frontier.records.schedule import offer_round
from skitter.frontier.transport.messages import encode
from skitter.model import Completion, Request
from skitter.settings import Layout


async def fill(frontier, count: int, *, first: int = 0) -> None:
    pages = range(first, first + count)
    await frontier.add(Request(url=f"https://h{n % 7}.test/{n}") for n in pages)
    done = 0
    while leases := (await frontier.lease(500)).leases:
        await frontier.complete([Completion(lease=one, items=[{"url": one.url}]) for one in leases])
        done += len(leases)
    assert done == count


async def test_two_loaders_share_the_items_and_acknowledged_ones_are_gone(make_frontier):
    from conftest import rude

    frontier = await make_frontier(rude(), Layout(shards=3))
    await fill(frontier, 300)
    loaders = [ItemStream(frontier, name) for name in ("one", "two")]
    got: list[str] = []
    odd = 0
    while (await frontier.stats()).items:
        for loader in loaders:
            results = await loader.read(20, wait_s=0)
            odd += bool(results)
            got += [result.item["url"] for result in results]
            await loader.acknowledge(results[1:], results[:1])
            await loader.acknowledge(results)  # twice is once

    assert (await frontier.stats()).stored == 300 - odd
    assert len(got) == len(set(got)) == 300


async def test_what_a_dead_loader_held_is_taken_over(frontier):
    await fill(frontier, 30)
    dead, living = ItemStream(frontier, "dead"), ItemStream(frontier, "living", take_over_s=0)
    held = await dead.read(30, wait_s=0)

    results = await living.read(100, wait_s=0)

    assert [one.id for one in results] == [one.id for one in held]
    assert (results[0].index, results[0].url) == (0, results[0].item["url"])


async def test_what_a_slow_loader_keeps_is_not_taken_over(frontier):
    await fill(frontier, 30)
    slow, eager = ItemStream(frontier, "slow"), ItemStream(frontier, "eager", take_over_s=60)
    held = await slow.read(30, wait_s=0)
    key = frontier.shards[0].keys.key("items")
    ids = [one.id.partition("/")[2] for one in held]
    words = ("XCLAIM", key, "load", "slow", 0, *ids, "IDLE", 60_000, "JUSTID")
    await frontier.server.command(*words, parse_justid=True)

    await slow.keep(held)

    assert await eager.read(100, wait_s=0) == []
    await slow.acknowledge(held)
    await slow.keep(held)  # too late, and no harm
    assert (await frontier.stats()).items == 0


async def test_pages_of_items_are_read_without_being_taken(frontier):
    await fill(frontier, 600)

    pages = [page async for page in read_items(frontier)]

    assert [len(page) for page in pages] == [500, 100]
    assert await remove_items(frontier, pages[0]) == 500
    assert (await frontier.stats()).items == 100


async def test_notices_are_for_loaders_alone(make_frontier):
    from conftest import rude

    frontier = await make_frontier(rude(), Layout(shards=2))
    notice = ("fp", "1", "n", -1, "item", encode({"url": "https://a.test/", "item": None}))
    for shard in frontier.shards:
        for _ in range(5):
            await shard.command("XADD", "items", "*", *notice)
    await fill(frontier, 20)

    pages = [page async for page in read_items(frontier)]
    sizes, after = [], ""
    while page := await item_page(frontier, after, 3):
        sizes.append(len(page))
        after = page[-1].id
    assert sum(map(len, pages)) == 20
    assert sizes == [3] * 6 + [2]
    assert (await ItemStream(frontier, "loader").read(1, wait_s=0))[0].is_notice


async def test_workers_wait_while_too_many_items_wait_for_a_loader(make_frontier):
    from conftest import rude

    frontier = await make_frontier(rude(max_items=10))
    await frontier.add(Request(url=f"https://a.test/{n}") for n in range(30))
    leases = (await frontier.lease(10)).leases
    await frontier.complete([Completion(lease=one, items=[1]) for one in leases])

    assert (await frontier.lease(10)).leases == []

    loader = ItemStream(frontier, "loader")
    await loader.acknowledge(await loader.read(10, wait_s=0))
    assert len((await frontier.lease(10)).leases) == 10


async def test_items_that_are_set_aside_are_counted_by_field(frontier):
    for field in ("price", "price", ""):
        await reject_items(
            frontier, RejectedItem(url="https://a.test/", field=field, reason="no", item={})
        )

    _, counts = await frontier.shards[0].counts()
    assert (counts["rejected"], counts["rejected by price"]) == (3, 2)
    assert [one.field for one in await read_rejected(frontier, 2)] == ["", "price"]
    assert (await frontier.stats()).rejected == 3


async def test_a_rejected_item_that_an_older_release_stored_is_read(frontier):
    old = RejectedItem(url="https://a.test/", field="price", reason="no", item={"price": "?"})
    await frontier.home.command("XADD", "rejected", "*", "aside", encode(old))

    [found] = await read_rejected(frontier, 2)
    assert (found.url, found.item) == ("https://a.test/", {"price": "?"})


NONSENSE: list[dict[str, str | bytes]] = [
    {"d": "x"},
    {"fp": "1", "n": "0", "item": b"\x91" * 5000},
    {"fp": "1", "n": "0", "item": b"\xc0"},
    {"fp": "1", "n": "0", "item": encode({"url": 7, "item": {}})},
    {"fp": "1", "n": "zero", "item": encode({"url": "https://a.test/", "item": {}})},
    {"fp": b"\xff", "n": "0", "item": encode({"url": "https://a.test/", "item": {}})},
]


async def test_what_others_wrote_into_the_stream_holds_up_no_item(frontier):
    for fields in NONSENSE:
        words = [word for pair in fields.items() for word in pair]
        await frontier.home.command("XADD", "items", "*", *words)
    await fill(frontier, 3)

    assert len([one async for page in read_items(frontier) for one in page]) == 3
    assert len(await item_page(frontier, "", 100)) == 3
    loader = ItemStream(frontier, "one")
    results = await loader.read(100, wait_s=0)
    await loader.acknowledge(results)

    assert len(results) == 3
    assert (await frontier.stats()).items == 0
    rejected = await read_rejected(frontier, 100)
    assert {one.reason for one in rejected} == {"it is in the stream of items, but is none"}
    assert len(rejected) == len(NONSENSE)


async def test_what_others_wrote_among_the_rejected_is_left_out(frontier):
    await reject_items(frontier, RejectedItem(url="u", field="", reason="r", item={}))
    for item in (b"x", b"\x91" * 5000, encode({"url": 7})):
        await frontier.home.command("XADD", "rejected", "*", "item", item)
    await frontier.home.command("XADD", "rejected", "*", "other", "x")

    assert [one.url for one in await read_rejected(frontier, 100)] == ["u"]


async def test_what_a_round_finds_on_hosts_of_other_shards_is_later_than_the_first_crawl(
    make_frontier,
):
    from conftest import rude

    frontier = await make_frontier(rude(), Layout(shards=4))
    start, loader = Request(url="https://start.test/"), ItemStream(frontier, "one")
    hosts = [Request(url=f"https://h{n}.test/") for n in range(8)]
    await frontier.add([start])
    [lease] = (await frontier.lease(1)).leases
    await frontier.complete([Completion(lease=lease, items=["first"])])
    await offer_round(frontier, [start], due_ms=1)
    [lease] = (await frontier.lease(1)).leases
    await frontier.complete([Completion(lease=lease, links=hosts)])
    while leases := (await frontier.lease(20)).leases:
        await frontier.complete([Completion(lease=one, items=["later"]) for one in leases])

    found = []
    while (await frontier.stats()).items:
        found += (results := await loader.read(100, wait_s=0))
        await loader.acknowledge(results)
    assert len(found) == 9
    assert all(one.is_later for one in found if one.item == "later")
