"""Writes the lines of completed pages into the index of the archive."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skitter.archive.index import is_here, write_lines
from skitter.frontier.admin.archived import forget_written, unwritten

if TYPE_CHECKING:
    from pathlib import Path

    from skitter.frontier.completions import Sealed
    from skitter.frontier.frontier import Frontier
    from skitter.model import Completion


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
        lines, self._lines = self._lines, {}  # more may come meanwhile
        await _write(frontier, self.folder, lines)


async def settle(frontier: Frontier, folder: Path) -> None:
    """Write the lines of workers that were killed before they could, if their files are here."""
    found = await unwritten(frontier)
    here = {shard: [one for one in lines if is_here(folder, one)] for shard, lines in found.items()}
    await _write(frontier, folder, here)


async def _write(frontier: Frontier, folder: Path, by_shard: dict[int, list[str]]) -> None:
    """Before the server forgets them, they are on disk."""
    for shard, lines in by_shard.items():
        with suppress(OSError):
            await asyncio.to_thread(write_lines, folder, lines)
            await forget_written(frontier, shard, lines)
