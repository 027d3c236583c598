"""A loader process: items by number from a file of acknowledgements, through `load`, to a sink.

Run as a script: `loading.py DSN ACKS COUNT SEED`; says "ready" and takes a line of
stdin before each batch.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sinks.making import JOB, result
from skitter.sinks import LoadPace, load, open_sink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.model import Result


BATCH = 40


def item(number: int) -> dict[str, object]:
    """Shapes change on the way: new fields, and a column that is widened."""
    made: dict[str, object] = {"n": number, "title": f"book {number}"}
    if number >= 400:
        made |= {"stock": number if number < 800 else f"{number} left"}
    return made


class FileSource:
    """Gives what is not acknowledged, in batches of any size, until nothing is left."""

    def __init__(self, acks: Path, total: int, seed: int, stop: asyncio.Event) -> None:
        self._random = random.Random(seed)
        self._stop = stop
        self._acks = acks.open("ab", buffering=0)
        done = set(acks.read_text().split())
        self._left = [number for number in range(total) if str(number) not in done]

    async def read(self, limit: int, wait_s: float) -> list[Result]:
        print("ready", flush=True)  # noqa: T201
        sys.stdin.readline()  # a test that is to kill us allows each batch; else this is empty
        take = self._random.randint(1, limit)
        taken, self._left = self._left[:take], self._left[take:]
        if not taken:
            self._stop.set()
        return [result(number, item(number)) for number in taken]

    async def acknowledge(
        self, stored: Sequence[Result], others: Sequence[Result], *, updated: int = 0
    ) -> None:
        # One write: a killed process leaves no half number behind.
        self._acks.write(
            "".join(f"{int(r.fingerprint, 16)}\n" for r in [*stored, *others]).encode()
        )

    async def keep(self, results: Sequence[Result]) -> None:
        pass

    def close(self) -> None:
        self._acks.close()


async def main(dsn: str, acks: Path, total: int, seed: int) -> None:
    stop = asyncio.Event()
    source = FileSource(acks, total, seed, stop)
    async with open_sink(dsn, job=JOB) as sink:
        await load(source, sink, stop=stop, pace=LoadPace(batch=BATCH, linger_s=0))
    source.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
