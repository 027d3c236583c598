import pytest

from skitter.settings import Layout


@pytest.fixture
async def pot(make_raw):
    """Shard 0 of two that have a limit of 20 pages together."""
    return await make_raw(Layout(shards=2), max_pages=20)


async def test_a_shard_gets_what_it_wants(pot):
    assert await pot.grant((0, 0, 0, 7), (0, 0, 0, 0)) == [7, 0]

    assert await pot.read("budget") == {
        "granted:0": b"7",
        "ceded:0": b"0",
        "granted:1": b"0",
        "ceded:1": b"0",
        "limit": b"20",
    }


async def test_all_shards_together_get_no_more_than_the_limit(pot):
    assert await pot.grant((0, 0, 0, 12), (0, 0, 0, 12)) == [12, 8]
    assert await pot.grant((12, 0, 12, 5), (8, 0, 8, 5)) == [12, 8]


async def test_what_it_has_left_is_part_of_what_it_wants(pot):
    await pot.grant((0, 0, 0, 8), (0, 0, 0, 0))

    assert await pot.grant((8, 0, 3, 9), (0, 0, 0, 0)) == [12, 0]
    assert await pot.grant((12, 0, 3, 9), (0, 0, 0, 0)) == [12, 0]


async def test_a_grant_that_never_reached_its_shard_is_found_again(pot):
    await pot.grant((0, 0, 0, 15), (0, 0, 0, 0))

    assert await pot.grant((0, 0, 0, 15), (0, 0, 0, 0)) == [15, 0]


async def test_what_a_shard_ceded_goes_to_another(pot):
    await pot.grant((0, 0, 0, 20), (0, 0, 0, 0))

    assert await pot.grant((20, 0, 4, 0), (0, 0, 0, 9)) == [20, 0]
    assert await pot.grant((20, 16, 4, 0), (0, 0, 0, 9)) == [20, 9]


async def test_a_message_that_comes_late_frees_nothing_a_second_time(pot):
    await pot.grant((0, 0, 0, 20), (0, 0, 0, 0))
    await pot.grant((20, 5, 15, 0), (0, 0, 0, 5))

    late = await pot.grant((20, 0, 15, 0), (0, 0, 0, 9))

    assert late == [20, 5]
    assert (await pot.read("budget"))["ceded:0"] == b"5"


async def test_pages_used_before_there_was_a_limit_count(pot):
    assert await pot.grant((30, 0, 30, 0), (0, 0, 0, 9)) == [30, 0]
    assert (await pot.read("budget"))["limit"] == b"30"
    assert await pot.grant((30, 15, 15, 0), (0, 0, 0, 9)) == [30, 5]
    assert (await pot.read("budget"))["limit"] == b"20"


async def test_a_raised_limit_is_shared_out_at_once(pot):
    await pot.grant((0, 0, 0, 20), (0, 0, 0, 0))
    await pot.control(max_pages=23)

    assert await pot.grant((20, 0, 20, 9), (0, 0, 0, 0)) == [23, 0]


async def test_while_there_is_plenty_a_shard_gets_many_batches_and_never_half_of_the_rest(pot):
    await pot.control(max_pages=1_000_000)
    assert await pot.grant((0, 0, 0, 10), (0, 0, 0, 0)) == [640, 0]

    await pot.control(max_pages=640 + 1000)
    assert await pot.grant((640, 0, 640, 10), (0, 0, 0, 10)) == [640 + 250, 187]


async def test_without_a_limit_nothing_is_granted_or_written(pot):
    await pot.control(max_pages="")

    assert await pot.grant((3, 1, 2, 10), (0, 0, 0, 10)) == []

    assert await pot.read("budget") == {}
