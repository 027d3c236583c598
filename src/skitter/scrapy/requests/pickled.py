"""Reads scrapy-redis pickles as data: no class that a pickle names is imported or called.

Anything but plain data becomes a `Foreign`, so that the rest of a request, above all its URL, can
still be read. Memory and work are bounded by the size of the pickle; with the C unpickler they are
not, as it trusts every length that a pickle states.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter, OrderedDict, defaultdict
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from skitter.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
