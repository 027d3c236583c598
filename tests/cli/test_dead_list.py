"""The list of dead letters, whatever is in them."""

from __future__ import annotations

import io
import re
import sys

import pytest
from rich.console import Console

from skitter.cli import console, dead
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


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_line_break_in_a_message_looks_like_no_other_letter(monkeypatch, width, is_terminal):
    shown = io.StringIO()
    rich = Console(
        file=shown, force_terminal=is_terminal, width=width, highlight=False, soft_wrap=True
    )
    monkeypatch.setattr(shown, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(dead, "out", rich)
    monkeypatch.setattr(console, "out", rich)

    dead._show_list([["feed:x\nhttps://a.test/  404", "bad\nhttps://b.test/  404", 1, "now"]])

    assert not re.search(r"^(\x1b\[\d+m)*https://", shown.getvalue(), re.MULTILINE)
    assert "https://a.test/" in shown.getvalue()
