"""Writes the lines of completed pages into the index of the archive."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skitter.archive.index import read_line, write_lines

if TYPE_CHECKING:
    from pathlib import Path

    from skitter.frontier.completions import Sealed
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.shard import Shard
    from skitter.model import Completion

AT_ONCE = 1000


@dataclass(slots=True)
class Archived:
    """The pages that this process has completed since its last heartbeat."""

    folder: Path
    _lines: dict[int, list[str]] = field(default_factory=dict)  # by shard

    def add(self, completion: Completion, sealed: Sealed) -> None:
        if completion.feedback and completion.feedback.archived:
            self._lines.setdefault(sealed.shard, []).append(completion.feedback.archived)

    async def send(self, frontier: Frontier) -> None:
        """What cannot be written now stays on the server, for `settle`."""
        sent, self._lines = self._lines, {}  # more may come meanwhile
        for number, lines in sent.items():
            with suppress(OSError):
                await _settle(frontier.shards[number], self.folder, lines)


async def settle(frontier: Frontier, folder: Path) -> None:
    """Write the lines of workers that were killed before they could, if their files are here."""
    for shard in frontier.shards:
        found = [line.decode() for line in await shard.command("SMEMBERS", "archived")]
        await _settle(shard, folder, [line for line in found if _is_here(folder, line)])


async def _settle(shard: Shard, folder: Path, lines: list[str]) -> None:
    """Write them first: what the server forgets must be on disk."""
    if lines:
        await asyncio.to_thread(write_lines, folder, lines)
    for start in range(0, len(lines), AT_ONCE):
        await shard.command("SREM", "archived", *lines[start : start + AT_ONCE])


def _is_here(folder: Path, line: str) -> bool:
    name = read_line(line).file
    return "/" not in name and (folder / name).exists()
