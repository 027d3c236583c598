"""The table that names the server, and the files that may set it and other tables."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skitter.settings.option import Table, option

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = "skitter.toml"
PROJECT = "pyproject.toml"
#: A variable that names another file, whoever owns it.
NAMED = "SKITTER_CONFIG"
#: What a pyproject.toml with a table tool.skitter contains, in one of the ways to write it. Parsing
#: a long one is slow. Possessive: it may be a stranger's.
_OURS = re.compile(
    rb"""tool["']?[ \t]*+\.[ \t]*+["']?skitter|^[ \t]*+(?:\[[ \t]*+)?["']?tool["']?[ \t]*+[]=]""",
    re.MULTILINE,
)
#: The first versions with script flags; there is no Valkey below 7.2.
OLDEST_SERVERS = {"redis": (7, 0), "valkey": (7, 2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Table):
    """Where the state is kept: a server given by URL, or the embedded one in a directory."""

    redis_url: str | None = option(
        None,
        "Redis or Valkey server, such as redis://host:6379. Default: the embedded one.",
        variable="SKITTER_REDIS_URL",
        secret=True,
    )
    directory: Path = option(
        Path(".skitter"), "Directory of the embedded server.", variable="SKITTER_DIR"
    )


def named() -> str:
    """The file that the environment names instead."""
    return os.environ.get(NAMED, "")


def files() -> Iterator[Path]:
    """Files that may have settings, from the working directory upwards."""
    if chosen := named():
        yield Path(chosen).expanduser().absolute()
        return
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was deleted
        return
    for folder in (here, *here.parents):
        for name in (FILE, PROJECT):
            if (path := folder / name).is_file() and (name == FILE or _is_ours(path)):
                yield path


def _is_ours(project: Path) -> bool:
    try:
        return _OURS.search(project.read_bytes()) is not None
    except PermissionError:
        return False
