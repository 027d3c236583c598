"""Pages that would block the parser: for some of what HTML allows, its time is quadratic.

Measured on lexbor, while the event loop stands still: 100,000 nested <div>, 500 KB, 30 s; 200 KB of
attributes on one element, 1.5 s; 50 KB of unclosed <p><font color=...>, 3 million elements and a
gigabyte; 98 KB of <b> with 100 attributes each, then <p>x, which repeats them all, 4 GB. HTML has
too many such cases to list, so a page is *plain* if it is certain to be cheap, as nearly all are;
any other is tried first by `skitter.fetch.trial`, within limits.

Certain means: it is small; or it has few tags, all of which can be read in one way only, with few
attributes, and little formatting that the parser might repeat in whatever follows. The names of
elements and rules are those of HTML 13.2.6. Other costs of lexbor: the value of an attribute is
copied with its element; text that grows behind a tag that is ignored is copied each time; and the
names of attributes and elements are in a table of 128 lists.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

#: Below these any page is cheap, whatever it contains: the worst that we built took 0.2 s and 130
#: MB. The second is tags times bytes: each tag may repeat the attributes of all formatting before.
SMALL_BYTES, FEW_COPIES = 16_000, 3_000_000
#: Start tags with up to 8 attributes: 0.1 s if the names of all of them are in the same list.
FEW_TAGS: Final = 1_000
#: All tags and comments: 40 ms if each is inside the one before.
FEW_SIGNS: Final = 5_000
#: Tags times bytes: what is in front may be copied for each. 120 MB.
FEW_STEPS: Final = 240_000_000
#: How often formatting may be repeated: with 8 attributes, 1.6 KB each.
MAX_REPEATED: Final = 40_000
#: A second <body> adds its attributes to the first.
MAX_ROOTS: Final = 10

_ROOTS: Final = frozenset({"html", "head", "body"})
_SPACE: Final = r"[ \t\n\f\r]"
_NAME: Final = r"[a-zA-Z][a-zA-Z0-9-]*+"
_NAME_ENDS: Final = r"(?=[ \t\n\f\r/>])"
# Groups with a look-ahead are not possessive: up to Python 3.11.4 they consume what they see
# (cpython gh-106052).
#: Up to 8 attributes that can be read in one way only, and the end of the tag.
_FEW: Final = rf"""
    (?: {_SPACE}++ [^ \t\n\f\r/>="'<]++
        (?: =" [^"<>]*+ " | =' [^'<>]*+ ' | = [^ \t\n\f\r"'<>=`]++ )?+ ){{0,8}}+
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
    return is_small(text) or is_tidy(text)


def is_small(text: str | bytes) -> bool:
    """Whether it is plain at a glance."""
    if (size := _bytes_of(text)) >= SMALL_BYTES:
        return False
    return _count_tags(text) * size < FEW_COPIES


def is_tidy(text: str) -> bool:
    """Whether it is plain at a second glance."""
    signs, size = _count_tags(text), _bytes_of(text)
    if signs >= FEW_SIGNS or signs * size > FEW_STEPS or "\0" in text:
        return False
    begun: list[str] = _BEGUN.findall(text)
    tags = len(begun)
    if tags >= FEW_TAGS or "" in begun or _count_names(begun, _ROOTS) > MAX_ROOTS:
        return False
    if 2 * tags * size > FEW_STEPS:
        return False
    return tags * _count_names(begun, _FORMATTING) <= MAX_REPEATED or _repeats_little(text, tags)


def _bytes_of(text: str | bytes) -> int:
    """At least as many as it has in UTF-8."""
    return len(text) if text.isascii() or isinstance(text, bytes) else 4 * len(text)


def _count_names(begun: list[str], names: Collection[str]) -> int:
    return sum(begun.count(name) for name in set(begun) if name.lower() in names)


def _repeats_little(text: str, tags: int) -> bool:
    """Whether little formatting may be left open, and it has few attributes."""
    loose = _LOOSE.findall(text)
    return tags * len(loose) <= MAX_REPEATED and all(few for *_, few in loose)


def _count_tags(text: str | bytes) -> int:
    """What may be one."""
    if isinstance(text, str):
        return text.count("<")
    # Half the instructions of `count`, which compares byte by byte; a quarter on large pages.
    return len(text) - len(text.replace(b"<", b""))
