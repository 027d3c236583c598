"""Parses Scrapy's settings, which may be text from a command line; errors name the setting."""

from __future__ import annotations

import codecs
import math
from typing import TYPE_CHECKING, Any

from skitter.errors import BadOption, UsageError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


class Unusable(UsageError, ValueError):
    """A setting or an attribute that makes no sense: a ValueError, as in scrapy-redis."""


class BadValue(BadOption, Unusable):
    """The same for a value outside its range."""


def number(name: str, value: Any, *, low: float, high: float) -> float:
    """Raises BadOption, naming the setting."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not low <= found <= high:
        raise BadValue(name, value, f"a number from {low:,} to {high:,}")
    return found


def whole(name: str, value: Any, *, low: int, high: int) -> int:
    """Raises BadOption, naming the setting."""
    found = number(name, value, low=low, high=high)
    if not found.is_integer():
        raise BadValue(name, value, f"a whole number from {low:,} to {high:,}")
    return int(found)


def whole_setting(settings: BaseSettings, name: str) -> int:
    """0 if it is not set. Raises BadOption, naming it."""
    return whole(name, settings.get(name) or 0, low=0, high=10**7)


def fill(name: str, template: str, /, **values: str) -> str:
    """A key with its %(...)s filled in. Raises UsageError, naming the setting."""
    try:
        return template % values
    except (KeyError, TypeError, ValueError):
        known = " and ".join(f"%({one})s" for one in values)
        raise Unusable(
            f"{name} = {template!r} cannot be filled in: it may contain {known}, and "
            "%% for a literal %."
        ) from None


def encoding(name: str, value: Any) -> str:
    """Raises UsageError, naming the setting."""
    try:
        codecs.lookup(str(value))
    except LookupError:
        raise Unusable(
            f"{name} = {value!r} is not an encoding that Python knows: use utf-8, for example."
        ) from None
    return str(value)
