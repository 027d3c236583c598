from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from skitter.embedded import stop


@pytest.fixture
def directory() -> Iterator[Path]:
    """A place for a server. Not tmp_path: that is too long for a socket."""
    base = Path(tempfile.mkdtemp(prefix="sk-", dir="/tmp"))
    try:
        yield base / "data"
        stop(base / "data")
    finally:
        shutil.rmtree(base)
