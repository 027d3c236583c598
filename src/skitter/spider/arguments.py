"""Arguments of a spider: the parameters of the function that creates it.

    def spider(category: str = "all", pages: int = 3) -> Spider: ...

`skitter run books.py -a pages=5` calls it with the given values, converted to the declared types.
"""

from __future__ import annotations

import inspect
from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from skitter.errors import SpiderError, did_you_mean, shorten
from skitter.settings.option import KINDS, NO_LIMIT, TRUTHS
from skitter.spider.spider import Spider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def makes_spiders(found: object) -> bool:
    """Whether it is a function annotated to return a spider."""
    returns = getattr(found, "__annotations__", {}).get("return")
    return inspect.isfunction(found) and returns in (Spider, "Spider", "skitter.Spider")


def typed_arguments(
    function: Callable[..., Spider], given: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """The arguments to call the function with. Raises SpiderError for an unknown or missing name,
    or a value of the wrong type."""
    parameters = inspect.signature(function).parameters
    for name in given:
        if name not in parameters:
            hint = did_you_mean(name, parameters) or f"it takes {_listed(parameters)}."
            raise SpiderError(f"the spider in {where} has no argument {name!r}: {hint}")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in given:
            raise SpiderError(f"the spider in {where} needs an argument: add -a {name}=VALUE.")
    hints = get_type_hints(function, localns={"Spider": Spider})  # maybe imported for typing only
    return {name: _convert(name, value, hints.get(name, str)) for name, value in given.items()}


def _convert(name: str, value: Any, hint: Any) -> Any:
    spelled = _spelled(value, hint) if isinstance(value, str) else value
    try:
        return msgspec.convert(spelled, hint, strict=False, dec_hook=lambda kind, one: kind(one))
    except (msgspec.ValidationError, ValueError, TypeError):
        said = f"must be {_expected(hint)}, got {shorten(repr(value))}."
        raise SpiderError(f"the spider's argument {name} {said}") from None


def _spelled(text: str, hint: Any) -> Any:
    """Parses text like a setting: yes and no, none, comma-separated lists."""
    kinds = _kinds(hint)
    if NoneType in kinds and text.lower() == NO_LIMIT:
        return None
    if bool in kinds:
        return TRUTHS.get(text.lower(), text)
    if any((get_origin(kind) or kind) in (list, tuple, set, frozenset) for kind in kinds):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _expected(hint: Any) -> str:
    return " or ".join(map(_named, _kinds(hint)))


def _named(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " or ".join(str(one.value) for one in kind)
    if kind is NoneType:
        return NO_LIMIT
    return KINDS.get(kind, getattr(kind, "__name__", "")) if not get_origin(kind) else str(kind)


def _listed(parameters: Mapping[str, Any]) -> str:
    return ", ".join(parameters) or "none"
