"""Blame: which line of the user's an exception comes from. Our own frames help nobody."""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path
from typing import Final

import msgspec

_NOT_THEIRS: Final = (
    str(Path(__file__).parents[1]),  # this package
    str(Path(importlib.__file__).parent),
    "<frozen importlib",
)


class Place(msgspec.Struct, frozen=True):
    """A line of a file."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        where = f"{_short(self.file)}:{self.line}"
        return f"{where}: {self.text}" if self.text else where


def blame(error: BaseException, file: str) -> Place | None:
    """The last line of `file` that led to the error; else the last line that is not ours."""
    if isinstance(error, SyntaxError) and error.filename:
        return Place(error.filename, error.lineno or 1, (error.text or "").strip())
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if _is_theirs(frame.filename)]
    chosen = [frame for frame in theirs if frame.filename == file] or theirs
    if not chosen:
        return None
    return Place(chosen[-1].filename, chosen[-1].lineno or 1, (chosen[-1].line or "").strip())


def describe(error: BaseException) -> str:
    """`ValueError: text`, in one line."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    first = text.strip().splitlines()[0] if text.strip() else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _is_theirs(filename: str) -> bool:
    return not filename.startswith(_NOT_THEIRS)


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
