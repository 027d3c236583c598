"""A private PostgreSQL from the system's package, with defaults: every commit is on disk."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.site import free_ports
from scripts.programs import advice, find_program
from skitter.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def open_postgres() -> AsyncIterator[str]:
    """Its URL, without a database; removed at the end. Raises InfrastructureError."""
    # Not in the benchmark's directory, which only we may enter: root may not run PostgreSQL.
    data = Path(tempfile.mkdtemp(prefix="skitter-pg-"))
    if os.geteuid() == 0:
        shutil.chown(data, "postgres", "postgres")
    [port] = free_ports(1)
    try:
        await _run("initdb", "-D", str(data), "-A", "trust", "-U", "postgres", "-E", "UTF8")
        options = f"-p {port} -k {data} -c listen_addresses=127.0.0.1"
        await _run("pg_ctl", "-D", str(data), "-w", "-l", str(data / "log"), "-o", options, "start")
        try:
            yield f"postgresql://postgres@127.0.0.1:{port}"
        finally:
            await _run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(data, ignore_errors=True)


async def _run(name: str, *words: str) -> None:
    program, runuser = find_program(name), find_program("runuser")
    if not program:
        raise InfrastructureError(f"{name} is not installed: {advice(name)}.")
    who = [runuser, "-u", "postgres", "--"] if os.geteuid() == 0 and runuser else []
    # Not a pipe: the server inherits it, so it would never reach its end.
    with tempfile.TemporaryFile() as said:
        process = await asyncio.create_subprocess_exec(
            *who, program, *words, cwd="/", stdout=said, stderr=said
        )
        if await process.wait():
            said.seek(0)
            raise InfrastructureError(f"{name} failed: {said.read().decode().strip()}")
