"""What processes say they did, in a file that only grows: the witness outside of the server."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import msgspec


class Event(NamedTuple):
    """One thing that one process did."""

    name: str
    pid: int
    facts: dict[str, Any]

    @property
    def url(self) -> str:
        return str(self.facts["url"])


class Log:
    """The writer's end. One write per call on O_APPEND: lines of many processes do not mix."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def __call__(self, name: str, **facts: Any) -> None:
        self.all(name, [facts])

    def all(self, name: str, each: list[dict[str, Any]]) -> None:
        lines = (msgspec.json.encode((name, os.getpid(), facts)) + b"\n" for facts in each)
        os.write(self._fd, b"".join(lines))

    def close(self) -> None:
        os.close(self._fd)


class Oracle:
    """The reader's end. It reads on from where it stopped, and leaves a half line for later."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._events: defaultdict[str, list[Event]] = defaultdict(list)
        self._read = 0

    def events(self, name: str) -> list[Event]:
        self._catch_up()
        return self._events[name]

    def count(self, name: str) -> int:
        return len(self.events(name))

    def urls(self, name: str) -> Counter[str]:
        return Counter(event.url for event in self.events(name))

    def held_by(self, pid: int) -> set[str]:
        """What a process has leased and not heard the end of."""
        leased, done, lost = (
            Counter(event.url for event in self.events(name) if event.pid == pid)
            for name in ("leased", "done", "lost")
        )
        return set(leased - done - lost)

    def _catch_up(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            whole = file.read().rpartition(b"\n")[0]
        if whole:
            self._read += len(whole) + 1
            for line in whole.split(b"\n"):
                event = Event(*msgspec.json.decode(line))
                self._events[event.name].append(event)
