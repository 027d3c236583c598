"""What is shown on a terminal, by Rich: colours, and lines that wrap at words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from skitter.redact import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

ANY_WIDTH: Final = 100_000
INDENT: Final = 4


class _Pipe(Console):
    """By default, Rich exits with 1 when a pipe breaks; main.py handles it instead."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


# Without emoji: `:x:` in a URL is text.
out = _Pipe(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def plain(text: str, style: str = "") -> Text:
    """Untrusted text for Rich: no markup, no control characters."""
    return Text(clean(text), style=style)


def indented(text: str) -> None:
    """Print a detail of the line above; it stays indented when it wraps."""
    out.print(Padding(plain(text, "dim"), (0, 0, 0, INDENT), expand=False), soft_wrap=False)


def remark(label: str, text: str, *, style: str) -> None:
    """Print a line that begins with a coloured word."""
    wrapped(out, text, before=f"[{style}]{label}[/]  ")


def wrapped(console: Console, text: str, *, before: str = "", style: str = "") -> None:
    """Print a line. Wrap at words on a terminal, which would break lines anywhere. Do not wrap
    elsewhere, nor if a URL is longer than a line, so that it can be copied."""
    line = before + _safe(text)
    fits = all(len(word) <= console.width for word in line.split())
    console.print(line, style=style, soft_wrap=not (console.is_terminal and fits))


def pairs(lines: Sequence[tuple[str, str]], width: int) -> None:
    for name, value in lines:
        folded = "\n".join(_folded(line, out.width - width - 2) for line in value.split("\n"))
        shown = _safe(folded).replace("\n", "\n" + " " * (width + 2))
        out.print(f"[dim]{escape(name.ljust(width))}[/]  {shown}".rstrip())


def _folded(line: str, width: int) -> str:
    """Wrapped at words, under the same conditions as in `wrapped`."""
    if not out.is_terminal or any(len(word) > width for word in line.split()):
        return line
    return "\n".join(part.plain.rstrip() for part in Text(clean(line)).wrap(out, width))


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, number in zip(columns, numbers, strict=True):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(plain, row))  # a line break would look like another row
    if not out.is_terminal:
        out.width = ANY_WIDTH
    out.print(table)


def _safe(text: str) -> str:
    return "\n".join(escape(clean(line)) for line in text.split("\n"))
