"""Hold, start, stop: who decides how long the server runs. The package explains the life cycle."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from skitter.embedded import home as locks
from skitter.embedded import process, program
from skitter.embedded.home import EmbeddedServer, Progress, Wait, disk_errors, prepare
from skitter.embedded.program import ServerOptions, default_max_memory_mb
from skitter.trust import check_ours

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from skitter.embedded.process import ServerProcess

_DEFAULTS = ServerOptions()


@contextmanager
def hold(
    directory: Path, options: ServerOptions = _DEFAULTS, *, progress: Progress | None = None
) -> Iterator[EmbeddedServer]:
    """Use the server of a directory: join it, or start it if it is not running.

    The last holder to leave stops it, unless it is kept. Any number of processes and threads may
    hold it at once.
    """
    home = EmbeddedServer(directory=directory)
    prepare(home)
    with _changing(home, progress):
        seat = locks.share(home.users_lock)
        try:
            server = _ensure(home, options, progress)
        except BaseException:
            _leave(home, seat, progress)
            raise
    try:
        yield server
    finally:
        if home.start_lock.exists():
            with _changing(home, progress):
                _leave(home, seat, progress)
        else:  # somebody removed the directory: the server is unreachable
            os.close(seat)


def start(
    directory: Path, options: ServerOptions = _DEFAULTS, *, progress: Progress | None = None
) -> EmbeddedServer:
    """Run the server, and keep it running without holders until `stop`."""
    with hold(directory, options, progress=progress) as server, disk_errors(server):
        server.keep.touch(mode=0o600)
    return server


def stop(directory: Path, *, progress: Progress | None = None) -> bool:
    """Stop the server, even if it is in use, with all data on disk. False if none was running."""
    home = EmbeddedServer(directory=directory)
    with disk_errors(home):
        if not home.start_lock.exists():
            return False
        check_ours(home.directory)
    with _changing(home, progress):
        home.keep.unlink(missing_ok=True)
        home.stopped.touch(mode=0o600)
        return process.shut_down(_with_password(home), progress)


def revive(directory: Path) -> bool:
    """For a holder whose server does not answer: restart it if it died.

    False: somebody stopped it, or removed the directory with all its data.
    """
    home = EmbeddedServer(directory=directory)
    with disk_errors(home):
        if home.stopped.exists() or not home.start_lock.exists():
            return False
    with hold(directory):
        return True


def running(directory: Path) -> ServerProcess | None:
    """The server of a directory, if it is running. Changes nothing, waits at most 2 s."""
    home = EmbeddedServer(directory=directory)
    with disk_errors(home):
        return process.inspect(_with_password(home))


@contextmanager
def _changing(home: EmbeddedServer, progress: Progress | None) -> Iterator[None]:
    """One at a time: nobody starts or stops the server while another process does."""
    with disk_errors(home), locks.alone(home.start_lock, Wait(progress)):
        yield


def _ensure(
    home: EmbeddedServer, options: ServerOptions, progress: Progress | None
) -> EmbeddedServer:
    before = program.read(home.config)
    if process.is_ready(server := _with_password(home), progress):
        options.check_against(before, home.directory)
        return server
    if home.keep.exists():
        options = options.over(before)
    if options.max_memory_mb is None:
        options = replace(options, max_memory_mb=default_max_memory_mb())
    home.stopped.unlink(missing_ok=True)
    server = replace(home, password=options.password)
    try:
        process.spawn(server, options, progress)
    except process.KilledAtStart:
        if progress:
            progress("the embedded server was killed while starting: restarting it")
        process.spawn(server, options, progress)
    return server


def _leave(home: EmbeddedServer, seat: int, progress: Progress | None) -> None:
    os.close(seat)
    if not locks.is_shared(home.users_lock) and not home.keep.exists():
        process.shut_down(_with_password(home), progress)


def address_of(directory: Path) -> EmbeddedServer:
    """The address of a directory's server, running or not."""
    return _with_password(EmbeddedServer(directory=directory))


def _with_password(home: EmbeddedServer) -> EmbeddedServer:
    """Adds the password of the last start, from its configuration file."""
    if home.directory.exists():
        check_ours(home.directory)
    return replace(home, password=program.read(home.config).password)
