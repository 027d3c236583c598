"""Which server has the state. Every process asks this first, so it imports little."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from skitter.errors import BadOption
from skitter.settings.server import Settings, files


def find_server(redis_url: str | None = None, directory: Path | str | None = None) -> Settings:
    """The arguments win; then SKITTER_REDIS_URL and SKITTER_DIR; then skitter.toml; then the
    embedded server."""
    if redis_url is not None and not (isinstance(redis_url, str) and redis_url):
        raise BadOption("redis", redis_url, "a server's URL, such as redis://localhost:6379")
    given: dict[str, Any] = {} if redis_url is None else {"redis_url": redis_url}
    if directory is not None:
        given["directory"] = Path(directory)
    if not _is_anything_set():
        return Settings(**given)  # the usual case, without the declarations of all other options
    from skitter.settings.sources import resolve_server

    return resolve_server({f"server.{name}": value for name, value in given.items()})


def _is_anything_set() -> bool:
    return any(name.startswith("SKITTER_") for name in os.environ) or any(files())
