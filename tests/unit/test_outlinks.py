"""The links of a finished page, as they are read back."""

from __future__ import annotations

import zlib

from skitter.frontier import completions
from skitter.frontier.completions import open_outlinks, pack_outlinks
from skitter.model import Request


def test_links_come_back_at_the_depth_of_their_page():
    kept = pack_outlinks(3, [], [Request(url="https://a.test/", depth=4)], is_cut=False)
    assert kept is not None

    assert open_outlinks(kept.packed, 1) == [Request(url="https://a.test/", depth=2)]


def test_a_few_bytes_on_the_server_do_not_become_gigabytes(monkeypatch):
    monkeypatch.setattr(completions, "MAX_BYTES", 1000)
    link = Request(url=f"https://a.test/{'x' * 2000}", depth=1)
    kept = pack_outlinks(0, [], [link], is_cut=False)
    assert kept is not None
    assert len(kept.packed) < 1000 < len(zlib.decompress(kept.packed))

    assert open_outlinks(kept.packed, 0) == []
