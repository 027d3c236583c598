"""Data to stdout, as a table for people or as JSON for programs; everything else to stderr."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skitter.model import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skitter.model import Stats

# Control characters, and those that reverse the writing: what strangers wrote must not steer the
# terminal. Rich lets ESC through.
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

ANY_WIDTH: Final = 100_000


class _Pipe(Console):
    """Rich itself would exit with 1 when a pipe breaks; main.py knows better."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


out = _Pipe(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def clean(text: str) -> str:
    """One line that a terminal can be trusted with."""
    return _UNSAFE.sub("\ufffd", re.sub(r"[\t\r\n]+", " ", text))


def emit_json(value: Any) -> None:
    """One JSON document. Dataclasses, structs and enums are fine."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def emit_line(value: Any) -> None:
    """One JSON document on one line, for streams of them."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def some(number: int, what: str) -> str:
    """1 page, 2 pages."""
    return f"{number:,} {what}" + "s" * (number != 1)


def say(text: str) -> None:
    """One line of an answer."""
    out.print(_safe(text))


def tell(text: str) -> None:
    """One line of progress."""
    err.print(_safe(text), style="dim")


def complain(text: str) -> None:
    """What went wrong, and what to do."""
    err.print(f"[bold red]skitter:[/] {_safe(text)}")


def pairs(rows: Iterable[tuple[str, object]]) -> None:
    """Names and values. A long value is never cut: the terminal wraps it."""
    lines = [(name, str(value)) for name, value in rows]
    width = max((len(name) for name, _ in lines), default=0)
    for name, value in lines:
        shown = _safe(value).replace("\n", "\n" + " " * (width + 2))
        out.print(f"[dim]{escape(name.ljust(width))}[/]  {shown}".rstrip())


def tell_state(stats: Stats) -> str:
    """What the operator wants, or how far it is."""
    if stats.state is State.CANCEL:
        return stats.state.value
    if stats.finished:
        return "finished"
    return "loading" if stats.crawled else stats.state.value


def grid(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table; numbers to the right. Off a terminal a row is a line, however long."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    kinds = [type(cell) for cell in rows[0]] if rows else []
    for i, name in enumerate(columns):
        number = i < len(kinds) and kinds[i] in (int, float)
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_safe(f"{cell:,}" if type(cell) is int else str(cell)) for cell in row))
    if not out.is_terminal:
        out.width = ANY_WIDTH
    out.print(table)


def _safe(text: str) -> str:
    return "\n".join(escape(clean(line)) for line in text.split("\n"))
