"""Converts values in meta and cb_kwargs to plain data and back, without pickle.

JSON's types and bytes are kept as is. Others keep their type under a tag: {"$tuple": [...]}. Those
in `KINDS` are known by their class alone; items, enums, named tuples and dicts of the project's own
name their class. Anything else is refused, naming its place, rather than silently changed.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from importlib import import_module
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import scrapy.http
from itemadapter import ItemAdapter, is_item
from scrapy.http import Headers, Response, TextResponse

from skitter.errors import UsageError
from skitter.scrapy.requests.pickled import Foreign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


if TYPE_CHECKING:
    Packer = Callable[[Any, str], Any]
    Unpacker = Callable[[str, Any], Any]

_AS_THEY_ARE = frozenset({type(None), bool, float, str, bytes})
_LARGEST = 2**63
#: The most of a response that a request may carry.
MAX_BODY_BYTES: Final = 2**20
_RESPONSES = ("JsonResponse", "XmlResponse", "HtmlResponse", "TextResponse", "Response")
_PAGE_METHOD = "scrapy_playwright.page:PageMethod"


class NotPlain(UsageError):
    """A value that cannot be sent to another node."""

    def __init__(self, where: str, value: object) -> None:
        kind = value.name if isinstance(value, Foreign) else _full_name(type(value))
        super().__init__(
            f"{where} is a {kind}, which cannot be sent to another node: pass plain values "
            "(text, numbers, bytes, lists, dicts, items, requests), or say in SKITTER_META_TYPES "
            "how to make one of it."
        )


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of values: `pack` returns something simpler, which is packed in turn."""

    tag: str
    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]


def _texts(*kinds: type) -> Iterable[tuple[type, Kind]]:
    """Types that are written as text and read by their class."""
    return [(kind, Kind(f"${kind.__name__.lower()}", str, kind)) for kind in kinds]


def _iso(*kinds: type[date] | type[time]) -> Iterable[tuple[type, Kind]]:
    return [
        (kind, Kind(f"${kind.__name__}", lambda value: value.isoformat(), kind.fromisoformat))
        for kind in kinds
    ]


def _groups(*kinds: type) -> Iterable[tuple[type, Kind]]:
    return [(kind, Kind(f"${kind.__name__}", list, kind)) for kind in kinds]


#: Permitted default factories of a defaultdict.
_FACTORIES: dict[str, Callable[[], Any] | None] = {
    "": None,
    **{kind.__name__: kind for kind in (list, dict, set, int, float, str)},
}
KINDS: dict[type, Kind] = {
    **dict(_groups(tuple, set, frozenset)),
    **dict(_iso(datetime, date, time)),
    **dict(_texts(Decimal, UUID, Fraction, PurePosixPath, PureWindowsPath, ZoneInfo)),
    **dict(_texts(IPv4Address, IPv6Address, IPv4Network, IPv6Network)),
    type(Path()): Kind("$path", str, Path),
    complex: Kind("$complex", lambda value: [value.real, value.imag], lambda two: complex(*two)),
    bytearray: Kind("$bytearray", bytes, bytearray),
    range: Kind("$range", lambda one: [one.start, one.stop, one.step], lambda of: range(*of)),
    timezone: Kind("$timezone", lambda one: one.utcoffset(None), timezone),
    timedelta: Kind(
        "$timedelta",
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: timedelta(*parts),
    ),
    deque: Kind("$deque", lambda one: [list(one), one.maxlen], lambda two: deque(*two)),
    Counter: Kind("$counter", dict, Counter),
    OrderedDict: Kind("$ordereddict", dict, OrderedDict),
    defaultdict: Kind(
        "$defaultdict",
        lambda one: [getattr(one.default_factory, "__name__", ""), dict(one)],
        lambda two: defaultdict(_FACTORIES[two[0]], two[1]),
    ),
    Headers: Kind("$headers", lambda one: dict(one.items()), Headers),
}
_BY_TAG = {"$int": Kind("$int", str, int), **{kind.tag: kind for kind in KINDS.values()}}


def no_more(value: Any, where: str) -> Any:
    """No other types are known."""
    return NotImplemented


