"""Turn the Lua files into callable scripts.

A verb is one file in lua/; its header is data. This module reads the header, joins the verb with
the lib files it includes, and names KEYS and ARGV for Lua:

    KEYS   due      zset   hosts that are due now            -> local due = KEYS[n]
    ARGV   limit    int    at most this many                 -> local limit = tonumber(ARGV[n])
    EACH   fp       text   repeated for every request        -> EACH.start and EACH.stride
    REST   links, then items                                 -> what follows EACH
    REPLY  ints     a code per request                       -> the return type, for verbs.pyi
    FLAGS  allow-oom                                         -> first line: #!lua flags=allow-oom

Lua creates every function and table of a script anew at each call, so a script contains only what
its verb may use: the lib functions it calls, the keys it names, and the job options it names as
`limits.name`. A lib with a line `--@if condition` runs only where that holds. What most calls do
without is included by `--@late lib`: such a lib offers functions only, and it is defined, with all
that only late libs need, when the first of them is called (ADR 100).

A lib file declares its KEYS and ARGV in the same way; a verb gets the union. Scripts are called by
SHA, which serves as the version: two releases can share a server.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from skitter.frontier.transport.keys import SHARD_KEYS
from skitter.settings import JOB_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: Arguments that identify the caller and the time; shard.py fills them in.
COMMON = ("now", "seq", "token", "vouched_ms")
#: The job options that scripts may read: fields of `control`.
LIMITS = tuple(option.field for option in JOB_OPTIONS if option.declared.in_lua)
#: The fields read as numbers, including those that scripts write themselves, and as text.
NUMBERS = (*LIMITS, "shift", "spare")
FACTS = ("bloom_blocks", "bloom_hashes", "born", "clock", "depths", "lifo")
#: Defaults of absent numbers; all others are infinite.
ABSENT = {"delay_ms": 0, "latency_factor": 0, "shift": 0, "spare": 0}
_LUA = Path(__file__).parents[1] / "lua"
_SECTION = re.compile(r"^(KEYS|ARGV|EACH|REST|FLAGS|REPLY|COST)\b")
_COLUMN = 7  # where names start; text further right continues the row above
_LOCAL = re.compile(r"^local (function )?(\w+(?:, \w+)*)(?=\(| = )", re.MULTILINE)
_FUNCTION = re.compile(r"^local function (\w+)\((?:.* end|[\s\S]*?^end)$\n?", re.MULTILINE)
_COMMENT = re.compile(r"--(?:\[\[[\s\S]*?\]\]|.*)")
_WORD = re.compile(r"\w+")
_LIMIT = re.compile(r"limits\.(\w+)")  # without \b: it is looked for at start-up
_CONDITION = re.compile(r"^--@if (.+)$", re.MULTILINE)
_INCLUDE = re.compile(r"^--@(include|late) (.+)$", re.MULTILINE)


class Code(IntEnum):
    """What scripts return per item. Lua sees the same names; the numbers exist only here."""

    SEEN = 0
    NEW = 1
    FULL = 2
    DEEP = 3
    CLOSED = 4
    LOST = 5
    DONE = 6
    RETRIED = 7
    BURIED = 8
    RELEASED = 9
    EXTENDED = 10


class Header(msgspec.Struct, frozen=True):
    """The comment at the top of a Lua file, parsed."""

    summary: str
    keys: tuple[str, ...]
    argv: tuple[tuple[str, str], ...]  # name, type
    each: tuple[tuple[str, str], ...]  # name, type
    rest: str
    flags: str
    reply: str  # its first word is a type
    cost: str


class Script(msgspec.Struct, frozen=True):
    """One verb, assembled and ready to load."""

    name: str
    header: Header
    source: str
    sha: str
    names: tuple[str, ...]  # of its ARGV
    known: frozenset[str]  # the same
    common: tuple[str, ...]  # those in COMMON

    def arguments(self, values: dict[str, object], each: Iterable[object]) -> list[object]:
        """ARGV in the header's order. A missing or extra name is a programming error."""
        if values.keys() != self.known:
            raise TypeError(f"{self.name} takes {list(self.names)}, got {sorted(values)}")
        return [*map(values.__getitem__, self.names), *each]


@cache
def script(name: str, *, strict: bool = False) -> Script:
    """The verb `name`. Strict: without allow-oom, for calls that use more memory."""
    header, code = _assemble(name)
    flags = "" if strict else header.flags
    source = f"#!lua flags={flags}\n{code}" if flags else f"#!lua\n{code}"
    sha = hashlib.sha1(source.encode()).hexdigest()
    names = tuple(name for name, _ in header.argv)
    common = tuple(name for name in names if name in COMMON)
    return Script(name, header, source, sha, names, frozenset(names), common)


