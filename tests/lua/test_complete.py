import pytest

from skitter.frontier.transport.scripts import Code

DONE, LOST = Code.DONE, Code.LOST


async def test_what_is_done_leaves_only_its_fingerprint_and_its_count(raw):
    await raw.add("1")
    grant = await raw.lease()

    assert await raw.complete(*grant.claims) == [DONE]

    dump = await raw.dump_without_traces()
    waits = {one for one in dump if one[0] == "timings" and one[1].endswith("/queue_wait")}
    left = {("control", None), ("hosts", None), ("seen", "0"), ("stats", None), ("marks", None)}
    assert dump.keys() == left | waits
    assert dump["seen", "0"] == {"1"}
    assert dump["stats", None] == {"pending": 0, "seen": 1, "done": 1, "ticket": 2}
    known = await raw.known()
    assert (known.in_flight, known.pages, known.listed_in) == (0, 1, 0)


async def test_trouble_of_the_past_is_forgotten(raw, clock):
    await raw.add("1")
    await raw.retry(*(await raw.lease()).claims, after_ms=1000)
    clock.advance(1)
    assert (await raw.read("trouble")).keys() == {"1"}

    await raw.complete(*(await raw.lease()).claims)

    assert await raw.read("trouble") == {}


async def test_items_come_into_the_stream_in_order_with_fingerprint_and_number(raw):
    await raw.add("1", "2")
    grant = await raw.lease()
    (one, token), (two, _) = grant.claims

    await raw.complete((one, token, [], [b"a", b"b\x00"]), (two, token, [], [b"c"]))

    assert await raw.read("items") == [
        {"fp": b"1", "n": b"0", "item": b"a"},
        {"fp": b"1", "n": b"1", "item": b"b\x00"},
        {"fp": b"2", "n": b"0", "item": b"c"},
    ]


async def test_links_are_accepted_in_the_same_step(raw):
    await raw.add("1")
    [(fp, token)] = (await raw.lease()).claims
    links = [
        raw.link("2", host="b.test", priority=4, depth=1),
        raw.link("1"),  # the page itself
        raw.link("3"),
        raw.link("3"),
    ]

    assert await raw.complete((fp, token, links, [])) == [DONE]

    assert await raw.read("task") == {"2": b"4 b.test body", "3": b"0 a.test body"}
    assert await raw.read("seen", "0") == {"1", "2", "3"}
    assert list(await raw.read("due")) == ["b.test", "a.test"]
    stats = await raw.read("stats")
    assert (stats["pending"], stats["duplicates"], stats["done"]) == (2, 2, 1)


async def test_links_obey_max_depth_but_not_max_pending(make_raw):
    raw = await make_raw(max_depth=1, max_pending=1)
    await raw.add("1")
    [(fp, token)] = (await raw.lease()).claims

    links = [raw.link("2", depth=1), raw.link("3", depth=1), raw.link("4", depth=2)]
    assert await raw.complete((fp, token, links, [])) == [DONE]

    assert (await raw.read("task")).keys() == {"2", "3"}
    assert await raw.counter("refused") == 1


@pytest.mark.parametrize(("state", "taken"), [("pause", 1), ("drain", 0), ("cancel", 1)])
async def test_a_completion_counts_in_every_state_and_its_links_unless_draining(raw, state, taken):
    await raw.add("1")
    [(fp, token)] = (await raw.lease()).claims
    await raw.control(state=state)

    assert await raw.complete((fp, token, [raw.link("2")], [b"item"])) == [DONE]

    assert await raw.counter("done") == 1
    assert await raw.counter("pending") == taken
    assert len(await raw.read("items")) == 1


