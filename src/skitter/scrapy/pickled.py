"""Pickles of scrapy-redis, read as data: no class that a pickle names is imported or called.

What is not plain data becomes a `Foreign` in its place, so that the rest of a request, its URL
above all, can still be read. Memory and work are bounded by the size of the pickle. With the
unpickler in C they are not: it believes every length that a pickle states.
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
    from collections.abc import Callable

MAX_BYTES = 8 * 1024 * 1024
#: A pickle may name one value many times; what is made of those may hold so many parts in all.
MAX_PARTS = 1_000_000


class PickleTooBig(UsageError):
    """More than any request of a spider has."""

    def __init__(self) -> None:
        super().__init__(
            f"the entry is over {MAX_BYTES:,} bytes, or unfolds to over {MAX_PARTS:,} values: too "
            "much for a request."
        )


class Foreign:  # not a dataclass, which would count as an item
    """Something of a class that is not read: only its name is known."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _ignore(self, *parts: Any) -> None:
        """What the pickle puts into it."""

    __setitem__ = append = extend = add = update = _ignore


class _Name(Foreign):
    """A class as a pickle names it."""


def _text(value: str) -> str:
    return str(value) if isinstance(value, str) else _no("text")


def _grouped(factory: Any = None) -> defaultdict[Any, Any]:
    kinds = {f"builtins.{kind.__name__}": kind for kind in (list, dict, set, int, float, str)}
    if factory is None:
        return defaultdict(None)
    return defaultdict(kinds.get(getattr(factory, "name", "")) or _no("a defaultdict"))


def _no(what: str) -> Any:
    raise UsageError(f"the entry cannot be read: it makes {what} of something else.")


#: What is called, by the name in the pickle. lxml's text is what a CrawlSpider has in link_text.
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


class _Reader(pickle._Unpickler):  # the one that is written in Python
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)
    stack: list[Any]

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.parts_left = MAX_PARTS

    def find_class(self, module: str, name: str) -> _Name:
        return _Name(f"{module}.{name}")

    def make(self) -> None:
        args = self.stack.pop()
        named = self.stack[-1]
        if not isinstance(named, _Name):
            _no("a call")
        for one in args:
            self.spend(len(one) if hasattr(one, "__len__") else 1)
        maker = _MAKERS.get(named.name)
        self.stack[-1] = maker(*args) if maker else Foreign(named.name)

    def make_with_names(self) -> None:
        names = self.stack.pop()
        self.make()
        if names:
            _no("a call with names")

    def build(self) -> None:
        self.stack.pop()  # attributes: plain values have none

    def refuse(self) -> None:
        _no("an object of an old protocol")

    def spend(self, parts: int) -> None:
        self.parts_left -= parts
        if self.parts_left < 0:
            raise PickleTooBig


_OLD = (pickle.INST, pickle.OBJ, pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.PERSID)
_Reader.dispatch |= {
    pickle.REDUCE[0]: _Reader.make,
    pickle.NEWOBJ[0]: _Reader.make,
    pickle.NEWOBJ_EX[0]: _Reader.make_with_names,
    pickle.BUILD[0]: _Reader.build,
    **{code[0]: _Reader.refuse for code in (*_OLD, pickle.BINPERSID)},
}


def read_pickle(data: bytes) -> Any:
    """The value. Raises UsageError for what is not a pickle, or too much."""
    if len(data) > MAX_BYTES:
        raise PickleTooBig
    reader = _Reader(data)
    try:
        value = reader.load()
    except UsageError:
        raise
    except Exception as error:  # a pickle of plain types may raise anything, too
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        raise UsageError(f"the entry cannot be read: {reason}") from error
    _check_unfolded(value, reader)
    return value


def _check_unfolded(value: Any, reader: _Reader) -> None:
    """A value that holds another twice is written out twice: how much would that be?"""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        reader.spend(1 + (len(one) // 100 if isinstance(one, str | bytes) else 0))
        if isinstance(one, dict):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += one
