"""Nodes work with each newer Python that is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from needs import PYTHONS
from scripts.versions import ROOT

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]
TESTS = [
    *("tests/engine_scrapy/test_callbacks.py", "tests/engine_scrapy/test_codec.py"),
    *("tests/engine_scrapy/test_cookies.py", "tests/engine_scrapy/test_nodes.py"),
]


@pytest.mark.parametrize("python", PYTHONS)
def test_nodes_with_another_python(python):
    if not _works(python):
        pytest.skip(f"there is no {python} here")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON"}
    environment["PYTHON"] = python
    words = [sys.executable, str(Path("scripts", "versions.py")), "scrapy", "2.19.0", "--", *TESTS]

    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]


def _works(python: str) -> bool:
    """pyenv has names for versions that are not chosen; they exit with 127."""
    try:
        done = subprocess.run([python, "-c", ""], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return not done.returncode