def pack(value: Any, where: str, other: Packer = no_more) -> Any:
    """The value as plain data. `other` packs types of its own, or returns NotImplemented. Raises
    NotPlain, naming the place."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is int:
        return value if -_LARGEST <= value < _LARGEST else {"$int": str(value)}
    if kind is list:
        return [pack(one, f"{where}[{i}]", other) for i, one in enumerate(value)]
    if kind is dict:
        return _pack_dict(value, where, other)
    if (known := KINDS.get(kind)) and not _makes_anything(value):
        return {known.tag: pack(known.pack(value), where, other)}
    if (packed := other(value, where)) is not NotImplemented:
        return packed
    return _pack_by_class(value, where, other)


def _makes_anything(value: Any) -> bool:
    """A defaultdict whose factory is the project's own."""
    return type(value) is defaultdict and value.default_factory not in _FACTORIES.values()


def _pack_by_class(value: Any, where: str, other: Packer) -> Any:
    """Values whose class has a name of its own."""
    kind = type(value)
    if isinstance(value, Enum):
        return {"$enum": [name_of(kind), value.value if isinstance(value, Flag) else value.name]}
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return {"$named": [name_of(kind), pack(list(value), where, other)]}
    if isinstance(value, dict) and kind is not defaultdict:
        return {"$mapping": [name_of(kind), _pack_dict(value, where, other)]}
    if is_item(value) and kind is not defaultdict:
        return {"$item": [name_of(kind), _pack_dict(dict(ItemAdapter(value)), where, other)]}
    if isinstance(value, Response):
        return {"$response": _pack_response(value, where)}
    if name_of(kind) == _PAGE_METHOD:
        parts = [value.method, list(value.args), value.kwargs]
        return {"$pagemethod": pack(parts, where, other)}
    if isinstance(value, str):  # e.g. what Selector.get returns
        return str(value)
    raise NotPlain(where, value)


def _pack_response(value: Response, where: str) -> list[Any]:
    """Without its request."""
    if len(value.body) > MAX_BODY_BYTES:
        raise UsageError(
            f"{where} is a response of {len(value.body):,} bytes, and a request may carry "
            f"{MAX_BODY_BYTES:,}: pass what you need of it."
        )
    names = [one.__name__ for one in type(value).__mro__ if one.__module__.startswith("scrapy.")]
    headers = {name.decode("latin-1"): values for name, values in value.headers.items()}
    coding = value.encoding if isinstance(value, TextResponse) else None
    kind = next(name for name in names if name in _RESPONSES)
    return [kind, value.url, value.status, headers, value.body, coding]


def unpack(value: Any, find: Callable[[str], type], other: Unpacker | None = None) -> Any:
    """The reverse. `find` returns a class by name, or raises; `other` unpacks what it packed, by
    tag, or returns NotImplemented."""
    if type(value) is list:
        return [unpack(one, find, other) for one in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        [(tag, inner)] = value.items()
        if tag in _BY_TAG:
            return _BY_TAG[tag].unpack(unpack(inner, find, other))
        if tag in _BY_CLASS:
            return _BY_CLASS[tag](find(inner[0]), unpack(inner[1], find, other))
        if tag == "$dict":
            return {unpack(key, find, other): unpack(one, find, other) for key, one in inner}
        if tag == "$response":
            return _unpack_response(*inner)
        if tag == "$pagemethod":
            return _unpack_page_method(*unpack(inner, find, other))
        if other is not None and (made := other(tag, inner)) is not NotImplemented:
            return made
    return {key: unpack(one, find, other) for key, one in value.items()}


#: How to make an instance of a class that was found by its name.
_BY_CLASS: dict[str, Callable[[Any, Any], Any]] = {
    "$item": lambda kind, fields: kind(**fields),
    "$mapping": lambda kind, fields: kind(fields),
    "$named": lambda kind, parts: kind(*parts),
    "$enum": lambda kind, one: kind(one) if issubclass(kind, Flag) else kind[one],
}


def _unpack_response(
    kind: str, url: str, status: int, headers: Any, body: bytes, coding: str | None
) -> Response:
    if kind not in _RESPONSES:
        raise UsageError(f"there is no response class {kind} in Scrapy.")
    more = {"encoding": coding} if coding else {}
    made: Response = getattr(scrapy.http, kind)(url, status, headers=headers, body=body, **more)
    return made


def _unpack_page_method(method: Any, args: Any, kwargs: Any) -> Any:
    """Not imported here: if the project does not use it, whoever wrote this is not the project."""
    module = sys.modules.get("scrapy_playwright.page")
    if module is None:
        raise UsageError("a PageMethod needs scrapy-playwright, which this spider does not import.")
    return module.PageMethod(method, *args, **kwargs)


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
    ours = [module for name, module in [*sys.modules.items()] if name.partition(".")[0] == home]
    return any(vars(module).get(kind.__name__) is kind for module in ours)


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


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
