"""docs/architecture.md names files and functions: they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "skitter"
EVERYTHING = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
STEPS = [
    line
    for line in (ROOT / "docs" / "architecture.md").read_text().splitlines()
    if line.startswith("|") and ".py`" in line
]


def test_the_life_of_a_page_is_described():
    assert len(STEPS) > 10


@pytest.mark.parametrize("step", STEPS)
def test_each_step_is_where_it_says(step):
    for name in re.findall(r"`([^`]+)`", step):
        if "/" in name or name.endswith(".py"):
            assert list(SOURCE.rglob(name)), name
        else:
            for part in name.split("."):
                assert re.search(rf"((class|def) |^){part}\b", EVERYTHING, re.MULTILINE), part
