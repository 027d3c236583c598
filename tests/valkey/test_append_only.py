"""Gaps in an append-only file: what is mended, and what is left alone."""

from __future__ import annotations

import pytest

from skitter.embedded.process import close_gaps

GET = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"
BINARY = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$9\r\n\0\0\r\n\0\0\0\r\n\r\n"
GAP = bytes(396)


@pytest.mark.parametrize(
    ("parts", "mended"),
    [
        ([GET, GAP, BINARY], GET + BINARY),
        ([GET, b"\0", GET], GET + GET),
        ([BINARY, GAP, GET, GAP, BINARY], BINARY + GET + BINARY),
        ([GAP, GET], GET),
        ([BINARY, GAP], BINARY),  # of a power failure
        ([GET, GAP, BINARY[:-5]], GET + BINARY[:-5]),  # the server cuts that off itself
    ],
)
def test_zeros_between_commands_are_removed_and_those_in_values_are_not(tmp_path, parts, mended):
    file = tmp_path / "a.aof"
    file.write_bytes(b"".join(parts))

    assert close_gaps(file)
    assert file.read_bytes() == mended
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "content",
    [
        GET + BINARY,
        GET + BINARY[:-5],
        GET + GAP + b"junk",
        GET + b"junk" + GAP + GET,
        GET + BINARY[:-5] + GAP + GET,  # zeros in place of what was written
        GET + GAP + GET[5:] + GET,
        GET + GAP + GET + BINARY[:-5] + GAP + GET,
    ],
)
def test_a_file_with_other_damage_or_none_is_left_alone(tmp_path, content):
    file = tmp_path / "a.aof"
    file.write_bytes(content)

    assert not close_gaps(file)
    assert file.read_bytes() == content
