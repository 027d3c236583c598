"""What URLs look like: patterns that match them, and the shapes that they share.

URLs are written by strangers, and the patterns of a job may be, too. Python's `re` takes
exponential time for some pairs of them, so expressions are run by RE2, whose time is linear.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol
from zlib import crc32

from skitter.errors import BadOption

#: Of all patterns of an option: its characters, and its instructions in RE2. A URL of 8 KB then
#: takes 10 ms at the worst.
MAX_CHARACTERS: Final = 32_768
MAX_INSTRUCTIONS: Final = 2_000
# What RE2 spells otherwise, or would read as plain text: \Z and x{,3}; not inside of [...].
_OTHERWISE: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^]\\])*\]|\{,(?=\d*\})", re.DOTALL)
_SPELLED: Final = {r"\Z": r"\z", "{,": "{0,"}


class Pattern(Protocol):
    """A compiled pattern.

    Globs match the whole URL: `*` stands for any characters, everything else for itself, even `?`.
    One that begins with `/` is matched against path and query only. A pattern that begins with
    `re:` is a regular expression that may match anywhere in the URL.
    """

    def search(self, url: str, /) -> object:
        """Something true if the URL matches."""
        ...


class Glob(NamedTuple):
    """The pieces between the stars."""

    first: str
    middle: tuple[str, ...]
    last: str | None  # None: there is no star

    def search(self, url: str, /) -> bool:
        start = _path_of(url) if self.first[:1] == "/" else 0
        if self.last is None:
            return url[start:] == self.first
        if not url.startswith(self.first, start):
            return False
        at = start + len(self.first)
        for piece in self.middle:  # the first place where it fits is as good as any later one
            at = url.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return url.endswith(self.last, at)


def compile_pattern(pattern: str, *, option: str = "pattern") -> Pattern:
    """A pattern in a spider's code, which may look around and back if it must. Raises BadOption."""
    if not isinstance(pattern, str) or not pattern:
        raise BadOption(option, pattern, "globs or 're:...' as strings")
    if not pattern.startswith("re:"):
        return _glob(pattern)
    by_python = _by_python(pattern, option)
    try:
        return _linear(pattern)
    except ValueError:
        return by_python


@lru_cache(maxsize=64)
def compile_patterns(patterns: str, *, option: str = "pattern") -> tuple[Pattern, ...]:
    """Compile the patterns of a job, separated by spaces. Raises BadOption."""
    if len(patterns) > MAX_CHARACTERS:
        raise BadOption(option, patterns, f"at most {MAX_CHARACTERS:,} characters")
    found = tuple(_of_job(one, option) for one in patterns.split())
    if sum(getattr(pattern, "programsize", 0) for pattern in found) > MAX_INSTRUCTIONS:
        raise BadOption(option, patterns, "fewer or simpler regular expressions")
    return found


def first_match(patterns: str, url: str) -> str | None:
    """The first of several patterns that matches."""
    for text, pattern in zip(patterns.split(), compile_patterns(patterns), strict=True):
        if pattern.search(url):
            return text
    return None


def _of_job(pattern: str, option: str) -> Pattern:
    if not pattern.startswith("re:"):
        return _glob(pattern)
    _by_python(pattern, option)  # so that both read it alike, and errors are Python's
    try:
        return _linear(pattern)
    except ValueError as error:
        wanted = f"a regular expression without look-around and back-references ({error})"
        raise BadOption(option, pattern, wanted) from None


def _by_python(pattern: str, option: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern[3:])
    except (re.error, OverflowError) as error:
        raise BadOption(option, pattern, f"a regular expression ({error})") from None
    except RecursionError:
        raise BadOption(option, pattern, "a regular expression that is less nested") from None


