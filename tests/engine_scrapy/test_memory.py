"""What a node remembers of links ends when the frontier may have forgotten them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from skitter.scrapy.mailbox import Memory


def links(*keys: bytes) -> Any:
    return [SimpleNamespace(key=key) for key in keys]


def test_in_another_epoch_nothing_is_known():
    memory = Memory(epoch=1)
    memory.add(links(b"a"), epoch=1)
    assert b"a" in memory

    memory.keep_to(2)

    assert b"a" not in memory


def test_what_went_in_before_is_not_remembered_after():
    memory = Memory(epoch=2)
    memory.add(links(b"a"), epoch=1)
    assert b"a" not in memory
