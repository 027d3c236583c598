"""Converts values in meta and cb_kwargs to plain data and back, without pickle.

JSON's types and bytes are kept as is. Some others keep their type under a tag: {"$tuple": [...]}.
Anything else is refused, naming its place, rather than silently changed.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter, is_item

from skitter.errors import UsageError
from skitter.scrapy.pickled import Foreign

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Packer = Callable[[Any, str], Any]
    Unpacker = Callable[[Any], Any]

_AS_THEY_ARE = frozenset({type(None), bool, float, str, bytes})
_LARGEST = 2**63


class NotPlain(UsageError):
    """A value that cannot be sent to another node."""

    def __init__(self, where: str, value: object) -> None:
        kind = value.name if isinstance(value, Foreign) else _full_name(type(value))
        super().__init__(
            f"{where} is a {kind}, which cannot be sent to another node: pass plain values "
            "(text, numbers, bytes, lists, dicts, items, requests)."
        )


def refuse(value: Any, where: str) -> Any:
    """The default for values of unknown type."""
    raise NotPlain(where, value)


def pack(value: Any, where: str, other: Packer = refuse) -> Any:
    """The value as plain data; `other` packs unknown types. Raises NotPlain, naming the place."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is int:
        return value if -_LARGEST <= value < _LARGEST else {"$int": str(value)}
    if kind is list:
        return [pack(one, f"{where}[{i}]", other) for i, one in enumerate(value)]
    if kind is dict:
        return _pack_dict(value, where, other)
    if kind in _TEXTS:
        return {_TEXTS[kind][0]: _TEXTS[kind][1](value)}
    if kind in _GROUPS:
        return {_GROUPS[kind]: [pack(one, where, other) for one in value]}
    if isinstance(value, dict) and kind is not OrderedDict:
        return _pack_more_than_dict(value, where, other)
    if is_item(value):
        return {"$item": [name_of(kind), _pack_dict(dict(ItemAdapter(value)), where, other)]}
    if isinstance(value, str):  # e.g. what Selector.get returns, or a StrEnum
        return str(value)
    return other(value, where)


def unpack(value: Any, find: Callable[[str], type], other: Unpacker | None = None) -> Any:
    """The reverse. `find` returns an item class by name, or raises; `other` unpacks the value of
    the tag $other."""
    if type(value) is list:
        return [unpack(one, find, other) for one in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        [(tag, inner)] = value.items()
        if tag in _UNPACKERS:
            return _UNPACKERS[tag](unpack(inner, find, other))
        if tag == "$item":
            return find(inner[0])(**unpack(inner[1], find, other))
        if tag == "$dict":
            return {unpack(key, find, other): unpack(one, find, other) for key, one in inner}
        if tag == "$other" and other is not None:
            return other(inner)
    return {key: unpack(one, find, other) for key, one in value.items()}


def name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def find_class(name: str, *, home: str, is_fit: Callable[[type], bool]) -> type:
    """A class by name, from a loaded module or the project's own package `home`.

    A name from a database must not decide what is imported, still less what is called: some
    classes, such as Popen, act when instantiated. `is_fit` decides which may be.
    """
    module_name, _, path = name.partition(":")
    module = sys.modules.get(module_name)
    if module is None and _is_of(home, module_name):
        module = import_module(module_name)
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type) or not is_fit(found):
        raise UsageError(
            f"there is no item or request class {name} here: was it renamed, or is it from another "
            "project? The spider's module has to define it, or import it by name."
        )
    return found


def _is_of(home: str, module_name: str) -> bool:
    """Whether it is a module of that package, and no program: importing that would run it."""
    first, *rest = module_name.split(".")
    return first == home and "__main__" not in rest


def is_used(kind: type, home: str) -> bool:
    """Whether the project's own package defines the class, or imports it by name: libraries bring
    hundreds of others, and making an instance runs their code."""
    if kind.__module__.partition(".")[0] == home:
        return True
    ours = [one for name, one in [*sys.modules.items()] if name.partition(".")[0] == home]
    return any(vars(one).get(kind.__name__) is kind for one in ours)


def _pack_dict(value: Mapping[Any, Any], where: str, other: Packer) -> Any:
    plain = {}
    for key, one in value.items():
        if type(key) is not str or (len(value) == 1 and key.startswith("$")):
            return {
                "$dict": [
                    [pack(k, where, other), pack(v, f"{where}[{k!r}]", other)]
                    for k, v in value.items()
                ]
            }
        plain[key] = pack(one, f"{where}[{key!r}]", other)
    return plain


def _pack_more_than_dict(value: dict[Any, Any], where: str, other: Packer) -> Any:
    if type(value) is Counter:
        return {"$counter": _pack_dict(value, where, other)}
    if type(value) is defaultdict and value.default_factory in _FACTORIES.values():
        name = getattr(value.default_factory, "__name__", "")
        return {"$defaultdict": [name, _pack_dict(value, where, other)]}
    raise NotPlain(where, value)


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


#: Tag and serializer of each type.
_TEXTS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    datetime: ("$datetime", datetime.isoformat),
    date: ("$date", date.isoformat),
    time: ("$time", time.isoformat),
    timedelta: ("$timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    Decimal: ("$decimal", str),
}
_GROUPS: dict[type, str] = {tuple: "$tuple", set: "$set", frozenset: "$frozenset"}
#: Permitted default factories of a defaultdict.
_FACTORIES: dict[str, Callable[[], Any] | None] = {
    "": None,
    **{kind.__name__: kind for kind in (list, dict, set, int, float, str)},
}
_UNPACKERS: dict[str, Callable[[Any], Any]] = {
    "$int": int,
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$timedelta": lambda parts: timedelta(*parts),
    "$decimal": Decimal,
    "$counter": Counter,
    "$defaultdict": lambda pair: defaultdict(_FACTORIES[pair[0]], pair[1]),
}
