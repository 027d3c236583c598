"""Processes of the benchmark: each gets a task as JSON, says its figures as JSON, and is ended."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skitter.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.peers import Peer

ROOT: Final = Path(__file__).parents[2]  # where `python -m benchmarks` finds itself
Figures = dict[str, Any]


def module_words(module: str, task: msgspec.Struct) -> list[str]:
    """The command line of a module of ours, with its task."""
    return [
        sys.executable,
        "-m",
        f"benchmarks.crawl.{module}",
        msgspec.json.encode(task).decode(),
    ]


@asynccontextmanager
async def started(words: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that ends with the block, whatever happens."""
    process = await asyncio.create_subprocess_exec(
        *words, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        await end(process)


async def run_to_end(words: Sequence[str], *, limit_s: float) -> Figures:
    """What a process has found out when it exits by itself."""
    async with started(words) as process:
        return await figures_of(process, limit_s=limit_s, name=words[2])


async def figures_of(process: asyncio.subprocess.Process, *, limit_s: float, name: str) -> Figures:
    try:
        async with asyncio.timeout(limit_s):
            out, _ = await process.communicate()
    except TimeoutError:
        raise InfrastructureError(f"{name} was not done after {limit_s:.0f} s.") from None
    if process.returncode:
        raise InfrastructureError(f"{name} ended with exit code {process.returncode}: see above.")
    # One line of it: py-spy has its say on the same output.
    [line] = [line for line in out.splitlines() if line.startswith(b"{")]
    figures: Figures = msgspec.json.decode(line)
    return figures


def say(figures: msgspec.Struct) -> None:
    """The last word of a process of ours."""
    sys.stdout.buffer.write(msgspec.json.encode(figures) + b"\n")


async def run_peer(peer: Peer, *, limit_s: float, **task: object) -> Figures:
    try:
        async with asyncio.timeout(limit_s):
            return await peer.run(**task)
    except TimeoutError:
        raise InfrastructureError(f"{peer.name} was not done after {limit_s:.0f} s.") from None


async def end(process: asyncio.subprocess.Process, *, grace_s: float = 10.0) -> None:
    """SIGTERM, and SIGKILL after the grace."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(grace_s):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
