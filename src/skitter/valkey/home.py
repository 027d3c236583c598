"""Where the server lives: a directory and its files."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from skitter.disk import NO_ROOM
from skitter.errors import DirectoryUnusable, DiskFull
from skitter.trust import check_ours, make_ours

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_DIRECTORY = Path(".skitter")

# sockaddr_un.sun_path, less the trailing NUL.
LONGEST_SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107


class _File:
    """A file in the server's directory: `server.log` is its path."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, server: EmbeddedServer, _: type[EmbeddedServer]) -> Path:
        return server.directory / self._name


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedServer:
    """The address of an embedded server. A value: the server need not be running."""

    directory: Path = DEFAULT_DIRECTORY
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        # Links are kept: a short link makes a directory usable whose own path is too long.
        object.__setattr__(self, "directory", self.directory.absolute())

    socket = _File("valkey.sock")  # the unix socket to connect to
    log = _File("valkey.log")
    config = _File("valkey.conf")  # rewritten at each start
    keep = _File("keep")  # a marker: the server keeps running when its last holder leaves
    #: A marker: somebody stopped the server, and processes that still use it must not restart it.
    stopped = _File("stopped")
    start_lock = _File("start.lock")  # see locks.py, as for the next two
    users_lock = _File("users.lock")
    server_lock = _File("server.lock")

    @property
    def url(self) -> str:
        """The socket as a URL, without the password."""
        return f"unix://{quote(str(self.socket))}"


def check(server: EmbeddedServer) -> None:
    """Refuse a directory that cannot hold a server; changes nothing."""
    length = len(os.fsencode(server.socket))
    if length > LONGEST_SOCKET_PATH_BYTES:
        raise DirectoryUnusable(
            f"the socket path {server.socket} is {length} bytes long and the system's limit is "
            f"{LONGEST_SOCKET_PATH_BYTES}: use a shorter directory with --dir or SKITTER_DIR."
        )
    with disk_errors(server):
        place = next(one for one in (server.directory, *server.directory.parents) if one.exists())
        if not place.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "")
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if place == server.directory:
            check_ours(place)


def prepare(server: EmbeddedServer) -> None:
    """Create the directory if needed, and refuse one that cannot work."""
    check(server)
    with disk_errors(server):
        is_new = not server.directory.is_dir()
        make_ours(server.directory)
        if is_new:
            # Data and passwords do not belong in the repository that a crawl is started from.
            (server.directory / ".gitignore").write_text("*\n")


@contextmanager
def disk_errors(server: EmbeddedServer) -> Iterator[None]:
    """Say which directory failed, and what to do about it."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise DiskFull(server.directory) from error
        in_the_way = (errno.EEXIST, errno.ENOTDIR)
        reason = "a file is in the way" if error.errno in in_the_way else error.strerror or error
        raise DirectoryUnusable(
            f"the embedded server cannot use {server.directory} ({reason}): "
            "choose a directory that you can write to, with --dir or SKITTER_DIR."
        ) from error
