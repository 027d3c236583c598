"""What handlers find: counted in memory, sent with the heartbeat, kept in windows."""

from __future__ import annotations

import pytest

from skitter.engine.pulse import FoundItems
from skitter.errors import ServerUnreachable
from skitter.frontier.audit.auditor import audit
from skitter.frontier.jobs import purge_job
from skitter.frontier.records.health import (
    LONGEST_NAME,
    MAX_COLUMNS,
    MAX_HANDLERS,
    Observed,
    observe,
    read_quality,
)
from skitter.frontier.transport.shard import scan_keys
from skitter.observe.quality import total

BOOK = {"title": "A", "price": 1.5, "stock": 0, "tags": ["x"], "on_sale": False}


async def the_only(frontier):
    (history,) = await read_quality(frontier)
    return history


async def test_what_is_filled_is_counted_by_field_and_type(frontier):
    found = FoundItems("parse")
    found.add_page(None, [BOOK, BOOK | {"price": "free", "tags": [], "title": ""}])
    found.add_page("parse", [BOOK | {"price": None}, {"title": "B"}])
    found.add_page("listing", [])
    found.add_blocked(None)
    await found.send(frontier)

    listing, parse = await read_quality(frontier)

    assert (listing.handler, listing.windows[0].pages, listing.fields) == ("listing", 1, [])
    seen = total(parse.windows)
    assert (seen.pages, seen.items, seen.blocked) == (2, 4, 1)
    fill = {name: (seen.fill(name), seen.type_of(name)) for name in parse.fields}
    assert fill == {
        "title": (0.75, "text"),
        "price": (0.5, "number|text"),
        "stock": (0.75, "number"),
        "tags": (0.5, "list"),
        "on_sale": (0.75, "bool"),
    }


async def test_fields_are_counted_by_item_type(frontier):
    book, offers = {"_type": "Book", "price": 1}, [{"_type": "Offer", "seller": "A"}] * 9
    found = FoundItems("parse")
    for _ in range(4):
        found.add_page(None, [book, *offers])
    await found.send(frontier)

    seen = total((await the_only(frontier)).windows)
    assert (seen.items, seen.fill("Book.price"), seen.fill("Offer.seller")) == (40, 1.0, 1.0)
    assert (seen.rate("Book._type"), seen.rate("Offer._type")) == (1.0, 9.0)


async def test_what_the_server_did_not_take_is_sent_the_next_time(frontier):
    found = FoundItems("parse")

    class Away:
        home = property(lambda _: (_ for _ in ()).throw(ServerUnreachable("away")))

    found.add_page(None, [BOOK])
    with pytest.raises(ServerUnreachable):
        await found.send(Away())  # type: ignore[arg-type]
    found.add_page(None, [BOOK])
    await found.send(frontier)
    await found.send(frontier)
    await found.send(frontier)  # there is nothing left

    assert total((await the_only(frontier)).windows).pages == 2


async def test_a_window_that_is_full_is_followed_by_another(frontier, clock):
    for n in range(4):
        await observe(frontier, [Observed("parse", 30, 30, 0, {"text:title": n})])
        clock.advance(2)
    first, second = (await the_only(frontier)).windows

    # 30 pages are too few, and 60 after 4 seconds too early
    assert [(one.pages, one.filled.total()) for one in (first, second)] == [(90, 3), (30, 3)]
    assert second.at - first.at == 6


async def test_the_last_windows_stay_fine_and_the_older_ones_get_wider(frontier, clock):
    for n in range(200):
        column = "text:a" if n < 100 else "text:b"
        await observe(frontier, [Observed("parse", 50, 1, 0, {column: 1})])
        clock.advance(5)
    windows = (await the_only(frontier)).windows

    assert len(windows) == 40
    assert [one.pages for one in windows[-12:]] == [50] * 12
    assert {one.pages for one in windows[:-12]} <= {300, 350, 400, 450, 200, 250, 100, 150}
    assert sum(one.pages for one in windows) == 10_000
    assert [one.at for one in windows] == sorted(one.at for one in windows)
    assert "b" not in {name for name, _ in windows[0].filled}


async def test_the_size_on_the_server_has_a_limit(frontier, clock):
    """However many handlers, fields and pages there are."""
    names = [f"text:{n:03}".ljust(LONGEST_NAME + 5, "x") for n in range(MAX_COLUMNS + 9)]
    for _ in range(60):
        much = dict.fromkeys(names, 2**31)
        await observe(
            frontier, [Observed(f"{h}".ljust(90, "h"), 2**31, 2**31, 0, much) for h in range(25)]
        )
        clock.advance(10)

    shard = frontier.home
    key = shard.keys.key("quality")
    assert await shard.server.command("HLEN", key) == MAX_HANDLERS
    # jemalloc rounds up more than glibc
    assert await shard.server.command("MEMORY", "USAGE", key, "SAMPLES", 0) < 850_000


async def test_an_ordinary_handler_takes_two_kilobytes(frontier, clock):
    for _ in range(500):
        await observe(
            frontier, [Observed("parse", 60, 60, 0, {f"text:field{x}": 60 for x in range(10)})]
        )
        clock.advance(10)
    shard = frontier.home

    size = await shard.server.command("MEMORY", "USAGE", shard.keys.key("quality"), "SAMPLES", 0)
    assert 500 < size < 2500


async def test_fields_whose_names_are_data_do_not_grow_without_end(frontier):
    found = FoundItems("parse")
    for n in range(3000):
        found.add_page(None, [{f"{n}": 1}])
    found.add_page(None, [{f"{n}": 1 for n in range(50_000)}])
    await found.send(frontier)

    history = await the_only(frontier)
    assert len(history.fields) == MAX_COLUMNS
    assert total(history.windows).items == 3001


async def test_damage_is_left_out_and_overwritten(frontier):
    shard = frontier.home
    key = shard.keys.key("quality")
    for n, damage in enumerate(("", "x", b"\x81\xa4rows\x01", b"\xc1")):
        await shard.server.command("HSET", key, f"h{n}", damage)
    assert await read_quality(frontier) == []

    await observe(frontier, [Observed(f"h{n}", 1, 0, 0, {}) for n in range(4)])

    assert [one.handler for one in await read_quality(frontier)] == ["h0", "h1", "h2", "h3"]


async def test_the_audit_knows_it_and_purge_removes_it(frontier):
    await observe(frontier, [Observed("parse", 1, 0, 0, {})])
    assert (await audit(frontier)).clean

    await purge_job(frontier)

    assert not [key async for keys in scan_keys(frontier.home) for key in keys]
