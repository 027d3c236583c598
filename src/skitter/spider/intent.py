"""What the source of a handler shows: whether it is meant to yield items, and what it forgets to.

Only what is certain: a dict, or a call of a class, that is yielded, returned, or left standing
alone. Without the source, nothing is.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from typing import TYPE_CHECKING, Any

from skitter.model import Request
from skitter.spider.source_line import SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skitter.spider.spider import Spider

#: Methods of a page whose result is of no use unless it is yielded.
_FOLLOWS = frozenset({"follow", "follow_all"})


def wants_items(spider: Spider) -> bool:
    """Whether a spider is certainly meant to store something."""
    declared = spider.item is not None or spider.items or spider.hooks.item or spider.transforms
    return bool(declared) or any(map(_makes_items, spider.handlers.values()))


def not_yielded(handler: Callable[..., Any] | None) -> SourceLine | None:
    """The first line whose item or requests go nowhere."""
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
        return any(_is_item(one, names, known) for one in value.elts)
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
