"""What is shipped is all there, and pinned. `make package` installs it and sees it at work."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

from scripts.lock import EXTRAS, canonical, needed, pins
from scripts.package import build
from skitter.extras import RELEASE

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "skitter"
LOCKS = ("requirements.lock", "requirements-dev.lock")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dist"))


def sources() -> set[str]:
    return {
        str(file.relative_to(PACKAGE.parent))
        for file in PACKAGE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def test_the_wheel_has_every_file_of_the_package(built):
    with zipfile.ZipFile(built[1]) as wheel:
        names = set(wheel.namelist())

    assert sources() <= names
    assert {"skitter/py.typed", "skitter/frontier/lua/lease.lua"} < names
    assert any(name.startswith("skitter/server/static/js/") for name in names)
    assert {name.split("/")[0] for name in names} == {"skitter", f"skitter-{RELEASE}.dist-info"}


def test_the_sdist_has_its_licence_and_the_words_for_people(built):
    with tarfile.open(built[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}

    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "PKG-INFO"} < names
    assert {f"src/{name}" for name in sources()} < names


def entries(lock: str) -> dict[str, str]:
    text = (ROOT / lock).read_text()
    return {
        name: hashes
        for name, hashes in re.findall(r"^(\S+==\S+) \\\n((?: +--hash.*\n)+)", text, re.M)
    }


@pytest.mark.parametrize("lock", LOCKS)
def test_each_version_of_a_lock_is_the_one_that_we_test_with_and_has_hashes(lock):
    text, found = (ROOT / lock).read_text(), entries(lock)

    assert len(found) == text.count("==") > 40
    assert found.keys() <= {f"{name}=={version}" for name, version in pins().items()}
    assert all(
        re.fullmatch(r"(?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", one) for one in found.values()
    )
    assert "://" not in text


def test_the_lock_of_developers_has_all_of_the_constraints():
    assert len(entries("requirements-dev.lock")) == len(pins())


def test_the_lock_of_the_image_has_all_that_it_needs():
    locked = {canonical(pin.partition("==")[0]) for pin in entries("requirements.lock")}

    assert needed("skitter", EXTRAS) - {"skitter"} == locked


def test_we_test_with_what_is_pinned():
    here = {canonical(one.name): one.version for one in distributions()}
    used = {name: here[name] for name in map(canonical, pins()) if name in here}
    assert used == {canonical(name): pin for name, pin in pins().items() if canonical(name) in here}


@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_the_wheel_works_where_nothing_else_is():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "package.py"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Skitter  {RELEASE}" in done.stdout
