"""Values as plain data, and scrapy-redis pickles read as such.

Reads scrapy-redis pickles as data: no class that a pickle names is imported or called.

Anything but plain data becomes a `Foreign`, so that the rest of a request, above all its URL, can
still be read. Memory and work are bounded by the size of the pickle; with the C unpickler they are
not, as it trusts every length that a pickle states.

Converts values in meta and cb_kwargs to plain data and back, without pickle.

JSON's types and bytes are kept as is. Others keep their type under a tag: {"$tuple": [...]}. Those
in `KINDS` are known by their class alone; items, enums, named tuples and dicts of the project's own
name their class. Anything else is refused, naming its place, rather than silently changed.
"""

from __future__ import annotations

import io
import pickle
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
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import scrapy.http
from itemadapter import ItemAdapter, is_item
from scrapy.http import Headers, Response, TextResponse

from skitter.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


MAX_BYTES = 8 * 1024 * 1024
#: A pickle may refer to one value many times; this limits the values when all are expanded.
MAX_PARTS = 1_000_000


class PickleTooBig(UsageError):
    """Larger than any request of a spider."""

    def __init__(self) -> None:
        super().__init__(
            f"the entry is over {MAX_BYTES:,} bytes, or expands to over {MAX_PARTS:,} values: too "
            "big for a request."
        )


