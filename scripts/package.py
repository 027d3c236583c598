"""Build the sdist and the wheel, install the wheel into an empty environment, and try it.

`make package`. Building the wheel from the sdist proves that the sdist is complete. After the
installation nothing is downloaded: the demo crawls its own site.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path
from typing import Any

#: Python 3.11.2 has no filters yet; the archive is our own.
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
BUILD = (
    "import sys; from flit_core import buildapi; print(getattr(buildapi, sys.argv[1])(sys.argv[2]))"
)
PIP = ("-m", "pip", "--disable-pip-version-check", "-q")


def build(out: Path) -> tuple[Path, Path]:
    """The sdist and the wheel, in a directory that is created if necessary."""
    out.mkdir(parents=True, exist_ok=True)
    sdist = out / _build("build_sdist", out, source=ROOT)
    with tempfile.TemporaryDirectory() as base, tarfile.open(sdist) as packed:
        packed.extractall(base, **SAFELY)
        (source,) = Path(base).iterdir()
        return sdist, out / _build("build_wheel", out, source=source)


def _build(what: str, out: Path, *, source: Path) -> str:
    command = [sys.executable, "-c", BUILD, what, str(out)]
    return subprocess.run(
        command, cwd=source, capture_output=True, text=True, check=True
    ).stdout.strip()


def install(wheel: Path | str, home: Path) -> Path:
    """Install into a new environment; returns its `skitter`. `x.whl[extra]` has the extra, too."""
    venv.create(home, with_pip=True, symlinks=True)
    python = home / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    subprocess.run([python, *PIP, "install", "-c", constraints, wheel], check=True)
    subprocess.run([python, *PIP, "check"], check=True)
    return home / "bin" / "skitter"


def check_hashes(python: Path, home: Path) -> None:
    """Check that the index has the files listed in requirements.lock."""
    lock = ROOT / "requirements.lock"
    words = ["download", "--require-hashes", "--no-deps", "-r", str(lock)]
    subprocess.run([python, *PIP, *words, "-d", home], check=True)


def show(skitter: Path, *words: str, home: Path) -> None:
    """Run it outside the repository, with a clean environment."""
    place = {"HOME": str(home), "PATH": os.defpath, "TERM": "dumb"}
    subprocess.run([skitter, *words], cwd=home, env=place, check=True)


def main() -> None:
    sdist, wheel = build(DIST)
    for file in (sdist, wheel):
        sys.stdout.write(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes\n")
    sys.stdout.flush()
    # A short path: it contains the socket of the demo's server.
    with tempfile.TemporaryDirectory(prefix="sk-", dir="/tmp") as base:
        skitter = install(wheel, Path(base, "venv"))
        check_hashes(skitter.with_name("python"), Path(base, "files"))
        home = Path(base, "home")
        home.mkdir()
        show(skitter, "--version", home=home)
        show(skitter, "demo", home=home)


if __name__ == "__main__":
    main()
