"""How to install an optional library: it depends on how this package was installed (PEP 610)."""

from __future__ import annotations

import json
import shlex
from importlib.metadata import Distribution, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

PACKAGE = "skitter"


def install(extra: str) -> str:
    """The command that installs an extra."""
    return install_of(extra, distribution(PACKAGE))


def install_of(extra: str, package: Distribution) -> str:
    """From the clone, the wheel or the repository that it came from, if that is still there; else
    by the names of what the extra needs. From an index: by the name of the package."""
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
    return shlex.join(("pip", "install", *words))


def _needs(extra: str, package: Distribution) -> list[str]:
    """What the extra requires, without the conditions."""
    marks = (f'extra == "{extra}"', f"extra == '{extra}'")
    lines = [one for one in package.requires or () if any(mark in one for mark in marks)]
    return [line.partition(";")[0].strip() for line in lines] or [f"{PACKAGE}[{extra}]"]