class Foreign:  # not a dataclass, which would count as an item
    """An object of a class that is not loaded: only the class name is known."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _ignore(self, *parts: Any) -> None:
        """Discard what the pickle puts into it."""

    __setitem__ = append = extend = add = update = _ignore


class _Name(Foreign):
    """A class as a pickle names it."""


def _text(value: str) -> str:
    return str(value) if isinstance(value, str) else _no("text made of another type")


def _grouped(factory: Any = None) -> defaultdict[Any, Any]:
    kinds = {f"builtins.{kind.__name__}": kind for kind in (list, dict, set, int, float, str)}
    if factory is None:
        return defaultdict(None)
    return defaultdict(
        kinds.get(getattr(factory, "name", "")) or _no("a defaultdict of another type")
    )


def _no(what: str) -> Any:
    raise UsageError(f"the entry cannot be read: its pickle contains {what}.")


#: Permitted calls, by the name in the pickle. A CrawlSpider's link_text is lxml's text class.
_MAKERS: dict[str, Callable[..., Any]] = {
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "collections.defaultdict": _grouped,
    "decimal.Decimal": Decimal,
    "lxml.etree._ElementUnicodeResult": _text,
    "markupsafe.Markup": _text,
    **{f"datetime.{kind.__name__}": kind for kind in (date, datetime, time, timedelta, timezone)},
}


class _Reader(pickle._Unpickler):  # the pure-Python one
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)
    stack: list[Any]
    read: Callable[[int], bytes]

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.parts_left = MAX_PARTS
        #: By its id; with the tuple itself, as the ids of values that are gone are used again.
        self.weights: dict[int, tuple[int, tuple[Any, ...]]] = {}

    def find_class(self, module: str, name: str) -> _Name:
        return _Name(f"{module}.{name}")

    def make(self) -> None:
        args = self.stack.pop()
        named = self.stack[-1]
        if not isinstance(named, _Name):
            _no("a call of anything but a class")
        for one in args:
            self.spend(len(one) if hasattr(one, "__len__") else 1)
            self.hash_all(one if isinstance(one, list | tuple) else ())
        maker = _MAKERS.get(named.name)
        self.stack[-1] = maker(*args) if maker else Foreign(named.name)

    def make_with_names(self) -> None:
        names = self.stack.pop()
        self.make()
        if names:
            _no("a call with keyword arguments")

    def build(self) -> None:
        self.stack.pop()  # attributes: plain values have none

    def byte_array(self) -> None:
        """The library makes room for any length that is stated."""
        length = int.from_bytes(self.read(8), "little")
        if length > MAX_BYTES:
            _no("a bytearray that is longer than itself")
        self.stack.append(bytearray(self.read(length)))

    def refuse(self) -> None:
        _no("an object of an old protocol")

    def weigh(self) -> None:
        """A tuple is hashed with all that is in it: 60 of them, each with the one before in it
        twice, are hashed for ever. For an ordinary one this is its length."""
        made = self.stack[-1]
        weight = len(made) + sum(self.weight_of(each) for each in made)
        if weight > MAX_PARTS:
            raise PickleTooBig
        self.weights[id(made)] = weight, made

    def weight_of(self, one: Any) -> int:
        return self.weights.get(id(one), (0,))[0]

    def hash_all(self, keys: Iterable[Any]) -> None:
        self.spend(sum(map(self.weight_of, keys)))

    def spend(self, parts: int) -> None:
        self.parts_left -= parts
        if self.parts_left < 0:
            raise PickleTooBig


def _weighing(load: Callable[[Any], None]) -> Callable[[Any], None]:
    def weighed(reader: _Reader) -> None:
        load(reader)
        reader.weigh()

    return weighed


def _hashing(load: Callable[[Any], None], keys: slice) -> Callable[[Any], None]:
    def counted(reader: _Reader) -> None:
        reader.hash_all(reader.stack[keys])  # since the mark, or all
        load(reader)

    return counted


_TUPLES = (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3)
_HASHED = {
    pickle.SETITEM: slice(-2, -1),
    pickle.SETITEMS: slice(0, None, 2),
    pickle.DICT: slice(0, None, 2),
    pickle.ADDITEMS: slice(None),
    pickle.FROZENSET: slice(None),
}
_OLD = (pickle.INST, pickle.OBJ, pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.PERSID)
_Reader.dispatch |= {
    pickle.REDUCE[0]: _Reader.make,
    pickle.NEWOBJ[0]: _Reader.make,
    pickle.NEWOBJ_EX[0]: _Reader.make_with_names,
    pickle.BUILD[0]: _Reader.build,
    pickle.BYTEARRAY8[0]: _Reader.byte_array,
    **{code[0]: _Reader.refuse for code in (*_OLD, pickle.BINPERSID)},
    **{code[0]: _weighing(_Reader.dispatch[code[0]]) for code in _TUPLES},
    **{code[0]: _hashing(_Reader.dispatch[code[0]], keys) for code, keys in _HASHED.items()},
}


def read_pickle(data: bytes) -> Any:
    """Raises UsageError if it is not a pickle, or too big."""
    if len(data) > MAX_BYTES:
        raise PickleTooBig
    reader = _Reader(data)
    try:
        value = reader.load()
    except UsageError:
        raise
    except Exception as error:  # even a pickle of plain types may raise anything
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        raise UsageError(f"the entry cannot be read: {reason}") from error
    _check_unfolded(value, reader)
    return value


def _check_unfolded(value: Any, reader: _Reader) -> None:
    """Limit the expanded size: a value that is referenced twice is written out twice."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        reader.spend(1 + (len(one) // 100 if isinstance(one, str | bytes) else 0))
        if isinstance(one, dict):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += one


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
    Headers: Kind("$headers", lambda one: dict(one.items()), Headers),
}
_BY_TAG = {
    **{one.tag: one for one in KINDS.values()},
    "$int": Kind("$int", str, int),
    "$defaultdict": Kind(
        "$defaultdict",
        lambda one: [getattr(one.default_factory, "__name__", ""), dict(one)],
        lambda two: defaultdict(_FACTORIES[two[0]], two[1]),
    ),
}


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
    if known := KINDS.get(kind):
        return {known.tag: pack(known.pack(value), where, other)}
    if (packed := other(value, where)) is not NotImplemented:
        return packed
    return _pack_by_class(value, where, other)


def _pack_by_class(value: Any, where: str, other: Packer) -> Any:
    """Values whose class has a name of its own."""
    kind = type(value)
    if isinstance(value, Enum):
        return {"$enum": [name_of(kind), value.value if isinstance(value, Flag) else value.name]}
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return {"$named": [name_of(kind), pack(list(value), where, other)]}
    if kind is defaultdict and value.default_factory in _FACTORIES.values():
        known = _BY_TAG["$defaultdict"]
        return {known.tag: pack(known.pack(value), where, other)}
    if isinstance(value, dict) and kind not in (OrderedDict, defaultdict):
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


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
