"""Nothing leaves the outbox before the server has it, and nothing is sent twice."""

from __future__ import annotations

from functools import partial

import pytest

from skitter.engine.outbox import AT_ONCE, Batch, Outbox, send_each
from skitter.errors import JobMissing, ServerUnreachable, TooBig


class Post:
    """Sends in two steps, and fails when told to."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, list[int]]] = []
        self.fails_at = ""
        self.outbox = Outbox[int]()

    def pack(self, results: list[int]) -> Batch:
        return Batch(
            len(results), [partial(self.step, name, results) for name in ("pages", "notes")]
        )

    async def step(self, name: str, results: list[int]) -> None:
        if name == self.fails_at:
            raise ServerUnreachable("it is away")
        self.sent.append((name, results))


async def test_what_fails_stays_and_what_was_answered_is_not_sent_again():
    post = Post()
    post.outbox.add(1)
    post.fails_at = "notes"
    with pytest.raises(ServerUnreachable):
        await post.outbox.flush(post.pack)
    assert post.outbox.waiting == [1]

    post.outbox.add(2)  # it does not join a batch that is half sent
    post.fails_at = ""
    await post.outbox.flush(post.pack)

    assert post.sent == [("pages", [1]), ("notes", [1]), ("pages", [2]), ("notes", [2])]
    assert len(post.outbox) == 0


async def test_results_leave_in_order_and_in_batches():
    post = Post()
    for number in range(AT_ONCE + 1):
        post.outbox.add(number)

    await post.outbox.flush(post.pack)

    pages = [results for name, results in post.sent if name == "pages"]
    assert [len(results) for results in pages] == [AT_ONCE, 1]
    assert [one for results in pages for one in results] == list(range(AT_ONCE + 1))


async def test_a_page_that_the_server_refuses_does_not_keep_the_others():
    done: list[int] = []
    refused: list[int] = []

    async def send(pages: list[int]) -> None:
        if 2 in pages:
            raise TooBig("a page", size_bytes=2, limit_bytes=1)
        done.extend(pages)

    async def refuse(page: int, error: Exception) -> None:
        refused.append(page)

    pages = [1, 2, 3]
    await send_each(pages, send, refuse)

    assert (done, refused, pages) == ([1, 3], [2], [])


@pytest.mark.parametrize("error", [ServerUnreachable("away"), JobMissing("books", [])])
async def test_an_error_that_is_about_all_pages_is_raised_and_keeps_them(error):
    async def send(pages: list[int]) -> None:
        raise error

    async def refuse(page: int, error: Exception) -> None:
        raise AssertionError(page)

    pages = [1, 2]
    with pytest.raises(type(error)):
        await send_each(pages, send, refuse)
    assert pages == [1, 2]
