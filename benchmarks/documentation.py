"""Real pages: the documentation of Python, PostgreSQL and SQLite, from Debian's packages."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import chain
from typing import TYPE_CHECKING, Final

from benchmarks.peers import peers_directory
from scripts.programs import find_program
from skitter.errors import InfrastructureError

if TYPE_CHECKING:
    from pathlib import Path

#: Each release of Debian has its own versions.
PACKAGES: Final = (r"python3\.\d+-doc", r"postgresql-doc-\d+", "sqlite3-doc")
INDEX: Final = "index.html"
PLACES: Final = (INDEX, f"html/{INDEX}")  # some are there twice, by a link
LIMIT_S: Final = 300


def publish_documentation(www: Path) -> str:
    """The path of a page that links to each documentation, which are downloaded once. Raises
    InfrastructureError."""
    cache = peers_directory().absolute() / "documentation"
    if not cache.is_dir():
        _download(cache)
    site = www / "docs"
    if not site.is_dir():
        site.mkdir()
        starts = chain.from_iterable(cache.glob(f"*/usr/share/doc/*/{place}") for place in PLACES)
        links = []
        for number, start in enumerate(sorted({start.resolve() for start in starts})):
            (site / f"{number}").symlink_to(start.parent, target_is_directory=True)
            links.append(f'<p><a href="{number}/{INDEX}">{number}</a></p>')
        (site / INDEX).write_text(f"<title>Documentation</title>{''.join(links)}")
    return f"/docs/{INDEX}"


def _download(cache: Path) -> None:
    fresh = cache.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        known = _run("apt-cache", "pkgnames").split()
        for pattern in PACKAGES:
            name = max(filter(re.compile(pattern).fullmatch, known), key=_version_of)
            _run("apt-get", "download", name, cwd=fresh)
            [package] = fresh.glob("*.deb")
            _run("dpkg-deb", "-x", str(package), str(fresh / name))
            package.unlink()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise InfrastructureError(
            f"cannot download documentation ({error}): this part of "
            "the benchmark needs Debian's package archive; --only names other parts."
        ) from error
    fresh.rename(cache)


def _version_of(package: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", package)]


def _run(program: str, *words: str, cwd: Path | None = None) -> str:
    if (path := find_program(program)) is None:
        raise OSError(f"{program} is not here")
    done = subprocess.run(
        [path, *words], cwd=cwd, check=True, capture_output=True, timeout=LIMIT_S, text=True
    )
    return done.stdout
