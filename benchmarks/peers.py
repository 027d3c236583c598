"""Peers: other people's queues, installed once into an environment of their own."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from skitter.errors import InfrastructureError

#: As `pip install scrapy-redis==0.9.1` resolved in November 2026. hiredis is a gift: scrapy-redis
#: does not ask for it, and is slower without.
SCRAPY_REDIS = ("scrapy-redis==0.9.1", "Scrapy==2.19.0", "redis==8.1.0", "hiredis==3.5.0")
INSTALL_S = 600
SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer that is installed: a Python of its own and a script for it."""

    name: str
    python: Path
    script: str  # in scripts/; not a module, for it imports what Skitter must not

    async def run(self, **task: object) -> dict[str, Any]:
        """Hand the script a task as JSON, get its figures back."""
        process = await asyncio.create_subprocess_exec(
            self.python,
            SCRIPTS / self.script,
            msgspec.json.encode(task),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await process.communicate()
        except BaseException:  # cancelled: the peer must not go on alone
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            raise InfrastructureError(f"{self.name} failed: {_last_line(err)}")
        figures: dict[str, Any] = msgspec.json.decode(out)
        return figures


def scrapy_redis() -> Peer:
    """scrapy-redis, installed if it is not yet."""
    return Peer(
        " ".join(SCRAPY_REDIS).replace("==", " "),
        environment("scrapy-redis", SCRAPY_REDIS),
        "scrapy_redis.py.txt",
    )


def peers_directory() -> Path:
    """Where peers are kept: SKITTER_BENCH_DIR, or the user's cache."""
    if chosen := os.environ.get("SKITTER_BENCH_DIR"):
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "skitter" / "bench"


def environment(name: str, requirements: tuple[str, ...]) -> Path:
    """The Python of an environment that has exactly these requirements; made once."""
    home = peers_directory().absolute() / name
    python, done = home / "bin" / "python", home / "installed.txt"
    wanted = "\n".join((sys.version, *requirements))
    if not (done.is_file() and done.read_text() == wanted):
        try:
            shutil.rmtree(home, ignore_errors=True)
            home.parent.mkdir(parents=True, exist_ok=True)
            _quietly(sys.executable, "-m", "venv", home)
            _quietly(python, "-m", "pip", "install", "--disable-pip-version-check", *requirements)
            done.write_text(wanted)
        except (OSError, subprocess.SubprocessError) as error:
            raise InfrastructureError(
                f"cannot install {' '.join(requirements)} into {home} ({_why(error)}): check the "
                "package index, choose another directory with SKITTER_BENCH_DIR, or leave the "
                "peer out."
            ) from error
    return python


def _quietly(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)


def _why(error: OSError | subprocess.SubprocessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return _last_line(error.stderr) or f"exit status {error.returncode}"
    return str(error)


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
