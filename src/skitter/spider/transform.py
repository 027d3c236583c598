"""Between the stream of items and the database: what the loader does to each item.

A transform takes an item, a dict, and returns the item to store, None to leave it out, or a list of
several. It may be a coroutine function. Several run one after the other.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from skitter.errors import SkitterError, SpiderError
from skitter.spider.blame import blame, describe
from skitter.spider.items import is_item, to_plain
from skitter.spider.load import find_in, find_spider, import_target

if TYPE_CHECKING:
    from pathlib import Path

Transform = Callable[[Any], Any]


class TransformFailed(SkitterError):
    """A transform of the user's raised, or returned what is no item."""


def load_transform(target: str | Path) -> Callable[[Any], Awaitable[Any]]:
    """The transforms of a spider, by its file; or one function, by `package.module:function`."""
    module, where, name = import_target(target)
    found = find_in(module, name)
    if callable(found):
        return chain([found])
    if name is not None and found is None:
        raise SpiderError(f"there is no function or spider {name!r} in {where}")
    spider = find_spider(module, where, name)
    if not spider.transforms:
        raise SpiderError(
            f"spider {spider.name!r} in {where} has no transform: decorate a function with "
            f"@spider.transform, or name a function: {where}:function"
        )
    return chain(spider.transforms)


def chain(transforms: Sequence[Transform]) -> Callable[[Any], Awaitable[Any]]:
    """All of them as one. An item that stays one keeps its id; of a list, each gets its own."""

    async def transform(item: Any) -> Any:
        items, is_list = [item], False
        for step in transforms:
            results = [await _apply(step, one) for one in items]
            is_list = is_list or any(isinstance(result, list) for result in results)
            items = [made for result in results for made in _each(step, result)]
        return items if is_list else next(iter(items), None)

    return transform


async def _apply(step: Transform, item: Any) -> Any:
    try:
        result = step(item)
        return await result if inspect.isawaitable(result) else result
    except Exception as error:
        place = blame(error, "")
        at = f" ({place})" if place else ""
        raise TransformFailed(f"transform {_name(step)} failed: {describe(error)}{at}") from error


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
