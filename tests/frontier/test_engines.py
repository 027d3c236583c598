"""What engines bring along: an identity, a slot, an order of their own."""

from __future__ import annotations

import pytest

from skitter.errors import BadOption, JobMismatch
from skitter.frontier.audit.auditor import audit
from skitter.frontier.audit.why import why
from skitter.frontier.control import set_slot
from skitter.model import Added, Completion, Failure, Request
from skitter.settings import JobOptions, Layout, Politeness

LIFO = Layout(order="lifo")


async def taken(frontier, limit: int = 10) -> list[str]:
    return [lease.url[-1] for lease in (await frontier.lease(limit)).leases]


def pages(names: str, **about) -> list[Request]:
    return [Request(url=f"https://a.test/{name}", **about) for name in names]


async def test_an_identity_decides_what_is_the_same(frontier):
    answers = await frontier.add(
        [
            Request(url="https://a.test/1", identity="x"),
            Request(url="https://a.test/2", identity="x"),
            Request(url="https://a.test/1", identity="y"),
            Request(url="https://a.test/1"),
            Request(url="https://a.test/1", identity="x", unique="again"),
        ]
    )

    assert answers == [Added.NEW, Added.SEEN, Added.NEW, Added.NEW, Added.NEW]


async def test_a_slot_is_whom_politeness_is_for(make_frontier):
    frontier = await make_frontier(JobOptions(politeness=Politeness(delay_s=0, max_in_flight=1)))
    await frontier.add(
        [
            Request(url="https://a.test/1", slot="shop"),
            Request(url="https://b.test/2", slot="shop"),
            Request(url="https://a.test/3"),
        ]
    )

    leases = (await frontier.lease(10)).leases

    assert [(lease.url, lease.host) for lease in leases] == [
        ("https://a.test/1", "shop"),
        ("https://a.test/3", "a.test"),
    ]
    await frontier.complete([Completion(lease=lease) for lease in leases])
    assert await taken(frontier) == ["2"]
    assert (await audit(frontier)).clean


async def test_a_slot_has_values_of_its_own(make_frontier):
    frontier = await make_frontier(JobOptions(politeness=Politeness(delay_s=0, max_in_flight=1)))
    await set_slot(frontier, "My-Shop", max_in_flight=2)
    await frontier.add([Request(url=f"https://a.test/{n}", slot="My-Shop") for n in range(3)])

    assert len(await taken(frontier)) == 2


async def test_a_slot_may_be_in_any_script(frontier):
    await frontier.add([Request(url="https://a.test/", slot="Bücher")])

    assert (await audit(frontier)).clean


@pytest.mark.parametrize("slot", ["two words", "line\nbreak", "x" * 256, 5])
async def test_a_slot_that_cannot_be_part_of_a_key_is_refused(frontier, slot):
    with pytest.raises(BadOption, match="slot"):
        await frontier.add([Request(url="https://a.test/", slot=slot)])


@pytest.mark.parametrize("shards", [1, 5])
async def test_why_finds_a_request_by_its_identity_whatever_its_slot(make_frontier, shards):
    frontier = await make_frontier(layout=Layout(shards=shards))
    await frontier.add([Request(url="https://a.test/1", identity="x", slot="shop")])

    found = await why(frontier, "https://a.test/1", identity="x")

    assert (found.state, found.host) == ("pending", "shop")
    assert (await why(frontier, "https://a.test/1")).state == "unknown"


async def test_the_last_come_is_the_first_served_within_its_priority(make_frontier):
    frontier = await make_frontier(
        JobOptions(politeness=Politeness(delay_s=0, max_in_flight=100)), LIFO
    )
    await frontier.add(pages("ab"))
    await frontier.add(pages("cd"))
    await frontier.add(pages("x", priority=1))
    await frontier.add(pages("z", priority=-1))

    assert await taken(frontier) == ["x", "d", "c", "b", "a", "z"]


async def test_in_a_lifo_job_hosts_still_take_turns(make_frontier):
    frontier = await make_frontier(
        JobOptions(politeness=Politeness(delay_s=0, max_in_flight=100)), LIFO
    )
    await frontier.add([Request(url=f"https://{host}.test/{n}") for host in "ab" for n in "12"])

    hosts = [lease.host for lease in (await frontier.lease(4)).leases]

    assert hosts == ["a.test", "b.test", "a.test", "b.test"]


async def test_what_came_back_in_a_lifo_job_is_on_top_and_the_audit_is_clean(make_frontier):
    frontier = await make_frontier(
        JobOptions(politeness=Politeness(delay_s=0, max_in_flight=100)), LIFO
    )
    await frontier.add(pages("abc"))
    [c, b, a] = (await frontier.lease(3)).leases
    await frontier.release([a])
    await frontier.bury([Failure(lease=c, error="no")])

    assert (await audit(frontier)).clean
    assert await taken(frontier) == ["a"]
    assert b.url == "https://a.test/b"


async def test_the_order_of_a_job_cannot_change(make_frontier):
    await make_frontier(layout=LIFO)

    with pytest.raises(JobMismatch, match="order"):
        await make_frontier(layout=Layout())


def test_an_order_is_one_of_two():
    with pytest.raises(BadOption, match="fifo or lifo"):
        Layout(order="random")  # type: ignore[arg-type]
