"""Run the tests of an engine with other releases of it, or with another Python: `make versions`.

python scripts/versions.py scrapy 2.13.4 2.19.0    # tests/engine_scrapy with each of them
python scripts/versions.py scrapy 2.13.4 -- tests/engine_scrapy/test_nodes.py
PYTHON=python3.13 python scripts/versions.py scrapy 2.19.0

Each release is installed, with what it asks for, in an environment of its own, in front of the
packages of this one. Another Python gets all packages anew, as pinned in constraints.txt. Exits
with 1 if a test fails with one of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Engine:
    """What is tested with its releases."""

    tests: str
    #: What a release brings along, in front of ours.
    own: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


ENGINES = {
    "celery": Engine(
        "tests/engine_celery",
        own=("kombu", "billiard", "vine", "amqp"),
        flags=("-W", "ignore:Call to deprecated setex"),  # a call of Celery's own
    ),
    # Twisted removes what old releases of Scrapy import, and they do not say up to which they work.
    "scrapy": Engine("tests/engine_scrapy", own=("twisted",)),
}
OLD = {"2.13.4": ("twisted==24.11.0",)}


def environment(directory: Path, engine: str, version: str) -> Path:
    """The Python of an environment with this release."""
    wanted = os.environ.get("PYTHON", sys.executable)
    subprocess.run([wanted, "-m", "venv", directory], check=True)
    python = directory / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    if "PYTHON" in os.environ:
        pinned = [*pip, "-c", str(ROOT / "constraints.txt"), "-e", f"{ROOT}[dev]"]
        subprocess.run(pinned, check=True)
    subprocess.run([*pip, f"{engine}=={version}", *OLD.get(version, ())], check=True)
    shown = subprocess.run(
        [python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True
    )
    named = (engine, *ENGINES[engine].own)
    own = [line for line in shown.stdout.split() if line.lower().partition("=")[0] in named]
    version_of = [str(python), "-c", "import sys; print(sys.version.split()[0])"]
    which = subprocess.run(version_of, capture_output=True, text=True, check=True).stdout.strip()
    sys.stderr.write(f"Python {which}, {', '.join(own)}\n")
    here = next(directory.glob("lib/python*/site-packages"))
    paths = [str(ROOT / "src")]
    if "PYTHON" not in os.environ:
        paths.insert(0, sysconfig.get_path("purelib"))
    (here / "beside.pth").write_text("\n".join(paths) + "\n")
    return python


def main() -> int:
    named, _, tests = " ".join(sys.argv[1:]).partition(" -- ")
    name, *versions = named.split()
    engine, failed = ENGINES[name], []
    for version in versions:
        with tempfile.TemporaryDirectory(prefix=f"{name}-") as directory:
            python = environment(Path(directory), name, version)
            words: list[str | Path] = [python, "-m", "pytest", "-q", "-n", "2", *engine.flags]
            words += tests.split() or [engine.tests]
            if subprocess.run(words, cwd=ROOT, check=False).returncode:
                failed.append(version)
    if failed:
        sys.stderr.write(f"failed with {name} {', '.join(failed)}\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
