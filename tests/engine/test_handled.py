"""What handlers did is counted by the fleet, and never without bound."""

from __future__ import annotations

import pytest

from skitter.engine.pulse import Handled
from skitter.errors import ServerUnreachable
from skitter.frontier.records.health import KEEP_SELECTORS, count_handled, read_handled


async def test_counts_of_several_workers_add_up(frontier):
    for worker in (Handled("page"), Handled("page")):
        worker.add_page(None, items=2, links=0, selectors={"a b": True, "i": False})
        worker.add_page("book", items=0, links=3, selectors={})
        worker.add_failed("book")
        await worker.send(frontier)
        await worker.send(frontier)  # nothing is sent twice

    assert await read_handled(frontier) == {
        "pages page": 2,
        "items page": 4,
        "tried page a b": 2,
        "found page a b": 2,
        "tried page i": 2,
        "pages book": 2,
        "links book": 6,
        "failed book": 2,
    }


async def test_selectors_made_from_data_leave_room_for_handlers(frontier):
    worker = Handled("page")
    for beat in range(5):
        names = (f"#n{beat}-{n}" for n in range(1000))
        worker.add_page(None, items=0, links=0, selectors=dict.fromkeys(names, False))
        await worker.send(frontier)
    worker.add_failed("late")
    await worker.send(frontier)

    counts = await read_handled(frontier)
    assert KEEP_SELECTORS <= len(counts) <= KEEP_SELECTORS + 2
    assert (counts["pages page"], counts["failed late"]) == (5, 1)


async def test_what_the_server_did_not_take_is_sent_later(frontier, monkeypatch):
    async def away(*_: object) -> None:
        raise ServerUnreachable("away")

    worker = Handled("page")
    worker.add_failed("a")
    with monkeypatch.context() as patch:
        patch.setattr("skitter.engine.pulse.count_handled", away)
        with pytest.raises(ServerUnreachable):
            await worker.send(frontier)
    worker.add_failed("a")
    await worker.send(frontier)
    await worker.send(frontier)

    assert await read_handled(frontier) == {"failed a": 2}
    await count_handled(frontier, {})
