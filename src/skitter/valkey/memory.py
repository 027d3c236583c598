"""The embedded server's default memory limit: half of what the machine has, or its container is
allowed. Beyond that it refuses new URLs; without a limit, the kernel would kill some process. The
other half is for workers, and for the copy that an append-only file rewrite needs.
"""

from __future__ import annotations

import os
from pathlib import Path

from skitter.errors import BadOption

#: In megabytes; 0: no limit. Applies to every start without `max_memory_mb`.
MAX_MEMORY = "SKITTER_MAX_MEMORY_MB"
SMALLEST_MEMORY_MB = 8  # an empty server uses 2
SHARE = 0.5
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def default_max_memory_mb(said: str | None = None) -> int | None:
    """The environment's value, or a share of the machine's memory. None: no limit."""
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
    groups = [one for one in (group, *group.parents) if one.is_relative_to(root)]
    # In a container the path is the host's, and the root is our own group.
    texts = [_text(one / name) for one in groups]
    return [int(text) for text in texts if text.isdigit()]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