def _linear(pattern: str) -> Pattern:
    """Raises ValueError for what takes backtracking."""
    import re2  # 5 ms, and few crawls have such a pattern

    options = re2.Options()
    options.log_errors, options.never_capture = False, True
    text = _OTHERWISE.sub(lambda found: _SPELLED.get(found[0], found[0]), pattern[3:])
    try:
        compiled: Any = re2.compile(text, options)
    except re2.error as error:
        said = error.args[0]
        raise ValueError(said.decode() if isinstance(said, bytes) else str(said)) from None
    return compiled  # type: ignore[no-any-return]


def _glob(pattern: str) -> Glob:
    first, *rest = pattern.split("*")
    return Glob(first, tuple(rest[:-1]), rest[-1]) if rest else Glob(first, (), None)


def _path_of(url: str) -> int:
    """Where the path of an http(s) URL begins; its end if it has none."""
    host = url.find("://") + 3
    path = url.find("/", host) if url.startswith(("http://", "https://")) else -1
    return path if path >= 0 else len(url)


#: Words at the start of a path tell which part of a site it is; later ones name things.
TELLING: Final = 2
LONGEST_WORD: Final = 20
MAX_SEGMENTS: Final = 8
LONGEST_PATH: Final = 64
MAX_KEYS: Final = 6
#: The shape of all paths of a host with repeating segments: /a/b/a/b/a/b.
REPEATED: Final = "(repeated)"
TIMES: Final = 3
LONGEST_PERIOD: Final = 4

_ID: Final = re.compile(r"[0-9a-f]{8,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-z]{16,}")
_DIGITS: Final = re.compile(r"\d+(?:[-_.:,]*\d+)*")


@lru_cache(maxsize=512)  # needed when a page is leased, and again when it is done
def shape_of(url: str) -> str:
    """`host/path?keys`: what is left of a URL without its numbers, dates and names.

        https://shop.example/books/a-long-title_17?page=3  ->  shop.example/books/slug?page
        https://shop.example/calendar/2026/11/5            ->  shop.example/calendar/#

    The URL is normalised by the frontier. A program that generates endless pages does so in few
    shapes; docs/howto/traps.md describes their budgets. Pure, and cheap enough to compute for every
    page (not for every link).
    """
    _, _, rest = url.partition("://")
    address, _, query = rest.partition("#")[0].partition("?")
    host, *path = address.split("/")
    path = [part.partition(";")[0].lower() for part in path[:LONGEST_PATH] if part]
    if is_repetitive(path):
        return f"{host}/{REPEATED}"
    shape = [host]
    for place, part in enumerate(path[:MAX_SEGMENTS]):
        kind = _kind_of(part, is_telling=place < TELLING)
        if kind != shape[-1]:
            shape.append(kind)
    return "/".join(shape) + (_keys_of(query) if query else "")


def number_of(shape: str) -> int:
    """32 bits, by which the frontier counts it."""
    return crc32(shape.encode("utf-8", "replace"))


def is_repetitive(path: list[str]) -> bool:
    """Whether a few segments occur three times in a row: a relative link that leads ever deeper."""
    if len(path) < TIMES or len(set(path)) == len(path):
        return False
    return any(
        path[start : start + period] * TIMES == path[start : start + TIMES * period]
        for period in range(1, min(LONGEST_PERIOD, len(path) // TIMES) + 1)
        for start in range(len(path) - TIMES * period + 1)
    )


@lru_cache(maxsize=512)  # a site has few folders
def _kind_of(part: str, *, is_telling: bool) -> str:
    if part.isalpha() and len(part) <= LONGEST_WORD:
        return part if is_telling else "w"
    if "%" in part or len(part) > 3 * LONGEST_WORD:
        return "slug"
    if _ID.fullmatch(part) and not part.isalpha() and not part.isdigit():
        return "id"
    part = _DIGITS.sub("#", part)
    if len(part) > LONGEST_WORD or part.count("-") + part.count("_") > 1:
        return "slug"
    return part if is_telling or part == "#" else "w"


def _keys_of(query: str) -> str:
    keys = {piece.partition("=")[0][:LONGEST_WORD] for piece in query.split("&", 100)}
    return "?" + "&".join(sorted(_DIGITS.sub("#", key) for key in keys)[:MAX_KEYS])
