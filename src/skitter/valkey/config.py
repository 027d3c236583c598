"""The server's configuration: our fixed choices, and the few options users have."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from skitter.errors import BadOption
from skitter.trust import read_private
from skitter.valkey.memory import SMALLEST_MEMORY_MB

if TYPE_CHECKING:
    from pathlib import Path

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
    max_memory_mb: int | None = None  # None: memory.py decides at start

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
