"""Celery's command line, on our app."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from celery.bin.celery import main as celery_main

if TYPE_CHECKING:
    from collections.abc import Sequence


def run_command(words: Sequence[str]) -> int:
    """As `celery -A skitter.celery WORDS`. Returns the exit code."""
    before, sys.argv = sys.argv, ["celery", "-A", "skitter.celery", *words]
    try:
        return int(celery_main() or 0)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.argv = before
