"""Finds the line of user code that an exception comes from, skipping our own frames."""

from __future__ import annotations

import importlib
import linecache
import sysconfig
import traceback
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType

_OURS: Final = f"{Path(__file__).parents[1]}/"  # this package
_NOT_THEIRS: Final = (
    _OURS,
    f"{Path(importlib.__file__).parent}/",
    "<frozen importlib",
    "<string>",  # what dataclasses generate
)
_INSTALLED: Final = tuple(f"{sysconfig.get_path(kind)}/" for kind in ("stdlib", "platstdlib"))


class SourceLine(msgspec.Struct, frozen=True):
    """A line of a file."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        where = f"{_short(self.file)}:{self.line}"
        return f"{where}: {self.text}" if self.text else where


def source_line(error: BaseException, file: str = "") -> SourceLine | None:
    """The last line of user code in the traceback; if all code is installed, the last line of
    `file`, or else the last that is not ours."""
    if isinstance(error, SyntaxError) and error.filename:
        return SourceLine(error.filename, error.lineno or 1, (error.text or "").strip())
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(_NOT_THEIRS)]
    chosen = (
        [frame for frame in theirs if not _is_installed(frame.filename)]
        or [frame for frame in theirs if frame.filename == file]
        or theirs
    )
    if not chosen:
        return None
    return SourceLine(chosen[-1].filename, chosen[-1].lineno or 1, (chosen[-1].line or "").strip())


def number_of(generator: object) -> int:
    """The number of the line that a generator has reached; 0: it is none, or it has ended."""
    frame = getattr(generator, "gi_frame", None) or getattr(generator, "ag_frame", None)
    return frame.f_lineno if frame else 0


def line_of(generator: object) -> SourceLine | None:
    """The line that a generator has reached."""
    frame = getattr(generator, "gi_frame", None) or getattr(generator, "ag_frame", None)
    return line_in(frame.f_code, frame.f_lineno) if frame else None


def line_in(code: CodeType, line: int) -> SourceLine:
    file = code.co_filename
    return SourceLine(file, line, linecache.getline(file, line).strip())


def line_of_stack(frames: Iterable[tuple[str, int]]) -> SourceLine | None:
    """The innermost line of user code that Skitter called, in a stack of files and lines, the
    outermost first; None: it runs no user code."""
    called = dropwhile(lambda frame: not frame[0].startswith(_OURS), frames)
    theirs = [one for one in called if not one[0].startswith(_NOT_THEIRS)]
    theirs = [one for one in theirs if not _is_installed(one[0])]
    if not theirs:
        return None
    file, line = theirs[-1]
    return SourceLine(file, line, linecache.getline(file, line).strip())


def describe(error: BaseException) -> str:
    """`ValueError: text`, on one line."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    first = text.strip().splitlines()[0] if text.strip() else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def trace(error: BaseException) -> str:
    """`ValueError: text (shop.py:3: line)`: what went wrong, and where the user can see it."""
    place = source_line(error)
    return f"{describe(error)} ({place})" if place else describe(error)


def _is_installed(filename: str) -> bool:
    # "<frozen os>": modules of the standard library that are built into the interpreter.
    return filename.startswith((*_INSTALLED, "<frozen ")) or "-packages/" in filename


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
