"""`skitter serve` as people start it, on a free port and with an embedded server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from waiting import Child


def start(directory: Path, *words: str) -> Child[str]:
    command = [sys.executable, "-m", "skitter", "serve", "--port", "0", "--dir", str(directory)]
    environment = {**os.environ, "NO_COLOR": "1"}
    environment.pop("SKITTER_REDIS_URL", None)
    return Child([*command, *words], stdout=subprocess.PIPE, text=True, env=environment)


def address_of(said: str) -> str:
    """What it says first."""
    found = re.search(r"Serving (\S+/)", said)
    assert found, said
    return found[1]
