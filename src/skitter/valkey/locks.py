"""Three lock files that the kernel keeps honest.

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

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from skitter.valkey.waiting import Wait


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
