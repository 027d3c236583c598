"""Pages that would block the parser: for some of what HTML allows, its time is quadratic.

Measured on lexbor, while the event loop stands still: 100,000 nested <div>, 500 KB, 30 s; 200 KB of
attributes on one element, 1.5 s; 50 KB of unclosed <p><font color=...>, 3 million elements and a
gigabyte; 98 KB of <b> with 100 attributes each, then <p>x, which repeats them all, 4 GB. HTML has
too many such cases to list, so a page is *plain* if it is certain to be cheap, as nearly all are;
any other is tried first by `skitter.fetch.trial`, within limits.

Certain means: at least as many elements are counted as open here as are open in the parser. A start
tag always counts, even if the parser would ignore it or close others first; an end tag subtracts
only what the parser certainly closes: the last element, or the contents of a block that no later
tag may have closed. The names of elements and rules are those of HTML 13.2.6.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: Below all of these any page is cheap, whatever it contains: 5,000 tags take 40 ms if each is
#: inside the one before. The last is tags times characters: each tag may repeat the attributes of
#: all formatting before it, at 40 bytes for a character.
FEW_TAGS, FEW_CHARS, FEW_COPIES = 5_000, 100_000, 4_000_000
#: Start tags times characters: as each end tag may look at all that is open, 70 ms.
FEW_STEPS: Final = 240_000_000
#: Below it and FEW_TAGS, checking whether a page is plain takes some milliseconds.
SOME_CHARS: Final = 1_000_000
#: In longer texts tags are counted before they are parsed; in shorter ones counting saves nothing,
#: and costs a third of the time of parsing.
UNCOUNTED_CHARS: Final = 250_000
#: Real pages are less than a hundred deep.
DEEPEST: Final = 250
MAX_ELEMENTS: Final = 200_000
MAX_ATTRIBUTES: Final = 200
FEW_ATTRIBUTE_CHARS: Final = 500
#: How often formatting with up to 20 attributes may be repeated: 3 KB each.
MAX_REPEATED: Final = 40_000
#: A second <body> adds its attributes to the first.
MAX_ROOTS: Final = 10
#: How far up to look for the beginning of a block at its end.
REACH: Final = 20


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_VOID: Final = _names("area base br col embed hr img input link meta source track wbr param image")
_FORMATTING: Final = _names("a b big code em font i nobr s small strike strong tt u")
_ROOTS: Final = _names("html head body")
_CELLS: Final = _names("td th caption")
_PARTS: Final = _CELLS | _names("tr tbody thead tfoot colgroup col")
_TABLE: Final = _PARTS - {"col"} | {"table"}
#: Their end tags close everything inside ("has an element in scope").
_BLOCKS: Final = _TABLE | _names(
    "address article aside blockquote center details dialog dir div dl dd dt fieldset figcaption "
    "figure footer header hgroup h1 h2 h3 h4 h5 h6 li main menu nav ol p pre section summary ul"
)
#: No end tag of an outer element closes these, except that of a part of the same table.
_MARKERS: Final = _CELLS | _names("table template select button applet marquee object ol ul")
_OPAQUE: Final = _names("table template select applet marquee object")
_FOREIGN: Final = _names("svg math")
#: Inside <svg> and <math>, these are or begin HTML again.
_MIXED: Final = (_BLOCKS | _FORMATTING | _ROOTS) - {"a"} | _names(
    "br embed hr img meta ruby span sub sup var foreignobject desc mi mo mn ms mtext annotation-xml"
)
_STRANGE: Final = _names("plaintext frameset")
#: Inside these the parser has special rules.
_WILFUL: Final = _names("select template")
_HEADINGS: Final = _names("h1 h2 h3 h4 h5 h6")
#: Elements that end without an end tag ("generate implied end tags").
_IMPLIED: Final = _names("dd dt li optgroup option p rb rp rt rtc")
#: What a start tag may close. A <p> ends where a block begins.
_CLOSED_BY: Final = (
    dict.fromkeys(_BLOCKS | _names("form hr listing search xmp"), _names("p"))
    | dict.fromkeys(_HEADINGS, _HEADINGS | {"p"})
    | dict.fromkeys(("dd", "dt"), _names("dd dt p"))
    | dict.fromkeys(("optgroup", "option", "rb", "rp", "rt", "rtc"), _IMPLIED)
    | dict.fromkeys(("input", "keygen", "textarea"), _names("select"))
    | {name: frozenset({name}) for name in ("a", "button", "nobr")}
    | {
        "hr": _IMPLIED | {"select"},
        "li": _names("li p"),
        "select": _names("select"),
        "table": _names("p table"),
    }
)
#: Most elements of a page contain only a few words; each is read as one token.
_LEAVES: Final = "a|b|code|dd|dt|em|h[1-6]|i|label|li|option|p|span|strong|td|th|tt"
_RAW: Final = "script|style|textarea|title|xmp|iframe|noembed|noframes"
_SPACE: Final = r"[ \t\n\f\r]"
_NAME: Final = r"[a-zA-Z][a-zA-Z0-9-]*+"
_NAME_ENDS: Final = r"(?=[ \t\n\f\r/>])"
_ATTRIBUTES: Final = rf"""
    (?: (?:{_SPACE}|/)++
      | [^ \t\n\f\r/>][^ \t\n\f\r/>=]*+
        (?: {_SPACE}*+ = {_SPACE}*+
            (?: "[^"]*+"? | '[^']*+'? | [^ \t\n\f\r>"'][^ \t\n\f\r>]*+ )?+ )?+
    )*+"""
#: A token: a raw text element, an ordinary tag, a comment, or anything else that begins with `<`.
#: Everything is possessive or runs to the end of the text, so no character is read twice. Groups
#: with a look-ahead are not: up to Python 3.11.4 they consume what they see (cpython gh-106052).
_TOKEN: Final = re.compile(
    rf"""<(?:
      (?P<leaf>{_LEAVES}){_NAME_ENDS} (?P<given>{_ATTRIBUTES}) > [^<]*+ </(?P=leaf)>
    | (?P<raw>(?i:{_RAW})){_NAME_ENDS} {_ATTRIBUTES} >
      (?P<inside> [^<]*+ (?> (?: <(?! /(?i:(?P=raw)){_NAME_ENDS} ) [^<]*+ )* ) )
      (?: </ [^>]*+ >? )?+
    | (/?)([a-zA-Z][^ \t\n\f\r/>]*+) ({_ATTRIBUTES}) >?
    | !--(?: -?> | (?s: .*? ) (?: --!?> | \Z ) )
    | [!?/] [^>]*+ >?
    )""",
    re.VERBOSE,
)
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
_FORMATS: Final = "|".join(sorted(_FORMATTING))
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
_ENDS_ITSELF: Final = re.compile(rf"""(?:{_SPACE}/|{_SPACE}[^\s"'=<>/]+="[^"]*"/|^/)\Z""")
_SEPARATOR: Final = re.compile(r"""[\s/"']""")


def is_plain(text: str) -> bool:
    """Whether the page is certain to be cheap to parse. Linear in its size."""
    return is_small(text) or is_modest(text) or is_orderly(text)


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


def is_orderly(text: str) -> bool:
    """Whether it is plain when each of its tags is checked in turn."""
    if _count_tags(text) >= MAX_ELEMENTS:
        return False
    count = _Count()
    for token in tokens(text):
        # After one paragraph, those that follow it change only the number of elements.
        if token[1] and token[1] == count.leaf and len(token[2]) <= FEW_ATTRIBUTE_CHARS:
            count.elements += 1 + count.formatting + count.dangling
        elif not count.take(*token.groups()):
            return False
    return count.elements <= MAX_ELEMENTS


def is_quickly_read(text: str | bytes) -> bool:
    """Whether `is_orderly` may run outside a thread: it may take longer than the parser."""
    return len(text) < SOME_CHARS and _count_tags(text) < FEW_TAGS


def _count_tags(text: str | bytes) -> int:
    if isinstance(text, str):
        return text.count("<")
    # Half the instructions of `count`, which compares byte by byte; a quarter on large pages.
    return len(text) - len(text.replace(b"<", b""))


def tokens(text: str) -> Iterator[re.Match[str]]:
    return _TOKEN.finditer(text)


class _Count:
    """The most that may be open in the parser."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.doubtful: list[bool] = []  # for each of these: the parser may have closed it
        self.weights: list[int] = []  # and what it costs to reopen; 0: it is not formatting
        self.formatting = 0  # the weight of open formatting
        self.dangling = 0  # and of unclosed, which the parser reopens in what follows
        self.elements = self.roots = self.foreign = 0
        self.leaf = ""  # the last token, if it was one

    def take(  # noqa: PLR0913 - the groups of a token
        self,
        leaf: str | None,
        given: str,
        raw: str | None,
        inside: str,
        slash: str,
        name: str | None,
        rest: str,
    ) -> bool:
        """Count one token. False: the page is not plain."""
        if leaf:
            self.leaf = leaf
            self.elements += 1 + self.formatting + self.dangling
            is_mixed = self.foreign and leaf in _MIXED
            self._doubt_before(leaf)
            return not is_mixed and not _has_many(given) and self.elements <= MAX_ELEMENTS
        self.leaf = ""
        if raw:
            return self._take_raw(inside)
        if not name:
            return True
        name = name.lower()
        if slash:
            self.elements += 1  # </p> and </br> make one
            self._end(name)
            return True
        return self._begin(name, rest)

    def _take_raw(self, inside: str) -> bool:
        """If the contents may be text or tags, they must have no tags."""
        self.elements += 1
        is_doubtful = self.foreign or "select" in self.open or "<!--" in inside
        return not (is_doubtful and "<" in inside)

    def _begin(self, name: str, rest: str) -> bool:
        self.elements += 1 + self.formatting + self.dangling
        if name in _STRANGE or (self.foreign and name in _MIXED) or _has_many(rest):
            return False
        if name == "form" and ("form" in self.open or "table" in self.open):
            return False  # its end tag may then be ignored
        self._doubt_before(name)
        if name in _ROOTS:
            self.roots += 1
        elif not (
            (name in _VOID and not self.foreign) or (self.foreign and _ENDS_ITSELF.search(rest))
        ):
            self.doubtful.append(self._may_be_ignored(name))
            self.open.append(name)
            self.weights.append(_weight(rest) if name in _FORMATTING else 0)
            self.formatting += self.weights[-1]
            self.foreign += name in _FOREIGN
        return (
            len(self.open) <= DEEPEST and self.elements <= MAX_ELEMENTS and self.roots <= MAX_ROOTS
        )

    def _end(self, name: str) -> None:
        if self.open and self.open[-1] == name:
            self._close_last()
        elif name in _BLOCKS and (inside := self._inside(name)) is not None:
            for _ in range(inside + 1):
                self._close_last()
        else:  # it may have closed one with that name, and all inside
            if name in _PARTS:
                self._doubt_table()
            self._doubt(_HEADINGS if name in _HEADINGS else frozenset({name}))

    def _inside(self, name: str) -> int | None:
        """How many elements it closes besides its own; None: not certain."""
        walls = _OPAQUE if name in _TABLE else _MARKERS
        lost = 0
        for inside, one in enumerate(reversed(self.open[-REACH:])):
            if one == name:
                if self.doubtful[-1 - inside]:
                    return None
                self.dangling += 0 if name in _CELLS else lost
                return inside
            if one in walls:
                return None
            # The end of a cell drops the formatting inside.
            lost = 0 if one in _CELLS else lost + self.weights[-1 - inside]
        return None

    def _may_be_ignored(self, name: str) -> bool:
        """<tr> is ignored outside a table; in <select>, most tags are."""
        return (name in _PARTS and self._last_certain({"table"}) < 0) or not _WILFUL.isdisjoint(
            self.open
        )

    def _doubt_before(self, name: str) -> None:
        """Mark as doubtful what a start tag may close."""
        if name in _PARTS:
            self._doubt_table()
        elif name in _CLOSED_BY and not (name == "table" and self._is_in_cell()):
            self._doubt(_CLOSED_BY[name])

    def _doubt(self, names: frozenset[str]) -> None:
        """The first with one of these names, and all inside, may be closed."""
        if not names.isdisjoint(self.open):
            self._doubt_from(next(i for i, one in enumerate(self.open) if one in names))

    def _doubt_table(self) -> None:
        """Everything in the last table may be closed: the parser inserts implied rows."""
        self._doubt_from(self._last_certain({"table"}) + 1)

    def _doubt_from(self, place: int) -> None:
        self.doubtful[place:] = [True] * (len(self.open) - place)

    def _is_in_cell(self) -> bool:
        """In a cell, a <table> certainly begins a nested table."""
        return self._last_certain(_CELLS) > self._last_certain({"table"})

    def _last_certain(self, names: Collection[str]) -> int:
        """The index of the last that is certainly open; -1: none."""
        for place in range(len(self.open) - 1, -1, -1):
            if self.open[place] in names and not self.doubtful[place]:
                return place
        return -1

    def _close_last(self) -> None:
        name = self.open.pop()
        self.doubtful.pop()
        self.formatting -= self.weights.pop()
        self.foreign -= name in _FOREIGN


def _weight(attributes: str) -> int:
    """In elements: a copy of one has copies of its attributes, a quarter of its size each."""
    return 1 + len(_SEPARATOR.findall(attributes)) // 4


def _has_many(attributes: str) -> bool:
    return (
        len(attributes) > FEW_ATTRIBUTE_CHARS
        and len(_SEPARATOR.findall(attributes)) > MAX_ATTRIBUTES
    )
