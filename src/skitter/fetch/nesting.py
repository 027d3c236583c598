"""Pages that are nested so deeply that the parser would stand still: 100,000 <div> inside each
other, 500 KB, take lexbor a minute, in which it holds the interpreter's lock."""

from __future__ import annotations

import re
from typing import Final

#: Lexbor takes half a second for so many, and the square of it for more. People's pages have
#: fewer than a hundred.
DEEPEST: Final = 20_000
#: A page that is shorter has not so many tags.
SHORTEST: Final = len("<div>") * DEEPEST
#: Pages have thousands of them, and nothing is inside.
_HOLD_NOTHING: Final = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta"}
#: The next of their kind closes them.
_CLOSE_BY_THEMSELVES: Final = {"p", "li", "dt", "dd", "option", "tr", "td", "th", "thead", "tbody"}
_FLAT: Final = _HOLD_NOTHING | _CLOSE_BY_THEMSELVES | {"source", "track", "wbr", "param"}
_TAG: Final = re.compile(
    r"<!--.*?-->|<(script|style|textarea|title)\b.*?</\1|<(/?)([a-z][^\s/>]*)",
    re.IGNORECASE | re.DOTALL,
)


def is_too_deep(text: str) -> bool:
    """Whether so many elements are open at once. An ordinary page costs a look at its length, a
    large one two counts; only one with very many open tags is read tag by tag."""
    if len(text) < SHORTEST or text.count("<") - 2 * text.count("</") < DEEPEST:
        return False
    depth = 0
    for tag in _TAG.finditer(text):
        name = (tag[3] or "").lower()
        if not name or name in _FLAT:
            continue
        depth = max(0, depth - 1) if tag[2] else depth + 1
        if depth > DEEPEST:
            return True
    return False
