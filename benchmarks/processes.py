"""Processes: each gets a task as JSON, prints its figures as JSON, and is stopped."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from skitter.errors import InfrastructureError
from skitter.settings import FetchOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

ROOT: Final = Path(__file__).parents[1]  # where `python -m benchmarks` works
Figures = dict[str, Any]


def module_words(module: str, task: msgspec.Struct) -> list[str]:
    """The command line of one of our modules, with its task."""
    return [sys.executable, "-m", f"benchmarks.{module}", msgspec.json.encode(task).decode()]


@asynccontextmanager
async def started(
    words: Sequence[str],
    *,
    stderr: int | None = None,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that is stopped at the end of the block, whatever happens."""
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=ROOT,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
    )
    try:
        yield process
    finally:
        await end(process)


async def run_to_end(words: Sequence[str], *, name: str, limit_s: float) -> Figures:
    """The figures that a process prints before it exits."""
    async with started(words, stderr=asyncio.subprocess.PIPE) as process:
        try:
            async with asyncio.timeout(limit_s):
                out, err = await process.communicate()
        except TimeoutError:
            raise InfrastructureError(f"{name} was not done after {limit_s:.0f} s.") from None
    if process.returncode:
        why = last_line(err) or f"exit code {process.returncode}"
        raise InfrastructureError(f"{name} failed: {why}")
    # One line only: py-spy prints to the same output.
    [line] = [line for line in out.splitlines() if line.startswith(b"{")]
    figures: Figures = msgspec.json.decode(line)
    return figures


def last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


@dataclass(frozen=True, slots=True)
class CpuTime:
    """The CPU time of this process, and of its main thread alone."""

    all_s: float
    main_s: float

    @classmethod
    def now(cls) -> Self:
        return cls(time.process_time(), time.thread_time())


def fetch_options(ca_file: str) -> FetchOptions:
    """The defaults, plus a certificate that nobody else knows."""
    return FetchOptions(ca_file=Path(ca_file)) if ca_file else FetchOptions()


def say(figures: msgspec.Struct) -> None:
    """Print the figures, as the last output of the process."""
    sys.stdout.buffer.write(msgspec.json.encode(figures) + b"\n")


async def end(process: asyncio.subprocess.Process, *, grace_s: float = 10.0) -> None:
    """SIGTERM, and SIGKILL after the grace period."""
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
