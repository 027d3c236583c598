"""Items: what a handler yields becomes a plain dict, and matches its declared type or is rejected.

Types that msgpack supports are kept: text, numbers, booleans, bytes, datetimes, lists and dicts;
decimals, dates, UUIDs and enums become text.
"""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from datetime import datetime
from functools import cache
from itertools import islice
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin

import msgspec

from skitter.errors import BadOption, UsageError, shorten
from skitter.frontier.completions import MAX_ITEM_BYTES
from skitter.frontier.transport.messages import NOT_PLAIN, cut

if TYPE_CHECKING:
    from collections.abc import Callable

Item = dict[str, Any]

#: How much of a rejected item is kept for display.
REJECTED_BYTES: Final = 16 * 1024
REJECTED_FIELDS: Final = 100
REJECTED_FIELD_CHARS: Final = 500
SHOWN_CHARS: Final = 60
DEEPEST: Final = 100

_KEPT: Final = (bytes, bytearray, datetime)
_NESTING: Final = frozenset({dict, list, tuple})
_encode = msgspec.msgpack.Encoder().encode
_PATH: Final = re.compile(r"at `\$\.([^.`\[]+)")
_MISSING: Final = re.compile(r"missing required field `([^`]+)`")


class NotAnItem(UsageError):
    """A handler yielded something that cannot be stored."""


