"""Data to stdout, as a table for people or as JSON for programs; everything else to stderr.

What goes to a pipe or a file is written without Rich, whose import takes longer than most of it.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skitter.redact import UNSAFE, clean, redact_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TextIO


#: How long a command may be silent.
PATIENT_S: Final = 2.0
#: The option log.format, for lines on stderr that no terminal shows.
LINES: Final = ContextVar("skitter_lines", default="text")
#: The job that such lines are about; empty: a command of no job, such as `serve`.
ABOUT: Final = ContextVar("skitter_about", default="")
_NOT_ASCII: Final = re.compile(r"[^\x20-\x7e]")


def emit_json(value: Any) -> None:
    """Print one JSON document. Dataclasses, structs and enums are fine."""
    sys.stdout.write(_safe_json(msgspec.json.format(_json(value), indent=2)) + "\n")


def emit_line(value: Any) -> None:
    """Print one JSON document on one line, for streams of them."""
    sys.stdout.write(_safe_json(_json(value)) + "\n")


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=int)  # msgspec has no subclasses of int
    except UnicodeEncodeError:  # a lone surrogate, as file names may contain
        import json

        return json.dumps(msgspec.to_builtins(value, enc_hook=int)).encode()


def _safe_json(document: bytes) -> str:
    """The same document, with characters escaped that could control a terminal."""
    is_utf = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    odd = UNSAFE if is_utf else _NOT_ASCII
    return "\n".join(odd.sub(_as_escapes, line) for line in document.decode().split("\n"))


def _as_escapes(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def say(text: str) -> None:
    """Print one line of the answer."""
    if _is_terminal(sys.stdout):
        from skitter.cli.show import console

        console.wrapped(console.out, text)
    else:
        _write(sys.stdout, _formatted("info", text) or _cleaned(text))


def answer(value: Any, sentence: str, *, as_json: bool) -> None:
    """Print the sentence for people, or the value for programs."""
    if as_json:
        emit_json(value)
    else:
        say(sentence)


@contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """Say what we wait for if that takes longer than people do. In a thread: callers may block."""
    timer = threading.Timer(PATIENT_S, lambda: print_progress(f"Waiting for {what} ..."))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def print_progress(text: str) -> None:
    """Print one line of progress."""
    if _is_terminal(sys.stderr):
        from skitter.cli.show import console

        console.wrapped(console.err, text, style="dim")
    else:
        _write(sys.stderr, _formatted("info", text) or _cleaned(text))


def print_error(text: str) -> None:
    """Print what went wrong and what to do. It may quote what was typed, passwords included."""
    text = redact_text(text)
    if _is_terminal(sys.stderr):
        from skitter.cli.show import console

        console.wrapped(console.err, text, before="[bold red]skitter:[/] ")
    else:
        _write(sys.stderr, _formatted("error", text) or f"skitter: {_cleaned(text)}")


def _formatted(level: str, text: str) -> str:
    """As an object of JSON, if that is wanted."""
    if LINES.get() != "json":
        return ""
    line = {"at": time.time(), "level": level, "job": ABOUT.get(), "text": text}
    return _safe_json(_json(line))


def pairs(rows: Iterable[tuple[str, object]]) -> None:
    """Print names and values. A long value is never cut: on a terminal, it is wrapped."""
    lines = [(name, str(value)) for name, value in rows]
    width = max((len(name) for name, _ in lines), default=0)
    if LINES.get() == "json" and not _is_terminal(sys.stdout):
        for name, value in lines:
            _write(sys.stdout, _formatted("info", f"{name}: {value}" if name else value))
        return
    if _is_terminal(sys.stdout):
        from skitter.cli.show import console

        console.pairs(lines, width)
        return
    for name, value in lines:
        shown = _cleaned(value).replace("\n", "\n" + " " * (width + 2))
        _write(sys.stdout, name.ljust(width) + f"  {shown}".rstrip())


def grid(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table, numbers aligned right. Without a terminal, rows are never wrapped."""
    numbers = [type(cell) in (int, float) for cell in rows[0]] if rows else [False] * len(columns)
    shown = [[f"{cell:,}" if type(cell) is int else str(cell) for cell in row] for row in rows]
    # Rich knows how wide other scripts are.
    is_narrow = all(cell.isascii() for row in shown for cell in row)
    if _is_terminal(sys.stdout) or not is_narrow:
        from skitter.cli.show import console

        console.grid(columns, shown, numbers)
        return
    lines = [columns, *([clean(cell) for cell in row] for row in shown)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        cells = zip(line, widths, numbers, strict=True)
        padded = (cell.rjust(to) if number else cell.ljust(to) for cell, to, number in cells)
        _write(sys.stdout, "  ".join(padded))


def _is_terminal(stream: TextIO) -> bool:
    """Or should be treated as one: Rich decides how."""
    forced = os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE") == "1"
    return stream.isatty() or bool(forced)


def _write(stream: TextIO, line: str) -> None:
    stream.write(line + "\n")
    stream.flush()  # the order of lines on stdout and stderr is kept


def _cleaned(text: str) -> str:
    return "\n".join(map(clean, text.split("\n")))
