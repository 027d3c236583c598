"""Transforms: what the loader does to each item before storing it.

A transform takes an item, a dict, and returns the item to store, None to drop it, or a list of
several. Transforms run one after the other. Plain ones run in a thread and may block.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from skitter.errors import SkitterError, SpiderError
from skitter.spider.importing import find_spider, import_target, makes_spiders
from skitter.spider.items import is_item, to_plain
from skitter.spider.source import trace

if TYPE_CHECKING:
    from pathlib import Path

Transform = Callable[[Any], Any]


class TransformFailed(SkitterError):
    """A user's transform raised, or returned something that is not an item."""


def load_transform(target: str | Path, arguments: Mapping[str, Any] | None = None) -> Transform:
    """The transforms of a spider, by its file; or one function, by `package.module:function`."""
    module, where, name = import_target(target)
    found = getattr(module, name, None) if name else None
    if callable(found) and not makes_spiders(found):
        return chain([found])
    if name is not None and found is None:
        raise SpiderError(f"there is no function or spider {name!r} in {where}")
    spider = find_spider(module, where, name, arguments)
    if not spider.transforms:
        raise SpiderError(
            f"spider {spider.name!r} in {where} has no transform: decorate a function with "
            f"@spider.transform, or name a function: {where}:function"
        )
    return chain(spider.transforms)


def chain(transforms: Sequence[Transform]) -> Transform:
    """Combine them into one, which is async if any of them is."""
    return partial(_run_async if any(map(_is_async, transforms)) else _run, transforms)


@dataclass(slots=True)
class _Flow:
    """What one item has become so far."""

    items: list[Any]
    is_list: bool = False

    def take(self, step: Transform, results: list[Any]) -> None:
        self.is_list = self.is_list or any(isinstance(result, list) for result in results)
        self.items = [made for result in results for made in _each(step, result)]

    def end(self) -> Any:
        """A single item keeps its id; items of a list each get their own."""
        return self.items if self.is_list else next(iter(self.items), None)


def _run(transforms: Sequence[Transform], item: Any) -> Any:
    flow = _Flow([item])
    for step in transforms:
        with _blaming(step):
            results = [step(item) for item in flow.items]
        flow.take(step, results)
    return flow.end()


async def _run_async(transforms: Sequence[Transform], item: Any) -> Any:
    flow = _Flow([item])
    for step in transforms:
        with _blaming(step):
            results = [await _call(step, item) for item in flow.items]
        flow.take(step, results)
    return flow.end()


async def _call(step: Transform, item: Any) -> Any:
    return await (step(item) if _is_async(step) else asyncio.to_thread(step, item))


def _is_async(step: Transform) -> bool:
    return any(map(inspect.iscoroutinefunction, (step, getattr(step, "__call__", None))))  # noqa: B004


@contextmanager
def _blaming(step: Transform) -> Iterator[None]:
    try:
        yield
    except (Exception, SystemExit) as error:  # exit() in a transform must not end the loader
        raise TransformFailed(f"transform {_name(step)} failed: {trace(error)}") from error


def _each(step: Transform, result: Any) -> list[Any]:
    made = result if isinstance(result, list) else [] if result is None else [result]
    for one in made:
        if not is_item(one):
            raise TransformFailed(
                f"transform {_name(step)} returned a {type(one).__name__}: return a dict, None "
                "to leave the item out, or a list of dicts"
            )
    return [to_plain(one) for one in made]


def _name(step: Transform) -> str:
    return getattr(step, "__name__", repr(step))