class Rejected(msgspec.Struct, frozen=True):
    """A rejected item, and why. `field` is empty if the reason concerns the whole item."""

    item: Item
    field: str
    reason: str

    @property
    def why(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


def is_item(value: object) -> bool:
    return (
        isinstance(value, (dict, msgspec.Struct))
        or (is_dataclass(value) and not isinstance(value, type))
        or hasattr(type(value), "model_dump")  # pydantic, without importing it
    )


def to_plain(value: Any) -> Item:
    """The item as a dict of plain values. Raises NotAnItem, naming the offending field."""
    if type(value) is not dict and hasattr(type(value), "model_dump"):
        value = value.model_dump()
    try:
        plain = msgspec.to_builtins(value, builtin_types=_KEPT, str_keys=True)
    except TypeError as error:
        raise NotAnItem(_why_no_data(value, error)) from None
    except RecursionError:
        raise NotAnItem("an item that contains itself, or is nested far too deeply") from None
    if not isinstance(plain, dict):  # a msgspec struct with array_like=True
        raise NotAnItem(f"a {type(value).__name__} has no field names: yield a dict")
    return plain


def types_of(declared: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type; none if there is none."""
    if declared is None:
        return ()
    is_union = get_origin(declared) in (Union, UnionType)
    return (
        tuple(argument for argument in get_args(declared) if argument is not NoneType)
        if is_union
        else (declared,)
    )


def choose_type(item: Item, declared: Any, made: type) -> Any:
    """The type of a union that an item is of: its own class, or else the first that it fits, those
    with the most of its fields first."""
    types = types_of(declared)
    if len(types) < 2:
        return declared
    if made in types:
        return made
    ranked = sorted(types, key=lambda kind: len(undeclared(item, kind)))
    fitting = (kind for kind in ranked if not isinstance(fit(item, kind), Rejected))
    return next(fitting, ranked[0])


def name_of(declared: Any) -> str:
    """BookReview -> book_review."""
    name = getattr(declared, "__name__", str(declared))
    return re.sub(r"\W", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).lower()


def fit(item: Item, declared: Any) -> Item | Rejected:
    """The item converted to its type, or why it does not match."""
    if declared is None:
        return item
    fit_it = _fit_pydantic if hasattr(declared, "model_validate") else _fit_msgspec
    return fit_it(item, declared)


def undeclared(item: Item, declared: Any) -> list[str]:
    """The fields of an item that its type does not have: `fit` drops them."""
    names = _names_of(declared)
    return [] if names is None else [name for name in item if name not in names]


@cache
def _names_of(declared: Any) -> frozenset[str] | None:
    """The fields that a type accepts; None: any."""
    if hasattr(declared, "model_validate"):
        return _names_of_model(declared)
    try:
        info = msgspec.inspect.type_info(declared)
    except TypeError:  # pragma: no cover - check_item_type has refused it
        return None
    names: set[str] = set()
    for kind in info.types if isinstance(info, msgspec.inspect.UnionType) else (info,):
        fields = getattr(kind, "fields", None)
        if fields is None:
            return None  # a dict takes anything
        names |= {field.encode_name for field in fields} | {getattr(kind, "tag_field", None) or ""}
    return frozenset(names)


def _names_of_model(model: Any) -> frozenset[str] | None:
    """For pydantic models, without importing pydantic."""
    if model.model_config.get("extra") == "allow":
        return None
    names: set[str] = set()
    for name, field in model.model_fields.items():
        names |= {name, *(one for one in (field.alias, field.validation_alias) if one)}
        if field.validation_alias is not None and not isinstance(field.validation_alias, str):
            return None  # AliasPath and AliasChoices may refer to any field
    return frozenset(names)


def check_item_type(declared: Any) -> None:
    """Raises BadOption for a type that items cannot be checked against."""
    for kind in types_of(declared):
        if hasattr(kind, "model_validate"):
            continue
        try:
            msgspec.convert({}, kind)
        except msgspec.ValidationError:
            pass
        except (TypeError, NameError) as error:
            raise BadOption(
                "item", declared, f"a struct, dataclass, TypedDict or pydantic model ({error})"
            ) from None
    names = [name_of(kind) for kind in types_of(declared)]
    if len(set(names)) < len(names):
        raise BadOption("item", declared, "types whose names differ, by more than capitals")


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


def storable(item: Item) -> tuple[Item | Rejected, int]:
    """The item and its size, or Rejected if the frontier or the loader could not handle it."""
    try:
        size_bytes = len(_encode(item))
    except NOT_PLAIN as error:  # half of an emoji, a number over 64 bits
        return Rejected(item, _first(item, _is_not_plain), str(error)), 0
    if _is_deep(item):
        return Rejected(item, _first(item, _is_deep), f"it is nested over {DEEPEST} levels deep"), 0
    if size_bytes > MAX_ITEM_BYTES:
        culprit = max(item, key=lambda name: len(_encode(item[name])))
        reason = f"the item is {size_bytes:,} bytes, the limit is {MAX_ITEM_BYTES:,}"
        return Rejected(item, culprit, reason), 0
    return item, size_bytes


def keepable(rejected: Rejected) -> Rejected:
    """A rejected item in a form that can be stored: long values are truncated, and values that
    cannot be encoded become ASCII."""
    if _is_short(rejected.item):
        item = rejected.item
    else:
        fields = islice(rejected.item.items(), REJECTED_FIELDS)
        item = {_spelled(name): _kept(value) for name, value in fields}
    return Rejected(item, _spelled(rejected.field), cut(rejected.reason))


def _kept(value: Any) -> Any:
    if _is_short(value):
        return value
    if isinstance(value, str) and not _is_not_plain(value):
        return shorten(value, REJECTED_FIELD_CHARS)
    try:
        return shorten(ascii(value), REJECTED_FIELD_CHARS)
    except RecursionError:
        return f"a {type(value).__name__}, nested too deeply to be shown"


def shown(value: Any) -> str:
    """A value in a sentence."""
    return shorten(repr(_kept(value)), SHOWN_CHARS)


def _is_short(value: Any) -> bool:
    return not _is_not_plain(value) and len(_encode(value)) <= REJECTED_BYTES


def _spelled(text: str) -> str:
    return ascii(text)[1:-1] if _is_not_plain(text) else text


def _first(item: Item, is_bad: Callable[[Any], bool]) -> str:
    return next((name for name, value in item.items() if is_bad((name, value))), "")


def _is_not_plain(value: Any) -> bool:
    try:
        _encode(value)
    except NOT_PLAIN:
        return True
    return _is_deep(value)


def _is_deep(value: Any) -> bool:
    """Whether it is nested so deeply that a reader with less of Python's stack left could not
    decode it: JSON nested 900 deep would crash the loader."""
    level = [value] if type(value) in _NESTING else []
    for _ in range(DEEPEST):
        level = [
            one
            for outer in level
            for one in (outer.values() if isinstance(outer, dict) else outer)
            if type(one) in _NESTING  # no subclasses: they come from `to_plain`
        ]
        if not level:
            return False
    return True


def _why_no_data(value: Any, error: TypeError) -> str:
    fields = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    for name, content in fields.items():
        try:
            msgspec.to_builtins(content, builtin_types=_KEPT, str_keys=True)
        except TypeError:
            kind = type(content).__name__
            hint = ": take its .text()" if kind == "LexborNode" else ""
            return f"an item whose field {name!r} is a {kind}, which cannot be stored{hint}"
    return f"a {type(value).__name__} that cannot be stored ({error})"
