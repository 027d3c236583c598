"""Items: what a handler yields becomes a plain dict, and fits its declared type or is set aside.

Values stay what msgpack can carry: text, numbers, booleans, bytes, datetimes, lists and dicts;
decimals, dates, UUIDs and enums become text.
"""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from skitter.errors import BadOption, UsageError

Item = dict[str, Any]

_KEPT: Final = (bytes, bytearray, datetime)
_encode = msgspec.msgpack.Encoder().encode
_PATH: Final = re.compile(r"at `\$\.([^.`\[]+)")
_MISSING: Final = re.compile(r"missing required field `([^`]+)`")


class NotAnItem(UsageError):
    """A handler yielded something that is no data."""


class Rejected(msgspec.Struct, frozen=True):
    """An item that was kept aside, and why. `field` is empty if it is about the whole item."""

    item: Item
    field: str
    reason: str

    @property
    def why(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


def is_item(value: object) -> bool:
    return (
        isinstance(value, dict | msgspec.Struct)
        or (is_dataclass(value) and not isinstance(value, type))
        or hasattr(type(value), "model_dump")  # pydantic, without importing it
    )


def to_plain(value: Any) -> Item:
    """The item as a dict of plain values. Raises NotAnItem, naming the field that is no data."""
    if hasattr(type(value), "model_dump"):
        value = value.model_dump()
    try:
        plain = msgspec.to_builtins(value, builtin_types=_KEPT, str_keys=True)
    except TypeError as error:
        raise NotAnItem(_why_no_data(value, error)) from None
    if not isinstance(plain, dict):  # a msgspec struct with array_like=True
        raise NotAnItem(f"a {type(value).__name__} has no field names: yield a dict")
    return plain


def fit(item: Item, declared: Any) -> Item | Rejected:
    """The item if it can be stored and fits the type; what is wrong with it otherwise."""
    if declared is None:
        return _storable(item)
    if hasattr(declared, "model_validate"):
        fitted = _fit_pydantic(item, declared)
    else:
        fitted = _fit_msgspec(item, declared)
    return fitted if isinstance(fitted, Rejected) else _storable(fitted)


def check_item_type(declared: Any) -> None:
    """Raise BadOption for a type that items cannot be checked against."""
    if hasattr(declared, "model_validate"):
        return
    try:
        msgspec.convert({}, declared)
    except msgspec.ValidationError:
        return
    except (TypeError, NameError) as error:
        raise BadOption(
            "item", declared, f"a struct, dataclass, TypedDict or pydantic model ({error})"
        ) from None


def _fit_msgspec(item: Item, declared: Any) -> Item | Rejected:
    try:
        return to_plain(msgspec.convert(item, declared, builtin_types=_KEPT, str_keys=True))
    except msgspec.ValidationError as error:
        reason = str(error)
        found = _PATH.search(reason) or _MISSING.search(reason)
        return Rejected(item, found[1] if found else "", reason)


def _fit_pydantic(item: Item, declared: Any) -> Item | Rejected:
    try:
        return to_plain(declared.model_validate(item))
    except ValueError as error:  # pydantic's ValidationError is one
        details = getattr(error, "errors", None)
        if details is None:
            raise
        first = details()[0]
        return Rejected(item, str(first["loc"][0]) if first["loc"] else "", first["msg"])


def _storable(item: Item) -> Item | Rejected:
    try:
        _encode(item)
    except (ValueError, OverflowError) as error:  # half of an emoji, a number over 64 bits
        return _set_aside(item, error)
    return item


def _set_aside(item: Item, error: Exception) -> Rejected:
    safe, culprit = {}, ""
    for name, value in item.items():
        try:
            _encode((name, value))
            safe[name] = value
        except (ValueError, OverflowError):
            culprit = culprit or ascii(name)[1:-1]
            safe[ascii(name)[1:-1]] = ascii(value)
    return Rejected(safe, culprit, str(error))


def _why_no_data(value: Any, error: TypeError) -> str:
    fields = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    for name, content in fields.items():
        try:
            msgspec.to_builtins(content, builtin_types=_KEPT, str_keys=True)
        except TypeError:
            kind = type(content).__name__
            hint = ": take its .text()" if kind == "LexborNode" else ""
            return f"an item whose field {name!r} is a {kind}, which is no data{hint}"
    return f"a {type(value).__name__} that is no data ({error})"
