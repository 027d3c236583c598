"""Write the lock files: the versions in constraints.txt with the hashes of their files.

`requirements.lock` has what an image needs, `requirements-dev.lock` everything we test with. Run by
`make constraints` in a fresh environment with everything installed: the hashes come from the index
that its pip is configured for. No pip command shows them, hence the use of its internals.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import requires
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXTRAS = ("aiohttp", "postgres", "server")  # in the image
HEAD = """\
# {what}, with the SHA-256 of the files for Linux and macOS.
# Made by `make constraints`. Use: pip install --require-hashes --no-deps -r {name}
"""
# The image has the newest patch release of its Python; 3.11.2, say, needs another package for
# redis.
NEWEST = {"python_full_version": f"{sys.version_info.major}.{sys.version_info.minor}.99"}
# Wheels that Skitter supports: CPython 3.11 and newer on Linux and macOS.
PYTHONS = re.compile(r"-(?:(?:py2\.)?py3|py3\d+|cp3\d+)-(?:none|abi3)-|-cp31[1-9]-cp31[1-9]-")
PLATFORMS = re.compile(
    r"-any\.whl|(?:manylinux|musllinux|macosx)[0-9a-z_.]*_(?:x86_64|aarch64|arm64|universal2)\.whl"
)


def pins() -> dict[str, str]:
    """The versions in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def is_wanted(file: str, name: str, version: str) -> bool:
    """Whether a file in the index is of that version, and for a platform we support."""
    stem = re.sub(r"[-_.]+", "[-_.]+", re.escape(name).replace("\\", ""))
    if re.fullmatch(rf"(?i){stem}-{re.escape(version)}\.(?:tar\.gz|zip)", file):
        return True
    mine = re.match(rf"(?i){stem}-{re.escape(version)}-", file)
    return bool(mine and PYTHONS.search(file) and PLATFORMS.search(file))


@contextmanager
def opened_index() -> Iterator[Any]:
    """pip's own view of the index that this machine is configured for."""
    from pip._internal.commands import create_command

    command: Any = create_command("download")
    options, _ = command.parse_args(["-q"])
    with command.main_context():
        yield command._build_package_finder(options, command.get_default_session(options))


def links_of(finder: Any, name: str) -> Iterator[Any]:
    from pip._internal.index.collector import parse_links
    from pip._internal.models.link import Link

    collector = finder._link_collector
    for place in collector.search_scope.get_index_urls_locations(name):
        if page := collector.fetch_response(Link(place)):
            yield from parse_links(page)


def entry(finder: Any, name: str, version: str) -> str:
    """One package, in the format pip reads."""
    found = [link for link in links_of(finder, name) if is_wanted(link.filename, name, version)]
    hashes = sorted({link.hash for link in found if link.hash_name == "sha256"})
    if not hashes:
        raise SystemExit(f"the index tells no hash of {name} {version}")
    return " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{one}" for one in hashes)])


def needed(name: str, extras: tuple[str, ...] = ()) -> set[str]:
    """An installed package and everything it needs, spelled as in the index."""
    from pip._vendor.packaging.requirements import Requirement

    found = {canonical(name)}
    for line in requires(name) or ():
        one = Requirement(line)
        wanted = ({**NEWEST, "extra": extra} for extra in ("", *extras))
        if one.marker is None or any(one.marker.evaluate(each) for each in wanted):
            found |= needed(one.name, tuple(sorted(one.extras)))
    return found


def canonical(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    image = needed("skitter", EXTRAS)
    with opened_index() as finder, ThreadPoolExecutor(8) as threads:
        names = list(pins())
        found = threads.map(lambda name: entry(finder, name, pins()[name]), names)
        entries = dict(zip(names, found, strict=True))
    kept = [name for name in names if canonical(name) in image]
    write("requirements.lock", "What the image of deploy/ needs", [entries[one] for one in kept])
    write("requirements-dev.lock", "All of constraints.txt", list(entries.values()))


def write(name: str, what: str, entries: list[str]) -> None:
    (ROOT / name).write_text(
        "\n".join([HEAD.format(what=what, name=name) + entries[0], *entries[1:], ""])
    )
    sys.stdout.write(f"{name} has {len(entries)} packages.\n")


if __name__ == "__main__":
    main()
