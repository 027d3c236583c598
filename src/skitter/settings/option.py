"""How an option is declared, once: its type, default, range and help.

    delay_s: float = option(1.0, "Seconds between requests to one host.", low=0, high=86_400)

A table is a frozen dataclass of such fields. TOML keys, environment variables, flags, fields on the
server, messages and the reference page are derived from the declarations.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from skitter.errors import BadOption

NO_LIMIT = "none"  # how text spells None
TRUTHS = {"true": True, "yes": True, "on": True, "1": True}
TRUTHS |= {"false": False, "no": False, "off": False, "0": False}


UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def seconds_of(option: str, text: str) -> float:
    """6h, 90m, 2d or a number of seconds. Raises BadOption."""
    found = re.fullmatch(r"(\d{1,9})([smhdw]?)", text.strip())
    if not found or not int(found[1]):
        raise BadOption(option, text, "an interval such as 6h, 90m or 2d")
    return float(int(found[1]) * UNITS[found[2] or "s"])


SUFFIXES = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9}


def number_of(option: str, text: str) -> int:
    """50000, 200K, 10M or 1B. Raises BadOption."""
    found = re.fullmatch(r"(\d{1,12})([KMBG]?)", text.strip().upper().replace(",", ""))
    if not found or not int(found[1]):
        raise BadOption(option, text, "a number such as 50000, 200K or 10M")
    return int(found[1]) * SUFFIXES[found[2]]


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What a declaration says besides the type and the default."""

    help: str
    low: float | None = None
    high: float | None = None
    flag: str = ""  # may list aliases; empty: derived from the name, for options of a job only
    variable: str = ""  # in the environment; empty: SKITTER_TABLE_NAME
    field: str = ""  # on the server; empty: the option's name, in milliseconds if it is in seconds
    host: str = ""  # the per-host option of the same meaning; empty: there is none
    in_lua: bool = True  # read by scripts; otherwise only by workers
    takes: str = ""  # what it accepts, if the type does not tell
    secret: bool = False
    bare: str = ""  # the value of its flag without one; empty: it needs one
    repeats: bool = False  # words with spaces between them: its flag may be given more than once
    some: bool = False  # of a list: at least one; a file may have a text, with commas and blanks


def option(default: Any, help: str, **facts: Any) -> Any:
    """A field of a table. `default` may be a factory function."""
    made = {"default_factory": default} if callable(default) else {"default": default}
    known = Declared(help=help, **facts)
    return field(**made, metadata={"option": known}, repr=not known.secret)


@dataclass(frozen=True, slots=True)
class Option:
    """One option, ready to be shown, read and checked."""

    name: str
    type: Any  # without None
    optional: bool  # None: no limit
    default: Any
    declared: Declared
    table: str = ""

    @property
    def key(self) -> str:
        """Its name in TOML and for -s: fetch.user_agent."""
        return f"{self.table}.{self.name}"

    @property
    def variable(self) -> str:
        return self.declared.variable or f"SKITTER_{self.table}_{self.name}".upper()

    @property
    def flag(self) -> str:
        """Also used by `set`, where every job option has a flag: --max-pages, --delay."""
        given = self.declared.flag.split(" ")[0]
        return given or "--" + self.name.removesuffix("_s").removesuffix("_mb").replace("_", "-")

    @property
    def in_ms(self) -> bool:
        """Options in seconds are stored in milliseconds on the server."""
        return self.name.endswith("_s")

    @property
    def field(self) -> str:
        """Its name on the server."""
        return self.declared.field or (f"{self.name[:-2]}_ms" if self.in_ms else self.name)

    @property
    def expected(self) -> str:
        """What it accepts, for messages and the reference."""
        return self._expected + (f", or {NO_LIMIT}" if self.optional else "")

    @property
    def _expected(self) -> str:
        if self.declared.takes:
            return self.declared.takes
        low, high = self.declared.low, self.declared.high
        if self.type in (int, float) and low is not None and high is not None:
            return expected_number(low, high, whole=self.type is int)
        if get_origin(self.type) is Literal:
            *first, last = filter(None, get_args(self.type))
            return f"{', '.join(first)} or {last}"
        return KINDS[get_origin(self.type) or self.type]

    def check(self, value: object) -> None:
        """Raise BadOption for a value of the wrong type or out of range."""
        if not (self.optional and value is None) and not self.takes(value):
            raise self.refuse(value)

    def refuse(self, value: object, name: str = "", expected: str | None = None) -> BadOption:
        shown = "(hidden)" if self.declared.secret else value
        return BadOption(name or self.name, shown, expected or self.expected)

    def takes(self, value: Any) -> bool:
        kind = get_origin(self.type) or self.type
        if kind is Literal:
            return value in get_args(self.type)
        if kind in (tuple, dict):
            return isinstance(value, kind) and all(isinstance(part, str) for part in _parts(value))
        if kind in (int, float):
            low, high = self.declared.low, self.declared.high
            assert low is not None
            assert high is not None
            return is_number(value, low=low, high=high, whole=kind is int)
        return isinstance(value, kind) and value != ""

    def parse(self, text: str, name: str = "") -> Any:
        """Parse the text of a flag or variable. Raises BadOption, which calls it `name`."""
        if self._is_none(text):
            return None
        kind = get_origin(self.type) or self.type
        try:
            value = tuple(self._split(text)) if kind is tuple else _PARSERS[kind](text)
            if self.declared.some and not value:
                raise ValueError(text)
            self.check(value)
        except (ValueError, KeyError, BadOption):
            raise self.refuse(text, name or self.key, TEXTS.get(get_origin(self.type))) from None
        return value

    def _split(self, text: str) -> Iterator[str]:
        return filter(None, map(str.strip, text.split(self.between)))

    @property
    def between(self) -> str:
        """What separates the values of a list in a text."""
        return ", " if self.declared.some else ","

    def accept(self, value: Any, name: str) -> Any:
        """Convert a value from a file. Raises BadOption, which calls it `name`."""
        if self._is_none(value):
            return None
        if self.type is Path and isinstance(value, str):
            value = _path(value)
        if self.declared.takes and type(value) is int:  # processes = 4
            value = str(value)
        if self.declared.some and isinstance(value, str):
            return self.parse(value, name)
        if get_origin(self.type) is tuple and isinstance(value, list):
            value = tuple(value)
        try:
            self.check(value)
        except BadOption:
            raise self.refuse(value, name) from None
        return value

    def _is_none(self, value: object) -> bool:
        return self.optional and isinstance(value, str) and value.lower() == NO_LIMIT


