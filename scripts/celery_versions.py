"""Run the tests of the Celery engine with other releases of Celery: `make versions`.

python scripts/celery_versions.py 5.6.2 5.7.0      # tests/engine_celery with each of them
python scripts/celery_versions.py 5.7.0 -- tests/engine_celery/test_tasks.py

Each release is installed, with the kombu that it asks for, in an environment of its own, in front
of the packages of this one. Exits with 1 if a test fails with one of them.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = ["tests/engine_celery"]
#: What a release of Celery brings along.
ITS_OWN = ("kombu", "billiard", "vine", "amqp")
#: A call of Celery's own that redis-py has deprecated.
QUIET = ("-W", "ignore:Call to deprecated setex")


def environment(directory: Path, version: str) -> Path:
    """The Python of an environment with this release."""
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"celery=={version}"], check=True)
    shown = subprocess.run(
        [python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True
    )
    own = [line for line in shown.stdout.split() if line.startswith(("celery=", *ITS_OWN))]
    sys.stderr.write(f"Celery {version}: {', '.join(own)}\n")
    here = next(directory.glob("lib/python*/site-packages"))
    paths = [sysconfig.get_path("purelib"), str(ROOT / "src")]
    (here / "beside.pth").write_text("\n".join(paths) + "\n")
    return python


def main() -> int:
    versions, _, tests = " ".join(sys.argv[1:]).partition(" -- ")
    failed = []
    for version in versions.split():
        with tempfile.TemporaryDirectory(prefix="celery-") as directory:
            python = environment(Path(directory), version)
            words = ["-m", "pytest", "-q", "-n", "2", *QUIET, *(tests.split() or TESTS)]
            if subprocess.run([python, *words], cwd=ROOT, check=False).returncode:
                failed.append(version)
    if failed:
        sys.stderr.write(f"failed with Celery {', '.join(failed)}\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
