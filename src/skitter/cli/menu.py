"""`skitter --help` and `skitter --version`.

`skitter --help`, without importing the commands.

`skitter --version`.
"""

from __future__ import annotations

import os
import sys
from textwrap import fill, wrap

from skitter.cli.lines import LINES
from skitter.errors import SkitterError

ABOUT = "A distributed web-scraping system in which every URL is accounted for."
NOTE = (
    "`skitter COMMAND --help` shows the options of a command. State is kept on the server that "
    "--redis URL or SKITTER_REDIS_URL names; without either, an embedded server starts by itself, "
    "in .skitter/. Most commands take --json. `skitter --version` shows what is installed."
)
WIDEST = 100


def show_menu(panels: dict[str, dict[str, str]]) -> None:
    sys.stdout.write(menu(panels, width=_width(), bold=_is_colourful()))


def menu(panels: dict[str, dict[str, str]], *, width: int, bold: bool) -> str:
    indent = max(map(len, LINES)) + 4
    parts = ["Usage: skitter COMMAND [OPTIONS] [ARGS]...\n", fill(ABOUT, width) + "\n"]
    for title, names in panels.items():
        parts.append(f"\x1b[1m{title}\x1b[0m" if bold else title)
        parts += [_entry(name, LINES.get(name, ""), indent, width) for name in names]
        parts.append("")
    return "\n".join([*parts, fill(NOTE, width), ""])


def _entry(name: str, says: str, indent: int, width: int) -> str:
    lines = wrap(says, max(20, width - indent))
    return f"  {name}".ljust(indent) + f"\n{' ' * indent}".join(lines)


def _width() -> int:
    try:
        found = int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size().columns
    except (OSError, ValueError):
        found = 80
    return min(found, WIDEST)


def _is_colourful() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def show_version() -> None:
    """Skitter, Python, and the server that a crawl here would start."""
    import platform

    from skitter import __version__

    rows = {"Skitter": __version__, "Python": platform.python_version(), "server": _server()}
    sys.stdout.write("".join(f"{name:8} {value}\n" for name, value in rows.items()))


def _server() -> str:
    from skitter.embedded.program import VARIABLE, examine_binary

    try:
        found = examine_binary()
    except SkitterError as error:
        return f"none: {error}"
    where = f", {found.path} ({VARIABLE})" if os.environ.get(VARIABLE) else ""
    preloaded = f", with {found.preload}" if found.preload else ""
    return f"{found.name} {found.version}{where}{preloaded}"
