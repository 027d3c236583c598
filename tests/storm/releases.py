"""The release before this one, built from the history of the repository."""

from __future__ import annotations

import atexit
import io
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from needs import need
from scripts.package import BUILD, SAFELY
from skitter.extras import RELEASE

ROOT = Path(__file__).parents[2]


@cache
def previous_release() -> Path:
    """A folder for PYTHONPATH with the last commit of another version than ours."""
    commit = _git("log", "--format=%H", f'-S__version__ = "{RELEASE}"', "--", "src/skitter").split()
    last = f"{commit[-1].decode()}^" if commit else "HEAD"
    try:
        packed = _git("archive", last)
    except subprocess.CalledProcessError:
        pytest.skip(f"the history of this clone does not reach back to {last}")
    base = Path(mkdtemp(prefix="release"))
    atexit.register(shutil.rmtree, base, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as source:
        source.extractall(base / "source", **SAFELY)
    wheel = subprocess.run(
        [sys.executable, "-c", BUILD, "build_wheel", str(base)],
        cwd=base / "source",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    with zipfile.ZipFile(base / wheel) as files:
        files.extractall(base / "package")
    assert wheel.split("-")[1] != RELEASE or not commit
    return base / "package"


def _git(*words: str) -> bytes:
    return subprocess.run([need("git"), *words], cwd=ROOT, capture_output=True, check=True).stdout
