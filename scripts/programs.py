"""Every program that benchmarks and tests start, besides Python and the embedded server.

Programs are looked up in this table only, and scripts/system-packages installs what it names.
Standard library only: that script runs this file before anything is installed.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TEST: Final = frozenset({"test", "chaos"})
CHAOS: Final = frozenset({"chaos"})
BENCH: Final = frozenset({"test", "chaos", "bench"})
ONLY_BENCH: Final = frozenset({"bench"})


@dataclass(frozen=True, slots=True)
class Program:
    """Its Debian package, and which of `make test`, `make chaos` and `make bench` start it."""

    package: str
    used_by: frozenset[str] = TEST
    file: str = ""  # a pattern from /, for what is not on the PATH; the last match wins


PROGRAMS: Final = {
    "apt-cache": Program("apt", ONLY_BENCH),
    "apt-get": Program("apt", ONLY_BENCH),
    "bash": Program("bash"),
    "chromium": Program("chromium"),
    "curl": Program("curl"),
    "dpkg-deb": Program("dpkg", ONLY_BENCH),
    "git": Program("git", CHAOS),
    # Not a program: the html5lib-tests documents, and how a browser parses each.
    "html5lib-tests": Program(
        "golang-golang-x-net-dev",
        file="usr/share/gocode/src/golang.org/x/net/html/testdata/webkit/tests1.dat",
    ),
    "initdb": Program("postgresql", BENCH, file="usr/lib/postgresql/*/bin/initdb"),
    "kubectl": Program("kubernetes-client"),
    # A library that shifts the clock of a process that preloads it.
    "libfaketime": Program("libfaketime", file="usr/lib/*/faketime/libfaketime.so.1"),
    # A library that the embedded server runs with, if it is there.
    "libjemalloc": Program("libjemalloc2", BENCH, file="usr/lib/*/libjemalloc.so.2"),
    "make": Program("make"),
    "mariadb-install-db": Program("mariadb-server"),
    "mariadbd": Program("mariadb-server"),
    "mount": Program("mount"),
    "nginx": Program("nginx-light", BENCH),
    "openssl": Program("openssl", BENCH),
    "pg_ctl": Program("postgresql", BENCH, file="usr/lib/postgresql/*/bin/pg_ctl"),
    "podman": Program("podman", CHAOS),
    "prometheus": Program("prometheus", CHAOS),
    "promtool": Program("prometheus"),
    "rabbitmq-server": Program("rabbitmq-server", CHAOS, "usr/lib/rabbitmq/bin/rabbitmq-server"),
    "redis-cli": Program("redis-tools"),
    "redis-server": Program("redis-server"),  # 7.0 on Debian 12, the oldest we support
    "runuser": Program("util-linux", BENCH),
    "setpriv": Program("util-linux"),
    "sleep": Program("coreutils"),
    "systemctl": Program("systemd"),
    "systemd-analyze": Program("systemd"),
    "umount": Program("mount"),
}


def find_program(name: str) -> str | None:
    """Its path, or None if it is not installed. KeyError: it is not in the table."""
    program = PROGRAMS[name]
    if program.file:
        found = sorted(Path("/").glob(program.file))
        return str(found[-1]) if found else None
    # Debian puts some where only root looks.
    places = [os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin", "/usr/local/sbin"]
    return shutil.which(name, path=os.pathsep.join(places))


def advice(name: str) -> str:
    """How to install a missing program."""
    return f"install it (on Debian and Ubuntu: apt-get install {PROGRAMS[name].package})"


def missing_packages(target: str) -> list[str]:
    """Packages of programs that a Makefile target starts and that are not installed."""
    return sorted(
        {
            program.package
            for name, program in PROGRAMS.items()
            if target in program.used_by and not find_program(name)
        }
    )


if __name__ == "__main__":
    sys.stdout.write(" ".join(missing_packages(sys.argv[1])) + "\n")