@cache
def _assemble(name: str) -> tuple[Header, str]:
    """A verb without its flags line. Cached: assembling one takes a few milliseconds."""
    verb = _read(f"{name}.lua")
    early, late = ([_read(f"lib/{lib}.lua") for lib in libs] for libs in _includes(name))
    parts = _without_unused([*early, *late], verb)
    first, rest = parts[: len(early)], parts[len(early) :]
    shared = _shared(
        rest, [part.words for part in first if "--@late" in part.text] + [_words(verb)]
    )
    if not shared and late:  # only functions that this verb does not use call them
        late, first, rest = [], _without_unused(early, verb), []
    words = _words(verb).union(*(part.words for part in first))
    later = frozenset[str]().union(*(part.words for part in rest))
    header = _merge(verb, [*early, *late], words | later)
    # In a function of its own, the code finds these names without a search for each that uses one.
    code = [_prelude(name, header), _keys_and_codes(header, words), "return (function()"]
    if any("read_control" in part.words for part in first):
        code.append(_limits([*(part.text for part in [*first, *rest]), verb]))
    if shared:
        code.append(f"local {', '.join(shared)}")
    code += _enclosed(first, _words(verb) | later)
    if shared:
        code.append(_late(rest, shared, _keys_and_codes(header, later - words)))
    return header, "\n".join([*code, verb, "end)()"])


def verbs() -> list[str]:
    """The names of all verbs, sorted."""
    return sorted(entry.name[:-4] for entry in _LUA.iterdir() if entry.name.endswith(".lua"))


@cache
def read_header(text: str) -> Header:
    """Parse the `--[[ ... ]]` at the top of a Lua file."""
    comment = text[text.index("--[[") + 4 : text.index("]]")].strip("\n")
    rows: dict[str, list[str]] = {}
    section = "SUMMARY"
    for line in comment.splitlines():
        if match := _SECTION.match(line):
            section = match.group()
            line = line.replace(section, " " * len(section), 1)
        rows.setdefault(section, []).append(line)

    def words(name: str) -> list[list[str]]:
        return [row.split() for row in rows.get(name, []) if row[_COLUMN : _COLUMN + 1].strip()]

    def prose(name: str) -> str:
        return " ".join(line.strip() for line in rows.get(name, [])).strip()

    return Header(
        summary=prose("SUMMARY"),
        keys=tuple(row[0] for row in words("KEYS")),
        argv=tuple((row[0], row[1]) for row in words("ARGV")),
        each=tuple((row[0], row[1]) for row in words("EACH")),
        rest=prose("REST"),
        flags=prose("FLAGS"),
        reply=prose("REPLY"),
        cost=prose("COST"),
    )


def _read(path: str) -> str:
    return _text(_LUA, path)


@cache
def _text(folder: Path, path: str) -> str:
    return (folder / path).read_text(encoding="utf-8")


def _includes(name: str) -> tuple[list[str], list[str]]:
    """The lib files of a verb, each once and after its own includes: those that are always defined,
    and those that only late ones need."""
    verb = f"{name}.lua"
    early = set(_ordered(verb, lambda how, _: how == "include"))
    first = _ordered(verb, lambda how, lib: how == "include" or lib in early)
    every = _ordered(verb, lambda *_: True)
    return first, [lib for lib in every if lib not in early]


def _ordered(path: str, follows: Callable[[str, str], bool]) -> list[str]:
    """The libs that a file reaches, each after those that it needs itself."""
    order: list[str] = []

    def visit(path: str, trail: tuple[str, ...]) -> None:
        for how, lib in _included(_read(path)):
            if lib in trail:
                raise ValueError(f"lua/lib: {' -> '.join([*trail, lib])} is a circle")
            if follows(how, lib) and lib not in order:
                visit(f"lib/{lib}.lua", (*trail, lib))
                order.append(lib)

    visit(path, ())
    return order


@cache
def _included(text: str) -> list[tuple[str, str]]:
    return [(match[1], lib) for match in _INCLUDE.finditer(text) for lib in match[2].split()]


def _merge(verb: str, libs: list[str], words: frozenset[str]) -> Header:
    own = read_header(verb)
    headers = [own, *map(read_header, libs)]
    keys = dict.fromkeys(key for header in headers for key in header.keys)
    argv = dict.fromkeys(arg for header in headers for arg in header.argv)
    unknown = keys.keys() - SHARD_KEYS.keys()
    if unknown:
        raise ValueError(f"Lua names keys that keys.py does not know: {sorted(unknown)}")
    named = tuple(key for key in keys if key in words or key in own.keys)
    return msgspec.structs.replace(own, keys=named, argv=tuple(argv))


class _Part(NamedTuple):
    """What a verb needs of a lib."""

    text: str
    words: frozenset[str]


