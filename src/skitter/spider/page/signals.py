"""What a page asks of robots and users of its content: meta robots, X-Robots-Tag, AIPREF's
Content-Usage, TDM reservation. Pure.

    signal                                   means
    noindex, nofollow, none                  directives, which a crawl may obey
    noai                                     train-ai=n
    noimageai                                train-ai-images=n
    Content-Usage: train-ai=n, search=y      as it says
    tdm-reservation: 1                       tdm=n
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Headers with signals; most pages have none.
HEADERS: Final = frozenset({"x-robots-tag", "content-usage", "tdm-reservation"})
#: Where to look for <meta>: up to the end of the head, or without one in the first bytes.
HEAD_BYTES: Final = 64 * 2**10
BEGINNING_BYTES: Final = 4096
#: How many uses to read from one page: AIPREF has a handful.
MAX_USES: Final = 10

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
#: Directives with a value after a colon, which must not be taken for the name of a robot.
_WITH_VALUE: Final = frozenset(
    {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
)
_SPOKEN: Final = {"noai": "train-ai", "noimageai": "train-ai-images"}
Fields = tuple[tuple[str, str], ...]


def has_signals(headers: Fields, body: bytes) -> bool:
    """Whether a closer look is worthwhile. Called for every page, so it takes 5 us and looks only
    for the usual spelling."""
    for name, _ in headers:
        if name in HEADERS:
            return True
    end = body.find(b"</head", 0, HEAD_BYTES)
    end = end if end >= 0 else BEGINNING_BYTES
    if body.find(b"tdm-reservation", 0, end) >= 0:
        return True
    is_for_robots = body.find(b"robots", 0, end) >= 0
    return is_for_robots and (
        body.find(b"noai", 0, end) >= 0 or body.find(b"noimageai", 0, end) >= 0
    )


def directives(headers: Fields, metas: Fields, *, robot: str) -> frozenset[str]:
    """Directives for all robots or for us. `none` means noindex and nofollow."""
    words: set[str] = set()
    for name, value in headers:
        if name == "x-robots-tag":
            words.update(_for_us(value, robot))
    for name, value in metas:
        if name in ("robots", robot):
            words.update(_words(value))
    return frozenset(words | ({"noindex", "nofollow"} if "none" in words else set()))


def usage(
    headers: Fields, metas: Fields, said: Iterable[str], *, by_robots: str = ""
) -> dict[str, bool]:
    """Use -> whether it is allowed, for the uses mentioned. On conflict, it is not."""
    found: dict[str, bool] = {}
    for use, allowed in _uses(headers, metas, said, by_robots):
        if use in found or len(found) < MAX_USES:
            found[use] = found.get(use, True) and allowed
    return found


def spell(uses: dict[str, bool]) -> str:
    """`train-ai=n,search=y`"""
    return ",".join(f"{use}={'y' if allowed else 'n'}" for use, allowed in uses.items())


def _uses(
    headers: Fields, metas: Fields, said: Iterable[str], by_robots: str
) -> Iterator[tuple[str, bool]]:
    preferences = [by_robots, *(value for name, value in headers if name == "content-usage")]
    for preference in preferences:
        yield from _preferences(preference)
    for word, use in _SPOKEN.items():
        if word in said:
            yield use, False
    for name, value in (*headers, *metas):
        if name == "tdm-reservation" and value.strip() in ("0", "1"):
            yield "tdm", value.strip() == "0"


def _preferences(text: str) -> Iterator[tuple[str, bool]]:
    for part in text.lower().split(","):
        use, _, answer = (piece.strip() for piece in part.partition("="))
        answer = answer.partition(";")[0].strip()  # parameters of a structured field
        if _NAME.fullmatch(use) and answer in ("y", "n"):
            yield use, answer == "y"


def _for_us(value: str, robot: str) -> Iterator[str]:
    """`googlebot: noindex, nofollow` is for another robot."""
    name, colon, rest = value.lower().partition(":")
    if not colon or "," in name or name.strip() in _WITH_VALUE:
        return _words(value)
    return _words(rest) if name.strip() == robot else iter(())


def _words(value: str) -> Iterator[str]:
    return (word.strip() for word in value.lower().split(","))