class Table:
    """A group of options, each checked on creation."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for one in options_of(type(self)):
            one.check(getattr(self, one.name))


def options_of(table: type, name: str = "") -> tuple[Option, ...]:
    """The options that a table declares; other fields are ignored."""
    return _read(table, name)


@cache
def _read(table: type, name: str) -> tuple[Option, ...]:
    hints = get_type_hints(table)
    return tuple(
        Option(one.name, *_without_none(hints[one.name]), _default(one), declared, name)
        for one in fields(table)
        if (declared := one.metadata.get("option"))
    )


def _default(one: Any) -> Any:
    return one.default_factory() if one.default is MISSING else one.default


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    [kind] = [argument for argument in get_args(hint) if argument is not types.NoneType]
    return kind, True


KINDS = {
    bool: "true or false",
    str: "text",
    Path: "a path",
    tuple: "a list of strings",
    dict: "a table of strings",
    int: "a whole number",
    float: "a number",
}
#: What is expected of the text of a flag or variable, where a file has something else.
TEXTS = {dict: "'NAME: VALUE', with a colon"}


def _parts(value: Any) -> list[object]:
    return [*value, *value.values()] if isinstance(value, dict) else list(value)


def _path(text: str) -> Path | str:
    """Path would turn an empty string into the working directory."""
    return Path(text) if text else text


#: A name, or a host with its port; after a port, the value begins with a space.
_PAIR = re.compile(r"\s*((?:[^:]+|\[[^\]]+\]):\d+(?=:\s)|[^:]*?)\s*:(.*)")


def _pairs(text: str) -> dict[str, str]:
    """Parse the form of headers: `Name: value`, one per line."""
    found = [_PAIR.fullmatch(line) for line in text.splitlines() if line.strip()]
    if not all(found):
        raise ValueError(text)
    return {pair[1]: pair[2].strip() for pair in found if pair}


_PARSERS: dict[Any, Any] = {
    bool: lambda text: TRUTHS[text.lower()],
    int: int,
    float: float,
    str: str,
    Literal: str,
    Path: _path,
    dict: _pairs,
}


def check_number(name: str, value: float, *, low: float, high: float, whole: bool = False) -> None:
    """Raise BadOption unless it is a number in the range; `whole`: without a fraction."""
    if not is_number(value, low=low, high=high, whole=whole):
        raise BadOption(name, value, expected_number(low, high, whole=whole))


def is_number(value: object, *, low: float, high: float, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return False
    return low <= value <= high


def expected_number(low: float, high: float, *, whole: bool) -> str:
    return f"{'a whole number' if whole else 'a number'} from {low:,} to {high:,.15g}"
