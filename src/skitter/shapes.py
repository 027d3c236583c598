"""The shape of a URL: what is left without its numbers, dates and names.

    https://shop.example/books/a-long-title_17?page=3  ->  shop.example/books/slug?page
    https://shop.example/calendar/2026/11/5            ->  shop.example/calendar/#

A program that generates endless pages does so in few shapes. docs/howto/traps.md describes their
budgets. Pure, and cheap enough to compute for every page (not for every link).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from zlib import crc32

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
    """`host/path?keys`, for a URL normalised by the frontier."""
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
