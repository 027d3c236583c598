"""A script call, packed in two parts, is what hiredis makes of the whole."""

from __future__ import annotations

import hiredis
import pytest

from skitter.frontier.transport.plain import pack_script

HEAD = ("EVALSHA", "0" * 40)


@pytest.mark.parametrize(
    "words",
    [
        (*HEAD, 0),
        (*HEAD, 0, "one", 2),
        (*HEAD, 2, "{job:0}:due", "{job:0}:\u00e9"),
        (*HEAD, 1, "key", "", -1, 0.5, b"\r\n$3\r\n", "\u00e9" * 100_000),
    ],
)
def test_a_call_is_packed_as_hiredis_would(words):
    for _ in range(2):  # the second time, its head is known
        assert pack_script(words) == hiredis.pack_command(words)