def _without_unused(libs: list[str], verb: str) -> list[_Part]:
    """Libs without unused functions: Lua creates each anew at every call of a script, which for a
    call with one URL costs more than the work itself."""
    uses: defaultdict[str, list[frozenset[str]]] = defaultdict(list)  # function -> what it names
    named = set(_words(verb))
    for lib in libs:
        outside, functions = _outline(lib)
        named |= outside
        for name, words in functions.items():
            uses[name].append(words)
    used: set[str] = set()
    while found := (uses.keys() & named) - used:
        used |= found
        named.update(*(words for name in found for words in uses[name]))
    return [_with(lib, frozenset(used & _outline(lib)[1].keys())) for lib in libs]


@cache
def _with(lib: str, functions: frozenset[str]) -> _Part:
    """A lib with only these functions."""
    outside, every = _outline(lib)
    text = _FUNCTION.sub(lambda match: match[0] if match[1] in functions else "", lib)
    return _Part(text, outside.union(*(every[name] for name in functions)))


@cache
def _outline(lib: str) -> tuple[frozenset[str], dict[str, frozenset[str]]]:
    """The words a lib uses outside its functions, and in each of them."""
    functions = {match[1]: _words(match[0]) for match in _FUNCTION.finditer(lib)}
    return _words(_FUNCTION.sub("", lib)), functions


@cache
def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(_without_comments(text)))


@cache
def _without_comments(text: str) -> str:
    return _COMMENT.sub("", text)


def _enclosed(
    parts: list[_Part], used: frozenset[str], shared: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Each lib in a block that exports only names used outside: Lua allows 200 local variables."""
    later = set(used)
    blocks: list[str] = []
    for text, words in reversed(parts):
        names = (match[2] for match in _LOCAL.finditer(text))
        shown = tuple(name for name in names if later & set(name.split(", ")))
        blocks.append(_block(text, shown, shared))
        later |= words
    return reversed(blocks)


@cache
def _block(lib: str, shown: tuple[str, ...], shared: frozenset[str]) -> str:
    """A lib in a block; only the names in `shown` are visible outside it. Those in `shared` have
    been declared."""

    def declare(one: re.Match[str]) -> str:
        return (one[1] or "") + one[2] if one[2] in shown else one[0]

    new = [name for name in shown if name not in shared]
    outside = f"local {', '.join(new)}\n" if new else ""
    condition = _CONDITION.search(lib)
    begin = f"if {condition[1]} then" if condition else "do"
    return f"{outside}{begin}\n{_LOCAL.sub(declare, lib)}end"


def _shared(parts: list[_Part], callers: list[frozenset[str]]) -> list[str]:
    """What late libs offer: functions, as the first call of one of them defines all."""
    words = frozenset[str]().union(*callers)
    found = (match for part in parts for match in _LOCAL.finditer(part.text))
    return [match[2] for match in found if match[1] and match[2] in words]


def _late(parts: list[_Part], shared: list[str], named: str) -> str:
    """Libs in a function that is called by the first call of one of those shared."""
    return "\n".join(
        [
            "local function define_late()",
            named,
            *_enclosed(parts, frozenset(shared), frozenset(shared)),
            "end",
            *(f"function {one}(...) define_late() return {one}(...) end" for one in shared),
        ]
    )


def _limits(texts: list[str]) -> str:
    """`read_control`, which reads the limits and facts that the code names."""
    asked = {name for text in texts for name in _LIMIT.findall(_without_comments(text))}
    limits, facts = sorted(asked.intersection(NUMBERS)), sorted(asked.intersection(FACTS))
    fields = ["state", "shards", *facts, *limits]
    read = {name: f"found[{i}]" for i, name in enumerate(fields, 1)}
    read |= {name: f"tonumber({read[name]}) or {ABSENT.get(name, 'math.huge')}" for name in limits}
    return (
        "local function read_control(control)"
        f" local found = redis.call('HMGET', control, {', '.join(map(repr, fields))})"
        f" return {{ {', '.join(f'{name} = {value}' for name, value in read.items())} }} end"
    )


def _prelude(name: str, header: Header) -> str:
    """Names for ARGV, on one line."""
    lines = [f"local verb = '{name}'"]
    for i, (arg, kind) in enumerate(header.argv, 1):
        lines.append(f"local {arg} = {f'tonumber(ARGV[{i}])' if kind == 'int' else f'ARGV[{i}]'}")
    if header.each:
        lines.append(
            f"local EACH = {{start = {len(header.argv) + 1}, stride = {len(header.each)}}}"
        )
    return "; ".join(lines)


def _keys_and_codes(header: Header, words: frozenset[str]) -> str:
    """Names for those KEYS and codes that the code names, on one line."""
    keys = [f"local {key} = KEYS[{i}]" for i, key in enumerate(header.keys, 1) if key in words]
    codes = [f"local {code.name} = {code.value}" for code in Code if code.name in words]
    return "; ".join([*keys, *codes])
