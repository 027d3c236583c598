"""Data to stdout, as a table for people or as JSON for programs; everything else to stderr."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# Control and bidi characters: text from the web must not control the terminal, and Rich lets ESC
# through. Lone surrogates: no stream can encode them.
_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

_NOT_ASCII: Final = re.compile(r"[^\x20-\x7e]")

ANY_WIDTH: Final = 100_000
INDENT: Final = 4


class _Pipe(Console):
    """By default, Rich exits with 1 when a pipe breaks; main.py handles it instead."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


# Without emoji: `:x:` in a URL is text.
out = _Pipe(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def clean(text: str) -> str:
    """One line that is safe for a terminal. It may still contain Rich markup."""
    return _UNSAFE.sub("\ufffd", re.sub(r"[\t\r\n]+", " ", text))


def plain(text: str, style: str = "") -> Text:
    """Untrusted text for Rich: no markup, no control characters."""
    return Text(clean(text), style=style)


def emit_json(value: Any) -> None:
    """Print one JSON document. Dataclasses, structs and enums are fine."""
    sys.stdout.write(_safe_json(msgspec.json.format(_json(value), indent=2)) + "\n")


def emit_line(value: Any) -> None:
    """Print one JSON document on one line, for streams of them."""
    sys.stdout.write(_safe_json(_json(value)) + "\n")


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, as file names may contain
        return json.dumps(msgspec.to_builtins(value)).encode()


def _safe_json(document: bytes) -> str:
    """The same document, with characters escaped that could control a terminal."""
    is_utf = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    odd = _UNSAFE if is_utf else _NOT_ASCII
    return "\n".join(odd.sub(_as_escapes, line) for line in document.decode().split("\n"))


def _as_escapes(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def say(text: str) -> None:
    """Print one line of the answer."""
    _wrapped(out, _safe(text))


def answer(value: Any, sentence: str, *, as_json: bool) -> None:
    """Print the sentence for people, or the value for programs."""
    if as_json:
        emit_json(value)
    else:
        say(sentence)


def indented(text: str) -> None:
    """Print a detail of the line above; it stays indented when it wraps."""
    out.print(Padding(plain(text, "dim"), (0, 0, 0, INDENT), expand=False), soft_wrap=False)


def print_progress(text: str) -> None:
    """Print one line of progress."""
    _wrapped(err, _safe(text), style="dim")


def print_error(text: str) -> None:
    """Print what went wrong and what to do."""
    _wrapped(err, f"[bold red]skitter:[/] {_safe(text)}")


def _wrapped(console: Console, text: str, style: str = "") -> None:
    """Wrap at words on a terminal, which would break lines anywhere. Do not wrap elsewhere, nor if
    a URL is longer than a line, so that it can be copied."""
    fits = all(len(word) <= console.width for word in text.split())
    console.print(text, style=style, soft_wrap=not (console.is_terminal and fits))


def remark(label: str, text: str, *, style: str) -> None:
    """Print a line that begins with a coloured word."""
    _wrapped(out, f"[{style}]{label}[/]  {_safe(text)}")


def pairs(rows: Iterable[tuple[str, object]]) -> None:
    """Print names and values. A long value is never cut: on a terminal, it is wrapped."""
    lines = [(name, str(value)) for name, value in rows]
    width = max((len(name) for name, _ in lines), default=0)
    for name, value in lines:
        folded = "\n".join(_folded(line, out.width - width - 2) for line in value.split("\n"))
        shown = _safe(folded).replace("\n", "\n" + " " * (width + 2))
        out.print(f"[dim]{escape(name.ljust(width))}[/]  {shown}".rstrip())


def _folded(line: str, width: int) -> str:
    """Wrapped at words, under the same conditions as in `_wrapped`."""
    if not out.is_terminal or any(len(word) > width for word in line.split()):
        return line
    return "\n".join(part.plain.rstrip() for part in Text(clean(line)).wrap(out, width))


def grid(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table, numbers aligned right. Without a terminal, rows are never wrapped."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    kinds = [type(cell) for cell in rows[0]] if rows else []
    for i, name in enumerate(columns):
        number = i < len(kinds) and kinds[i] in (int, float)
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        cells = (f"{cell:,}" if type(cell) is int else str(cell) for cell in row)
        table.add_row(*(plain(cell) for cell in cells))  # a line break would look like another row
    if not out.is_terminal:
        out.width = ANY_WIDTH
    out.print(table)


def _safe(text: str) -> str:
    return "\n".join(escape(clean(line)) for line in text.split("\n"))
