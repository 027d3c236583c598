"""Set up .venv: `install.py core` with what Skitter itself needs, `install.py dev` with everything.

Run by the Makefile with the system's Python; standard library only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
HASHES = os.environ.get("HASHES")  # make install HASHES=1
#: What `make demo` shows: the dashboard, and pages that are kept.
SHOWN = ("server", "archive")
TARGETS = {"core": f".[{','.join(SHOWN)}]", "dev": ".[dev]"}
#: After all that it needs, which includes what builds it.
OURS = ("--no-deps", "--no-build-isolation", "-e", ".")
NAME = re.compile(r"[A-Za-z0-9._-]+")  # of a package, without its version
#: A quarter of the code, which no test imports: tests of packages, and what mypy is made of.
UNUSED = "site-packages/(.*/)?(tests?|mypyc?|pip|setuptools|pkg_resources)/"


def main(part: str) -> int:
    began = time.monotonic()
    if not PYTHON.exists():
        say(f"Making {VENV.name} with Python {sys.version.split()[0]} ...")
        venv.create(VENV, with_pip=True, symlinks=True)
    names = direct_dependencies(part)
    say(f"Installing {', '.join(names)} and what they need ...")
    # Debian's pip 23.0 searches for minutes where a newer one reports the conflict at once, and the
    # newest takes half the CPU time of 23.2. With hashes, there is nothing to search for.
    newer = install("--upgrade", "pip>=23.2") if part == "dev" and not HASHES else 0
    if HASHES:
        status = install("--require-hashes", "-r", "requirements-dev.lock") or install(*OURS)
    else:
        status = newer or install("-c", "constraints.txt", "-e", TARGETS[part])
    if status:
        return status
    if part == "dev":
        # Compile now, on all cores, and not when a test imports it: a compiler warning about
        # third-party code would be an error there.
        compiler = [PYTHON, "-W", "ignore", "-m", "compileall", "-q", "-j", "0", "-x", UNUSED]
        subprocess.run([*compiler, VENV / "lib"], stdout=subprocess.DEVNULL, check=False)
    say(f"Installed in {time.monotonic() - began:.0f} s.")
    return 0


def direct_dependencies(part: str) -> list[str]:
    """The names in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = extras.values() if part == "dev" else [extras[name] for name in SHOWN]
    listed = [*project["dependencies"], *(each for extra in wanted for each in extra)]
    names = [NAME.match(each) for each in listed]
    return [name[0] for name in names if name and name[0] != project["name"]]


def install(*what: str) -> int:
    """Run pip once: shows a progress line, and pip's whole output if it fails."""
    words = ["install", "--disable-pip-version-check", "--no-compile", "--progress-bar", "off"]
    pip = subprocess.Popen(
        [PYTHON, "-m", "pip", *words, *what],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    said: list[str] = []
    for line in pip.stdout or ():
        said.append(line)
        show(progress(said))
    show("")
    if status := pip.wait():
        say("".join(said))
    return status


def progress(said: list[str]) -> str:
    """What pip is doing, in a few words."""
    last = said[-1]
    if last.startswith("Installing collected packages"):
        return f"  unpacking {last.count(',') + 1} packages"
    if "Retrying" in last:
        return "  the package index does not answer; trying again"
    asked = [line.split()[1] for line in said if line.startswith("Collecting ")]
    return f"  {len(asked)} {NAME.match(asked[-1])[0]}" if asked else "  asking the package index"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def show(line: str) -> None:
    """One line, updated in place on a terminal; nothing in a log."""
    if sys.stdout.isatty():
        sys.stdout.write(f"\r\x1b[K{line}")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
