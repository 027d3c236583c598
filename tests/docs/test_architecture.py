"""docs/architecture.md names files and functions: they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "skitter"
EVERYTHING = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
PAGE = (ROOT / "docs" / "architecture.md").read_text()
STEPS = [line for line in PAGE.splitlines() if line.startswith("|") and ".py`" in line]


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


def test_the_table_of_layers_has_every_module():
    rows = re.findall(r"(?m)^\| (`.*?) \|", PAGE.partition("## Layers")[2].partition("\n## ")[0])
    named = [name.rstrip("/") for row in rows for name in re.findall(r"`([^`]+)`", row)]
    there = [path.stem for path in SOURCE.glob("[!_]*") if path.suffix in ("", ".py")]

    assert sorted(named) == sorted(there)


def test_every_file_that_the_page_names_is_there():
    named = re.findall(r"`([\w./]+(?:\.(?:py|lua|js)|/))`", PAGE)

    assert len(named) > 50
    assert [name for name in named if not list(SOURCE.rglob(name.rstrip("/")))] == []
