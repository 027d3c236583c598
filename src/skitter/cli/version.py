"""`skitter --version`."""

from __future__ import annotations

import os
import platform
import sys

from skitter import __version__
from skitter.errors import SkitterError


def show_version() -> None:
    """Skitter, Python, and the server that a crawl here would start."""
    rows = {"Skitter": __version__, "Python": platform.python_version(), "server": _server()}
    sys.stdout.write("".join(f"{name:8} {value}\n" for name, value in rows.items()))


def _server() -> str:
    from skitter.valkey.binary import VARIABLE, examine_binary

    try:
        found = examine_binary()
    except SkitterError as error:
        return f"none: {error}"
    where = f", {found.path} ({VARIABLE})" if os.environ.get(VARIABLE) else ""
    preloaded = f", with {found.preload}" if found.preload else ""
    return f"{found.name} {found.version}{where}{preloaded}"
