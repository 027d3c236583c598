"""Texts that are long in just the right way: no expression of ours takes more than linear time for
them. Before, each of these took minutes to days. In a process of its own, as nothing interrupts an
expression."""

from __future__ import annotations

import subprocess
import sys

import pytest

ITEM = """
from skitter.sinks.files.csv import _cell
digits = "1" * 1_000_000
cells = ["-1.5e3", f"-{digits}", f"-{digits}x", f"-{digits}.{digits}x", "-1.", "-.5", "-x"]
assert [_cell(one, safe=True)[0] for one in cells] == ["-", "-", "'", "'", "-", "-", "'"]
"""
PROJECT = """
from pathlib import Path
from skitter.settings import resolve
for blank in ("\\n", " ", "\\t[", "tool ", "[tool\\n"):
    Path("pyproject.toml").write_text(blank * 200_000)
    assert resolve().browser.executable is None
"""
LOG = """
from skitter.crawl.findings import HandlerErrors
from skitter.engine.watchdog import BLOCKING
from skitter.frontier.workers import Event
errors = HandlerErrors()
for text in ("a" * 500_000, "a:1" * 500_000):
    errors.add(Event(id="1-0", at=0.0, level="warning", worker="w", text=f"{BLOCKING}{text}"))
assert len(errors.remarks()) == 2
"""


@pytest.mark.parametrize("code", [ITEM, PROJECT, LOG], ids=["item", "pyproject", "log"])
def test_it_is_read_at_once(tmp_path, code):
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)
