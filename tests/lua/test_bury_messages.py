async def test_a_message_that_is_no_request_becomes_a_dead_letter_with_its_text(raw, clock):
    codes = await raw.shard.call("bury_messages", ["9", "feed", b"text", "no URL"])

    assert codes == [8]
    assert await raw.read("dead") == {"9": clock()}
    assert (await raw.read("task"))["9"] == b"0 feed text"
    assert (await raw.read("stats"))["seen"] == 1


async def test_the_same_message_again_is_no_second_dead_letter(raw):
    await raw.shard.call("bury_messages", ["9", "feed", b"text", "no URL"])

    assert await raw.shard.call("bury_messages", ["9", "feed", b"text", "no URL"]) == [0]
    assert (await raw.read("stats"))["seen"] == 1
