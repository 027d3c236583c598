"""Pages that would block the parser: for some of what HTML allows, its time is quadratic.

Measured on lexbor, while the event loop stands still: 100,000 nested <div>, 500 KB, 30 s; 200 KB of
attributes on one element, 1.5 s; 50 KB of unclosed <p><font color=...>, 3 million elements and a
gigabyte; 98 KB of <b> with 100 attributes each, then <p>x, which repeats them all, 4 GB. HTML has
too many such cases to list, so a page is *plain* if it is certain to be cheap, as nearly all are;
any other is tried first by `skitter.fetch.trial`, within limits.

Certain means: it has few tags, so that it does not matter how they are nested; no tag can have too
many attributes; and little formatting can be left open, which the parser would repeat in whatever
follows. The names of elements and rules are those of HTML 13.2.6.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

#: Below all of these any page is cheap, whatever it contains: 5,000 tags take 40 ms if each is
#: inside the one before. The last is tags times characters: each tag may repeat the attributes of
#: all formatting before it, at 40 bytes for a character.
FEW_TAGS, FEW_CHARS, FEW_COPIES = 5_000, 100_000, 4_000_000
#: Start tags times characters: as each end tag may look at all that is open, 70 ms.
FEW_STEPS: Final = 240_000_000
#: In longer texts tags are counted before they are parsed; in shorter ones counting saves nothing,
#: and costs a third of the time of parsing.
UNCOUNTED_CHARS: Final = 250_000
#: How often formatting with up to 20 attributes may be repeated: 3 KB each.
MAX_REPEATED: Final = 40_000
#: A second <body> adds its attributes to the first.
MAX_ROOTS: Final = 10

_ROOTS: Final = frozenset({"html", "head", "body"})
_SPACE: Final = r"[ \t\n\f\r]"
_NAME: Final = r"[a-zA-Z][a-zA-Z0-9-]*+"
_NAME_ENDS: Final = r"(?=[ \t\n\f\r/>])"
# Groups with a look-ahead are not possessive: up to Python 3.11.4 they consume what they see
# (cpython gh-106052).
#: Up to 20 attributes that can be read in one way only, and the end of the tag.
_FEW: Final = rf"""
    (?: {_SPACE}++ [^ \t\n\f\r/>="'<]++
        (?: =" [^"<>]*+ " | =' [^'<>]*+ ' | = [^ \t\n\f\r"'<>=`]++ )?+ ){{0,20}}+
    {_SPACE}*+ /?+ >"""
#: The names of start tags; any `<` that does not begin a tag with few attributes, a doctype or a
#: comment has an empty name. If there are none of those, the parser reads every `<` as it is meant:
#: no attributes are hidden in text, nor tags in an attribute.
_BEGUN: Final = re.compile(
    rf"""<(?! /{_NAME}> )
    (?: ({_NAME})
        (?: > | {_FEW} )
      | (?! !--[^<>]*+(?<=--)> | !(?:doctype|DOCTYPE)[^<>]*+> )
    )""",
    re.VERBOSE,
)
_FORMATS: Final = "a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u"
_FORMATTING: Final = frozenset(_FORMATS.split("|"))
# Spelled out: a search that ignores case compares every name to its end.
_ANY_FORMATS: Final = re.sub("[a-z]", lambda it: f"[{it[0]}{it[0].upper()}]", _FORMATS)
#: What the end tag of formatting around it closes or leaves alone, whether or not it was closed.
_PIECE: Final = rf"""
    (?: /?(?:span|var|su[bp]|kbd|samp|cite|abbr|dfn|mark) | img|w?br ){_NAME_ENDS} {_FEW}"""
#: Formatting that may be left open: not all of it is text, images, more formatting and the like. It
#: has no second group if it may have many attributes. What looks like a tag counts as one, wherever
#: it is, and hides no other.
_LOOSE: Final = re.compile(
    rf"""<(?=[a-cefinstuA-CEFINSTU]) ({_ANY_FORMATS}){_NAME_ENDS}
    (?! {_FEW} [^<]*+
        (?: <(?: {_PIECE}
               | ({_FORMATS}){_NAME_ENDS} {_FEW} [^<]*+ (?: <{_PIECE} [^<]*+ ){{0,5}} </\2> )
            [^<]*+ ){{0,20}}
        </\1> )
    ({_FEW})?""",
    re.VERBOSE,
)


def is_plain(text: str) -> bool:
    """Whether the page is certain to be cheap to parse. Linear in its size."""
    return is_small(text) or is_modest(text)


def is_small(text: str | bytes) -> bool:
    """Whether it is plain at a glance."""
    if (chars := len(text)) >= FEW_CHARS:
        return False
    tags = _count_tags(text)
    return tags < FEW_TAGS and tags * chars < FEW_COPIES


def is_modest(text: str) -> bool:
    """Whether it is plain at a second glance: it has few tags, none of which has too many
    attributes or repeats much formatting."""
    if len(text) >= FEW_CHARS:
        return is_tidy(text)
    tags = _count_tags(text)
    return tags < FEW_TAGS and _repeats_little(text, tags - text.count("</"))


def is_tidy(text: str) -> bool:
    """Whether it is plain however long its text is: it has few tags, and each is unambiguous."""
    if len(text) > UNCOUNTED_CHARS and _count_tags(text) >= 2 * FEW_TAGS:
        return False
    begun: list[str] = _BEGUN.findall(text)
    tags = len(begun)
    if tags >= FEW_TAGS or "" in begun or _count_names(begun, _ROOTS) > MAX_ROOTS:
        return False
    if tags * len(text) > FEW_STEPS and text.count("</") >= FEW_TAGS:
        return False
    return tags * _count_names(begun, _FORMATTING) <= MAX_REPEATED or _repeats_little(text, tags)


def _count_names(begun: list[str], names: Collection[str]) -> int:
    return sum(begun.count(name) for name in set(begun) if name.lower() in names)


def _repeats_little(text: str, tags: int) -> bool:
    """Whether little formatting may be left open, and it has few attributes."""
    loose = _LOOSE.findall(text)
    return tags * len(loose) <= MAX_REPEATED and all(few for *_, few in loose)


def _count_tags(text: str | bytes) -> int:
    if isinstance(text, str):
        return text.count("<")
    # Half the instructions of `count`, which compares byte by byte; a quarter on large pages.
    return len(text) - len(text.replace(b"<", b""))
