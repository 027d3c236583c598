"""Celery's command line, on our app."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from celery.bin.celery import main as celery_main

from skitter.celery.factory import default_app
from skitter.celery.lifecycle import check_pool
from skitter.celery.office import office_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.settings import Settings


def check_words(words: Sequence[str]) -> None:
    """Raises UsageError for a pool that cannot fetch, before there is a server."""
    for word, following in zip(words, (*words[1:], ""), strict=True):
        if word in ("-P", "--pool"):
            check_pool(following)
        elif word.startswith(("-P", "--pool=")):
            check_pool(word.removeprefix("-P").removeprefix("--pool="))


def find_frontier() -> Settings:
    """The server of the app that the environment describes. Raises UsageError."""
    return office_of(default_app()).where


def run_command(words: Sequence[str]) -> int:
    """As `celery -A skitter.celery WORDS`. Returns the exit code."""
    before, sys.argv = sys.argv, ["celery", "-A", "skitter.celery", *words]
    try:
        return int(celery_main() or 0)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.argv = before
