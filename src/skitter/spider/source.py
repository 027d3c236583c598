"""Users' source code: the line that failed, and what a handler is meant to do."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import linecache
import sysconfig
import textwrap
import traceback
from contextlib import suppress
from functools import cache
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skitter.model import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType

    from skitter.spider.spider import Spider


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
    """The last line of user code in the traceback, without our own frames; if all code is
    installed, the last line of `file`, or else the last that is not ours."""
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


def full_trace(error: BaseException, *, with_locals: bool = False) -> list[str]:
    """The lines of a traceback, without our frames above the user's."""
    told = traceback.TracebackException.from_exception(error, capture_locals=with_locals)
    frames = list(dropwhile(lambda frame: frame.filename.startswith(_NOT_THEIRS), told.stack))
    if frames:
        told.stack = traceback.StackSummary.from_list(frames)
    return [line for part in told.format() for line in part.splitlines()]


def _is_installed(filename: str) -> bool:
    # "<frozen os>": modules of the standard library that are built into the interpreter.
    return filename.startswith((*_INSTALLED, "<frozen ")) or "-packages/" in filename


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


#: Methods of a page whose result is of no use unless it is yielded.
_FOLLOWS = frozenset({"follow", "follow_all"})


def wants_items(spider: Spider) -> bool:
    """Whether a spider is certainly meant to store something."""
    declared = spider.item is not None or spider.items or spider.hooks.item or spider.transforms
    return bool(declared) or any(map(_makes_items, spider.handlers.values()))


def not_yielded(handler: Callable[..., Any] | None) -> SourceLine | None:
    """The first line whose item or requests go nowhere.

    Only what is certain: a dict, or a call of a class, that is yielded, returned, or left standing
    alone. Without the source, nothing is.
    """
    function = _function(handler) if handler else None
    if function is None:
        return None
    names = _names(function.tree, function.globals)
    for node in _nodes(function.tree):
        if isinstance(node, ast.Expr) and (
            _is_item(node.value, names, function.globals) or _is_follow(node.value)
        ):
            line = function.first + node.lineno - 1
            return SourceLine(function.file, line, function.lines[node.lineno - 1].strip())
    return None


def _makes_items(handler: Callable[..., Any]) -> bool:
    function = _function(handler)
    if function is None:
        return False
    names = _names(function.tree, function.globals)
    values = (
        node.value
        for node in _nodes(function.tree)
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Return | ast.Expr) and node.value
    )
    return any(_is_item(value, names, function.globals) for value in values)


class _Function:
    """The source of a handler."""

    def __init__(self, handler: Callable[..., Any]) -> None:
        code = inspect.unwrap(handler)
        self.lines, self.first = inspect.getsourcelines(code)
        self.file = inspect.getsourcefile(code) or ""
        self.globals: dict[str, Any] = getattr(code, "__globals__", {})
        self.tree = ast.parse(textwrap.dedent("".join(self.lines))).body[0]


@cache
def _function(handler: Callable[..., Any]) -> _Function | None:
    try:
        return _Function(handler)
    except (OSError, TypeError, SyntaxError, ValueError, IndexError):  # no source, or not a def
        return None


def _nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Without those of functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _nodes(child)


def _names(function: ast.AST, known: dict[str, Any]) -> frozenset[str]:
    """Local names that hold an item."""
    return frozenset(
        target.id
        for node in _nodes(function)
        if isinstance(node, ast.Assign) and _is_item(node.value, frozenset(), known)
        for target in node.targets
        if isinstance(target, ast.Name)
    )


def _is_item(value: ast.expr, names: frozenset[str], known: dict[str, Any]) -> bool:
    if isinstance(value, ast.List):
        return any(_is_item(elt, names, known) for elt in value.elts)
    if isinstance(value, ast.ListComp | ast.GeneratorExp):
        return _is_item(value.elt, names, known)
    if isinstance(value, ast.Name):
        return value.id in names
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        made = known.get(value.func.id, dict if value.func.id == "dict" else None)
        return isinstance(made, type) and made is not Request and not issubclass(made, Exception)
    return isinstance(value, ast.Dict | ast.DictComp)


def _is_follow(value: ast.expr) -> bool:
    called = value.func if isinstance(value, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in _FOLLOWS


def version_of(spider: Spider) -> str:
    """Its name and a digest of the files of its handlers: the same for workers of one version."""
    files = set[str]()
    for handler in spider.handlers.values():
        with suppress(TypeError):  # not written in a file
            files.add(inspect.getsourcefile(inspect.unwrap(handler)) or "")
    digest = hashlib.sha256()
    for name in sorted(files, key=lambda file: Path(file).name):
        with suppress(OSError):
            digest.update(Path(name).read_bytes())
    return f"{spider.name} {digest.hexdigest()[:7]}" if files else spider.name
