"""Values that spiders put into meta and cb_kwargs, as plain data and back, without pickle.

JSON's types and bytes are themselves. A few more keep their type under a tag: {"$tuple": [...]}.
Anything else is refused with the place where it stands, rather than changed in silence.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from datetime import date, datetime
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter, is_item

from skitter.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_AS_THEY_ARE = frozenset({type(None), bool, float, str, bytes})
_LARGEST = 2**63


class NotPlain(UsageError):
    """A value that cannot travel to another node."""

    def __init__(self, where: str, value: object) -> None:
        super().__init__(
            f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which cannot "
            "travel to another node: pass plain values (text, numbers, bytes, lists, dicts, items)."
        )


def pack(value: Any, where: str) -> Any:
    """The value as plain data. Raises NotPlain, naming the place."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is int:
        return value if -_LARGEST <= value < _LARGEST else {"$int": str(value)}
    if kind is list:
        return [pack(one, f"{where}[{i}]") for i, one in enumerate(value)]
    if kind is dict:
        return _pack_dict(value, where)
    if kind in _PACKERS:
        return _PACKERS[kind](value, where)
    if isinstance(value, dict) and kind is not OrderedDict:
        raise NotPlain(where, value)  # a defaultdict or Counter is more than what it holds
    if is_item(value):
        return {"$item": [name_of(kind), _pack_dict(dict(ItemAdapter(value)), where)]}
    if isinstance(value, str):  # e.g. what Selector.get returns, or a StrEnum
        return str(value)
    raise NotPlain(where, value)


def unpack(value: Any, find: Callable[[str], type]) -> Any:
    """The reverse. `find` gives the class of an item by its name, or refuses it."""
    if type(value) is list:
        return [unpack(one, find) for one in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        [(tag, inner)] = value.items()
        if tag in _UNPACKERS:
            return _UNPACKERS[tag](unpack(inner, find))
        if tag == "$item":
            return find(inner[0])(**unpack(inner[1], find))
        if tag == "$dict":
            return {unpack(key, find): unpack(one, find) for key, one in inner}
    return {key: unpack(one, find) for key, one in value.items()}


def name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def find_class(name: str, *, home: str, is_fit: Callable[[type], bool]) -> type:
    """A class by its name: of a module that is loaded, or of the project's own package `home`.

    A name that comes out of a database must not decide what is imported, and still less what is
    called: there are classes, such as Popen, that do things when they are made.
    """
    module_name, _, path = name.partition(":")
    module = sys.modules.get(module_name)
    if module is None and module_name.partition(".")[0] == home:
        module = import_module(module_name)
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type) or not is_fit(found):
        raise UsageError(
            f"there is no class {name} of items or requests here: was it renamed, or is it another "
            "project?"
        )
    return found


def _pack_dict(value: Mapping[Any, Any], where: str) -> Any:
    plain = {}
    for key, one in value.items():
        if type(key) is not str or (len(value) == 1 and key.startswith("$")):
            return {
                "$dict": [[pack(k, where), pack(v, f"{where}[{k!r}]")] for k, v in value.items()]
            }
        plain[key] = pack(one, f"{where}[{key!r}]")
    return plain


def _pack_all(tag: str) -> Callable[[Any, str], Any]:
    return lambda value, where: {tag: [pack(one, where) for one in value]}


_PACKERS: dict[type, Callable[[Any, str], Any]] = {
    tuple: _pack_all("$tuple"),
    set: _pack_all("$set"),
    frozenset: _pack_all("$frozenset"),
    datetime: lambda value, where: {"$datetime": value.isoformat()},
    date: lambda value, where: {"$date": value.isoformat()},
    Decimal: lambda value, where: {"$decimal": str(value)},
}
_UNPACKERS: dict[str, Callable[[Any], Any]] = {
    "$int": int,
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$decimal": Decimal,
}
