from skitter.frontier.transport.scripts import Code
from skitter.settings import Bloom, Layout


async def bury_one(raw, fp):
    await raw.add(fp)
    await raw.bury(*(await raw.lease()).claims)


async def test_a_dropped_letter_leaves_only_its_fingerprint(raw):
    await bury_one(raw, "1")

    assert await raw.drop("1") == 1

    assert await raw.read("dead") == await raw.read("trouble") == await raw.read("task") == {}
    assert await raw.read("seen", "0") == {"1"}
    assert (await raw.counter("dropped"), await raw.counter("seen")) == (1, 1)
    assert await raw.add("1") == [Code.SEEN]


async def test_a_forgotten_letter_can_be_added_as_if_it_had_never_been(raw):
    await bury_one(raw, "1")

    assert await raw.drop("1", forget=1) == 1

    assert await raw.read("seen", "0") == set()
    assert (await raw.counter("dropped"), await raw.counter("seen")) == (0, 0)
    assert await raw.add("1") == [Code.NEW]


async def test_a_letter_is_forgotten_also_from_one_of_many_buckets(raw):
    await raw.add(*map(str, range(1, 2001)), links=1)
    grant = await raw.lease(500)
    await raw.bury(*grant.claims)

    assert await raw.drop(*grant.fps, forget=1) == 500

    assert await raw.counter("seen") == 1500
    assert await raw.add(*grant.fps) == [Code.NEW] * 500


async def test_a_bloom_filter_cannot_forget_so_nothing_is_miscounted(make_raw):
    raw = await make_raw(layout=Layout(bloom=Bloom(capacity=1000)))
    await bury_one(raw, "123456789012345678")

    assert await raw.drop("123456789012345678", forget=1) == 1

    assert await raw.add("123456789012345678") == [Code.SEEN]
    assert (await raw.counter("dropped"), await raw.counter("seen")) == (1, 1)


async def test_only_the_dead_are_dropped_and_each_once(raw):
    await bury_one(raw, "1")
    await raw.add("2", "3")
    await raw.lease(1)

    assert await raw.drop("1", "1", "2", "3", "99", forget=1) == 1

    assert (await raw.state_of("2"), await raw.state_of("3")) == (["lease"], ["queue"])
    assert await raw.read("seen", "0") == {"2", "3"}


async def test_an_empty_batch_drops_nothing(raw):
    before = await raw.dump_without_traces()

    assert await raw.drop() == 0

    assert await raw.dump_without_traces() == before