@pytest.mark.parametrize("how", ["wrong token", "somebody else", "handed on", "done", "unknown"])
async def test_a_lost_completion_has_no_effect_at_all(raw, make_raw, clock, how):
    other = await make_raw()
    await raw.add("1", "2", "3", "4")
    mine, theirs = await raw.lease(1, ttl_ms=1000), await other.lease(1)
    fp, token = mine.claims[0]
    match how:
        case "wrong token":
            token = "nonsense"
        case "somebody else":
            token = theirs.token
        case "handed on":
            clock.advance(1)
            await other.lease()
        case "done":
            await raw.complete((fp, token))
        case "unknown":
            fp = "99"
    before = await raw.dump_without_traces()

    end = (fp, token, [raw.link("8"), raw.link("9", host="new.test")], [b"one", b"two"])
    assert await raw.complete(end, block_ms=60_000) == [LOST]

    assert await raw.dump_without_traces() == before
    assert await raw.counter("late") == 1


async def test_beside_a_lost_one_each_lease_gets_its_own_links_and_items(raw):
    await raw.add("1", "2", "3")
    (one, token), (two, _), (three, _) = (await raw.lease()).claims

    codes = await raw.complete(
        (one, token, [raw.link("11")], [b"a"]),
        (two, "nonsense", [raw.link("12"), raw.link("13")], [b"b", b"c"]),
        (three, token, [raw.link("14")], [b"d"]),
    )

    assert codes == [DONE, LOST, DONE]
    assert (await raw.read("task")).keys() == {"2", "11", "14"}
    assert [item["item"] for item in await raw.read("items")] == [b"a", b"d"]
    assert [item["fp"] for item in await raw.read("items")] == [b"1", b"3"]
    assert await raw.read("holder") == {"2": token}


async def test_the_same_lease_twice_in_a_batch_is_done_once(raw):
    await raw.add("1")
    [(fp, token)] = (await raw.lease()).claims

    ends = [(fp, token, [raw.link("2")], [b"a"]), (fp, token, [raw.link("3")], [b"b"])]
    assert await raw.complete(*ends) == [DONE, LOST]

    assert [item["item"] for item in await raw.read("items")] == [b"a"]
    assert (await raw.read("task")).keys() == {"2"}
    known = await raw.known()
    assert (known.in_flight, known.pages) == (0, 1)


async def test_an_old_lease_in_a_batch_does_not_spoil_the_new_one_of_the_same_request(raw, clock):
    await raw.add("1")
    [old] = (await raw.lease(ttl_ms=1000)).claims
    clock.advance(1)
    [new] = (await raw.lease()).claims

    assert await raw.complete(old, new) == [LOST, DONE]


async def test_a_rest_is_given_to_the_host_of_the_lease(raw, clock):
    await raw.add("1", "2", host="a.test")
    await raw.add("3", host="b.test")
    [claim] = (await raw.lease(1)).claims

    await raw.complete(claim, block_ms=3000)

    assert (await raw.known()).blocked_until == clock() + 3000
    assert await raw.read("wait") == {"a.test": clock() + 3000}
    assert list(await raw.read("due")) == ["b.test"]


async def test_an_empty_batch_is_answered_with_nothing(raw):
    await raw.add("1")
    before = await raw.dump_without_traces()

    assert await raw.complete() == []

    assert await raw.dump_without_traces() == before


async def test_a_page_with_thousands_of_links_and_items_is_one_step(raw):
    await raw.add("1")
    [(fp, token)] = (await raw.lease()).claims
    links = [raw.link(str(n), host=f"h{n % 100}.test") for n in range(100, 5100)]

    await raw.complete((fp, token, links, [b"%d" % n for n in range(5000)]))

    assert await raw.counter("pending") == len(await raw.read("task")) == 5000
    assert [int(item["n"]) for item in await raw.read("items")] == list(range(5000))


async def test_items_go_to_a_list_if_one_is_named_and_only_those_of_leases_that_are_held(raw):
    await raw.add("1", "2")
    (one, token), (two, _) = (await raw.lease()).claims
    key = f"{raw.shard.keys.job}:items"

    codes = await raw.complete(
        (one, token, [], [b"a", b"b"]), (two, "nonsense", [], [b"c"]), into=key
    )

    assert codes == [DONE, LOST]
    assert await raw.shard.server.command("LRANGE", key, 0, -1) == [b"a", b"b"]
    assert await raw.read("items") == []
