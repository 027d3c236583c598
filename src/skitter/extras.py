"""Which release this is, and how to install an optional library.

The latter depends on how this package was installed (PEP 610).
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing takes time too
if TYPE_CHECKING:
    from importlib.metadata import Distribution

PACKAGE = "skitter"
#: An import of the package would count as one of all that it names for type checkers.
RELEASE: str = sys.modules[PACKAGE].__version__


def install(extra: str) -> str:
    """The command that installs an extra."""
    from importlib.metadata import distribution  # slow to import, and every command reads RELEASE

    return install_of(extra, distribution(PACKAGE))


def install_of(extra: str, package: Distribution) -> str:
    """From the clone, the wheel or the repository that it came from, if that is still there; else
    by the names of what the extra needs. From an index: by the name of the package."""
    import json
    from pathlib import Path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    origin = json.loads(package.read_text("direct_url.json") or "{}")
    url, named = str(origin.get("url", "")), f"{PACKAGE}[{extra}]"
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}"
    path = Path(url2pathname(urlsplit(url).path)) if url.startswith("file:") else None
    if path is None or path.is_file():
        return _pip(f"{named} @ {url}" if url else named)
    if not path.exists():
        return _pip(*_needs(extra, package))
    is_editable = origin.get("dir_info", {}).get("editable")
    return _pip(*["-e"] * bool(is_editable), f"{path}[{extra}]")


def _pip(*words: str) -> str:
    import shlex

    return shlex.join(("pip", "install", *words))


def _needs(extra: str, package: Distribution) -> list[str]:
    """What the extra requires, without the conditions."""
    marks = (f'extra == "{extra}"', f"extra == '{extra}'")
    lines = [
        requirement
        for requirement in package.requires or ()
        if any(mark in requirement for mark in marks)
    ]
    return [line.partition(";")[0].strip() for line in lines] or [f"{PACKAGE}[{extra}]"]
