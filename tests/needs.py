"""Programs that tests need and that Python does not bring: skip at a desk, fail in CI."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from scripts.programs import PROGRAMS, advice, find_program
from skitter.embedded import server_binary

#: What Python's own library starts, and does without: platform asks who made the processor.
OF_PYTHON = {"uname"}
#: Newer Pythons: where there are none, their tests are skipped.
PYTHONS = ("python3.14", "python3.13", "python3.12")


def need(name: str) -> str:
    """The path of a program of the table, or the end of the test."""
    if found := find_program(name):
        return found
    missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    missing(f"{name} is not here: {advice(name)}")


def refuse_unknown_programs(event: str, facts: tuple[Any, ...]) -> None:
    """An audit hook: no test starts what scripts/system-packages does not install."""
    if event == "subprocess.Popen":
        path = Path(os.fsdecode(facts[0]))
        ours = path == server_binary() or (path.parent.parent / "pyvenv.cfg").exists()
        ours = ours or path.is_relative_to(sys.prefix)  # a library brings it
        ours = ours or path.is_relative_to(gettempdir())  # the test has just written it
        assert ours or path.name in {*PROGRAMS, *OF_PYTHON, *PYTHONS}, (
            f"a test starts {path}: add it to PROGRAMS in scripts/programs.py"
        )
