"""Where the server lives: a directory, its files and its locks.

The kernel keeps three lock files honest.

    start.lock   held exclusively by a process that is starting or stopping the server
    users.lock   shared by all users of the server
    server.lock  held by the server process itself, through an inherited descriptor

A lock disappears with its process, however that ended. A leftover pid file or socket proves
nothing; a held server.lock proves that a server lives in this directory, even if its socket was
removed, so two servers never write to the same append-only file.

flock, not fcntl locks: those belong to the process, so ending a second hold in the same process
would release the first. All descriptors are close-on-exec; programs we run do not inherit them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from skitter.errors import NO_ROOM, DirectoryUnusable, DiskFull
from skitter.trust import check_ours, make_ours

if TYPE_CHECKING:
    from collections.abc import Iterator


Progress = Callable[[str], None]
"""Takes a sentence on what we are waiting for, about once a second."""

PAUSE_S = 0.02
REPORT_EVERY_S = 1.0


class Wait:
    """One wait for another process: pauses between checks, reports, knows when to give up."""

    def __init__(self, progress: Progress | None, *, patience_s: float = float("inf")) -> None:
        self._progress = progress
        self._patience_s = patience_s
        self._reported = time.monotonic()
        self.restart()

    def restart(self) -> None:
        """Reset the deadline, after a sign of life."""
        self._since = time.monotonic()

    @property
    def too_long(self) -> bool:
        """Whether it is time to give up."""
        return time.monotonic() - self._since > self._patience_s

    def pause(self, reason: str) -> None:
        """Pause briefly before the next check."""
        # Not time.sleep: it waits for an absolute time of the monotonic clock, which fails with
        # EINVAL under libfaketime, which shifts that clock along with the time of day.
        select.select([], [], [], PAUSE_S)
        if self._progress and time.monotonic() - self._reported >= REPORT_EVERY_S:
            self._reported = time.monotonic()
            self._progress(reason)


@contextmanager
def alone(path: Path, wait: Wait) -> Iterator[None]:
    """Hold the lock exclusively, waiting as long as it takes."""
    fd = _open(path)
    try:
        # Not a blocking flock: the holder may be loading gigabytes, and the user wants to know.
        while not _take(fd, fcntl.LOCK_EX):
            wait.pause("waiting for another process that is starting or stopping the server")
        yield
    finally:
        # A child forked meanwhile by another thread has this descriptor too, and would keep the
        # lock after our close.
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def share(path: Path) -> int:
    """Hold the lock together with others, until the returned descriptor is closed.

    A forked child inherits the descriptor and so counts as a holder until it exits. That is
    intended: it may be using the server.
    """
    fd = _open(path)
    fcntl.flock(fd, fcntl.LOCK_SH)
    return fd


@contextmanager
def inheritable(path: Path) -> Iterator[int]:
    """Hold the lock exclusively on a descriptor that a new process can inherit and keep."""
    fd = _open(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)  # no explicit unlock: it would release the child's lock too


def is_shared(path: Path) -> bool:
    """Whether anybody holds the lock, shared or exclusive."""
    # On its own descriptor: converting a holder's lock would succeed even though a forked child
    # shares it.
    return not _can_take(path, fcntl.LOCK_EX)


def is_held_alone(path: Path) -> bool:
    """Whether somebody holds the lock exclusively."""
    # Asks for a shared lock, so that two processes that ask at once do not see each other as
    # holder.
    return path.exists() and not _can_take(path, fcntl.LOCK_SH)


def _can_take(path: Path, kind: int) -> bool:
    fd = _open(path)
    try:
        return _take(fd, kind)
    finally:
        os.close(fd)


def _take(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


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
    start_lock = _File("start.lock")  # see home.py, as for the next two
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
        place = next(
            parent for parent in (server.directory, *server.directory.parents) if parent.exists()
        )
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
