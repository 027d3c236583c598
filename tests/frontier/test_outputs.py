"""Several outputs: each gets every item, and none holds up another."""

from __future__ import annotations

import pytest

from conftest import rude
from frontier.test_items import fill
from skitter.errors import ItemsElsewhere, OutputDropped, OutputIncomplete
from skitter.frontier.items import ItemStream
from skitter.frontier.records.outputs import (
    FULL,
    add_output,
    backlogs,
    check_sink,
    claim_sink,
    drop_output,
    further,
    note_full,
    stream_of,
)
from skitter.model import Result
from skitter.settings import Layout

B = "s3://b/"


async def take(stream: ItemStream, limit: int = 500, *, acknowledged: bool = True) -> set[str]:
    """What it reads at once."""
    found: list[Result] = []
    while len(found) < limit and (more := await stream.read(limit - len(found), wait_s=0)):
        found += more
        if acknowledged:
            await stream.acknowledge(more, updated=len(more))
    return {one.url for one in found}


@pytest.fixture
async def frontier(make_frontier):
    frontier = await make_frontier(rude(), Layout(shards=3))
    await claim_sink(frontier, "/x/a.db")
    await add_output(frontier, B, can_fill=True)
    await note_full(frontier, B)
    return frontier


async def test_an_item_leaves_when_all_outputs_have_it_in_whatever_order(frontier):
    await fill(frontier, 90)
    main, other = stream_of(frontier, "l"), stream_of(frontier, "l", place=B)

    assert len(await take(main, 60)) == 60
    assert ((await frontier.stats()).items, (await frontier.stats()).stored) == (90, 0)
    assert len(await take(other)) == 90
    assert ((await frontier.stats()).items, (await frontier.stats()).stored) == (30, 60)
    held = await take(main, acknowledged=False)
    assert (await frontier.stats()).items == len(held) == 30
    assert await take(stream_of(frontier, "new", take_over_s=0)) == held, "as its loader is dead"
    stats = await frontier.stats()
    assert (stats.items, stats.stored) == (0, 90)
    assert stats.updated == 90, "not once for each output"


async def behind(frontier) -> dict[str, int]:
    return {one.place: one.items for one in await backlogs(frontier)}


async def test_one_that_is_away_holds_up_no_other_and_is_named_with_what_waits_for_it(frontier):
    main, other = stream_of(frontier, "l"), stream_of(frontier, "l", place=B)
    await fill(frontier, 21)
    assert await take(main) == await take(other)
    await fill(frontier, 14, first=21)

    assert len(await take(main)) == 14
    assert await behind(frontier) == {"/x/a.db": 0, B: 14}
    held = await take(other, 5, acknowledged=False)
    assert len(held) == 5
    assert await behind(frontier) == {"/x/a.db": 0, B: 14}, "what a loader holds is not stored"
    assert all(one.since for one in await backlogs(frontier) if one.items)


async def test_one_that_is_named_no_more_holds_no_item_back_and_its_loader_ends(frontier):
    main, other = stream_of(frontier, "l"), stream_of(frontier, "l", place=B)
    await fill(frontier, 30)
    await take(main, 20)
    await take(other, 10)

    await drop_output(frontier, B)

    assert await further(frontier) == {}
    assert ((await frontier.stats()).items, (await frontier.stats()).stored) == (10, 20)
    assert await take(other) == set()
    with pytest.raises(OutputDropped, match="a later run did not name it"):
        await take(other)
    assert len(await take(main)) == 10
    await drop_output(frontier, B)  # of a run that was killed before it could forget it
    assert not (await frontier.stats()).items


async def test_one_that_comes_later_gets_what_is_there_and_knows_what_it_lacks(frontier):
    main = stream_of(frontier, "l")
    await drop_output(frontier, B)
    await fill(frontier, 30)
    await take(main, 20)

    with pytest.raises(OutputIncomplete, match="only a database can be read back"):
        await add_output(frontier, B, can_fill=False)
    assert await further(frontier) == {}
    await add_output(frontier, B, can_fill=True)

    assert await further(frontier) == {B: "filling"}
    assert len(await take(stream_of(frontier, "l", place=B))) == 10
    assert len(await take(main)) == 10
    assert (await frontier.stats()).stored == 30


async def test_the_first_run_of_two_outputs_needs_no_filling(make_frontier):
    frontier = await make_frontier(rude())
    await claim_sink(frontier, "/x/a.jsonl")
    await fill(frontier, 7)
    await add_output(frontier, B, can_fill=False)
    assert await further(frontier) == {B: FULL}
    assert len(await take(stream_of(frontier, "l", place=B))) == 7
    assert len(await take(stream_of(frontier, "l"))) == 7, "also if it begins after the other one"


async def test_a_main_output_that_has_items_is_not_replaced_while_another_lacks_them(
    frontier, clock
):
    clock.advance(3600)
    assert await check_sink(frontier, "/x/b.db") == "/x/a.db", "it has got nothing"
    await fill(frontier, 7)
    await take(stream_of(frontier, "l"), 1)
    assert (await frontier.stats()).stored == 0
    with pytest.raises(ItemsElsewhere):
        await check_sink(frontier, "/x/b.db")
