"""Arguments of a spider: the parameters of the function that makes it.

    def spider(category: str = "all", pages: int = 3) -> Spider: ...

`skitter run books.py -a pages=5` calls it with what is given, as the types say.
"""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

import msgspec

from skitter.errors import SpiderError, shorten
from skitter.spider.spider import Spider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def makes_spiders(found: object) -> bool:
    """Whether it is a function that says that it returns a spider."""
    returns = getattr(found, "__annotations__", {}).get("return")
    return inspect.isfunction(found) and returns in (Spider, "Spider", "skitter.Spider")


def typed_arguments(
    function: Callable[..., Spider], given: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """What the function is called with. Raises SpiderError for an unknown name, a missing one, or
    a value of another type."""
    parameters = inspect.signature(function).parameters
    for name in given:
        if name not in parameters:
            close = get_close_matches(name, parameters, n=1)
            hint = f"did you mean {close[0]}?" if close else f"it takes {_listed(parameters)}."
            raise SpiderError(f"the spider in {where} has no argument {name!r}: {hint}")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in given:
            raise SpiderError(f"the spider in {where} needs an argument: add -a {name}=VALUE.")
    hints = get_type_hints(function)
    return {name: _convert(name, value, hints.get(name, str)) for name, value in given.items()}


def _convert(name: str, value: Any, hint: Any) -> Any:
    if isinstance(value, str) and get_origin(hint) in (list, tuple, set, frozenset):
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        return msgspec.convert(value, hint, strict=False, dec_hook=lambda kind, one: kind(one))
    except (msgspec.ValidationError, ValueError, TypeError):
        kind = getattr(hint, "__name__", str(hint)) if get_origin(hint) is None else str(hint)
        shown = shorten(repr(value))
        raise SpiderError(f"the spider's argument {name} must be {kind}, got {shown}.") from None


def _listed(parameters: Mapping[str, Any]) -> str:
    return ", ".join(parameters) or "none"
