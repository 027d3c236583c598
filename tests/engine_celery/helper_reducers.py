"""Tasks of the user's on our app: `celery -A skitter.celery worker -I this module`."""

from __future__ import annotations

import os
import time
from pathlib import Path

from skitter.celery import app
from waiting import until


@app.task(name="until_there")
def until_there(file):
    """A task that keeps its process busy."""
    until(Path(file).exists)


@app.task(name="slowly")
def slowly(records, diary):
    """Takes its time, and writes down when it begins and when it has counted."""
    with Path(diary).open("a", buffering=1) as file:
        file.write(f"begin {os.getpid()}\n")
        total = sum(1 for _ in records)
        time.sleep(float(os.environ.get("REDUCE_S", "0")))
        file.write(f"end {os.getpid()}\n")
    return total
