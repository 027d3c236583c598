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


#: Commits that were made together may be whole only with the last of them.
AT_MOST = 30


@cache
def previous_release() -> Path:
    """A folder for PYTHONPATH with the last commit of another version than ours that works."""
    commit = _git("log", "--format=%H", f'-S__version__ = "{RELEASE}"', "--", "src/skitter").split()
    base = Path(mkdtemp(prefix="release"))
    atexit.register(shutil.rmtree, base, ignore_errors=True)
    source = _whole(f"{commit[-1].decode()}^" if commit else "HEAD", base)
    wheel = subprocess.run(
        [sys.executable, "-c", BUILD, "build_wheel", str(base)],
        cwd=source,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    with zipfile.ZipFile(base / wheel) as files:
        files.extractall(base / "package")
    assert wheel.split("-")[1] != RELEASE or not commit
    return base / "package"


def _whole(last: str, base: Path) -> Path:
    """The sources of the last commit up to this one whose modules fit together."""
    try:
        commits = _git("rev-list", f"--max-count={AT_MOST}", last).decode().split()
    except subprocess.CalledProcessError:
        pytest.skip(f"the history of this clone does not reach back to {last}")
    for commit in commits:
        source = base / commit
        with tarfile.open(fileobj=io.BytesIO(_git("archive", commit))) as packed:
            packed.extractall(source, **SAFELY)
        words = [sys.executable, "-c", "import skitter.cli.crawl"]
        if not subprocess.run(
            words, cwd=base, env={"PYTHONPATH": str(source / "src")}, capture_output=True
        ).returncode:
            return source
        shutil.rmtree(source)
    raise AssertionError(f"none of the {AT_MOST} commits up to {last} can be imported")


def _git(*words: str) -> bytes:
    return subprocess.run([need("git"), *words], cwd=ROOT, capture_output=True, check=True).stdout
