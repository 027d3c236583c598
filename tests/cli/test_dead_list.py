"""The list of dead letters, whatever is in them."""

from __future__ import annotations

import pytest

from skitter.cli.dead import _cells
from skitter.model import DeadLetter, Request


@pytest.mark.parametrize("url", ["feed:" + "x" * 300_000, "https://a.test/"])
def test_a_message_and_a_reason_of_any_length_take_a_few_lines(url):
    letter = DeadLetter(
        shard=0,
        fingerprint="1",
        url=url,
        reason="y" * 300_000,
        at=0.0,
        failures=1,
        losses=0,
        priority=0,
        request=Request(url),
    )
    assert all(len(str(cell)) < 350 for cell in _cells(letter))
