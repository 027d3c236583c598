"""What is remembered of links ends when the frontier may have forgotten them."""

from __future__ import annotations

import msgspec

from skitter.engine.outbox import LinkMemory, RequestMemory
from skitter.model import Request


def test_in_another_epoch_nothing_is_known():
    epochs = [1]
    memory = LinkMemory[bytes](lambda: epochs[-1])
    memory.add([(b"a", 0)], epoch=1)
    assert b"a" in memory

    epochs.append(2)
    memory.refresh()

    assert b"a" not in memory


def test_what_was_sent_before_is_not_remembered_after():
    memory = LinkMemory[bytes](lambda: 2)
    memory.add([(b"a", 0)], epoch=1)
    assert b"a" not in memory


def test_the_memory_of_links_is_bounded():
    memory = RequestMemory(size=10)
    links = [Request(url=f"https://a.test/{n}") for n in range(100)]
    for link in links:
        memory.add_requests([link], epoch=None)

    assert links[-1].url in memory.known
    assert links[0].url not in memory.known
    assert sum(link.url in memory.known for link in links) <= 10


def test_only_plain_requests_are_remembered():
    memory = RequestMemory()
    links = [
        Request(url="https://a.test/"),
        Request(url="https://a.test/1", unique="1"),
        Request(url="https://a.test/2", method="POST"),
    ]
    memory.add_requests(links, epoch=None)

    assert [link.url in memory.known for link in links] == [True, False, False]


def test_in_a_job_that_keeps_depths_a_known_link_is_kept_and_a_shorter_way_offered():
    memory = RequestMemory(keeps_depths=lambda: True)
    near, far = Request(url="https://a.test/near", depth=1), Request(url="https://a.test/", depth=4)
    memory.add_requests([near, far], epoch=None)
    deeper = msgspec.structs.replace(far, depth=5)
    shorter = msgspec.structs.replace(far, depth=3)

    assert near.url in memory.known  # there is no shorter way by a link
    assert far.url not in memory.known
    assert memory.split([deeper, shorter]) == ([shorter], [deeper])
    memory.add_requests([shorter], epoch=None)
    assert memory.split([far]) == ([], [far])


def test_in_a_job_that_keeps_no_depths_a_known_link_is_left_out_at_any_depth():
    memory = RequestMemory()
    link = Request(url="https://a.test/", depth=4)
    memory.add_requests([link], epoch=None)

    assert link.url in memory.known
    assert memory.split([link]) == ([link], [])
