"""HTML becomes a tree. All of it is parsed here, except by the helper that tries pages first.

lexbor has a bug (in selectolax 1.0.2): for an <option selected> inside <svg> or <math> it sets a
field that only HTML's own <option> has, and so writes past the end of the element; likewise for
<selectedcontent>. A page could spoil the memory of its worker. No real page nests them like that,
but many have both. So a page in which they are certainly apart is left as it is; in any other,
`selected` is misspelled.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from selectolax.lexbor import LexborHTMLParser

if TYPE_CHECKING:
    from collections.abc import Collection

_OPTIONS: Final = frozenset({"option", "selectedcontent"})
# Spelled out: a search that ignores case looks at every byte, these two only at tags.
_OPTION: Final = re.compile(
    rb"<(?=[oOsS])(?:[oO][pP][tT][iI][oO][nN]|[sS][eE][lL][eE][cC][tT][eE][dD])"
)
_FOREIGN: Final = re.compile(rb"<[sSmM](?:[vV][gG]|[aA][tT][hH])")
_SELECTED: Final = re.compile(rb"(select)(ed)", re.IGNORECASE)
_MISSPELLED: Final = "\\1\u00ad\\2".encode()  # with a soft hyphen, which is not shown

_SPACE: Final = r"[ \t\n\f\r]"
_NAME: Final = r"""[^ \t\n\f\r"'<>/=]++"""
_QUOTED: Final = r"""="[^"<>]*+"|='[^'<>]*+'"""
_UNQUOTED: Final = r"""=[^ \t\n\f\r"'<>=`]++"""
_ATTRIBUTES: Final = rf"(?:{_SPACE}++{_NAME}(?:{_QUOTED})?+)*+{_SPACE}*+"
_ANY_ATTRIBUTES: Final = rf"(?:{_SPACE}++{_NAME}(?:{_QUOTED}|{_UNQUOTED})?+)*+{_SPACE}*+"
#: May contain HTML, or are perhaps read as raw text: only text may be in them.
_TEXT_ONLY: Final = "title|desc|style|script"
_UNSURE: Final = (
    f"svg|math|option|selected|{_TEXT_ONLY}|foreignobject|textarea|xmp|plaintext|iframe|no"
)
#: An <svg> that ends where it seems to. Whatever is open inside, its end tag closes it too (HTML
#: 13.2.6.5), and a tag that belongs to HTML ends it even earlier.
#: The group with a look-ahead is not possessive: see nesting.py.
_APART: Final = re.compile(
    rf"""
    <svg {_ATTRIBUTES} (?: /> | >
        (?: [^<]++
          | <({_TEXT_ONLY}) {_ATTRIBUTES} > [^<]*+ </\1>
          | </?+ (?!{_UNSURE}) [a-z][a-z0-9]*+ {_ANY_ATTRIBUTES} /?+ >
        )* </svg> )""".encode(),
    re.IGNORECASE | re.VERBOSE,
)


def parse_html(markup: str | bytes, tags: Collection[str] | None = None) -> LexborHTMLParser:
    """Its tree. Bytes are UTF-8; `tags` are its start tags, if they are known. That it is cheap to
    parse is for skitter.fetch.nesting to say."""
    if isinstance(markup, str):
        markup = markup.encode(errors="replace")
    if tags is None or not _OPTIONS.isdisjoint(tags):
        markup = harmless(markup)
    return LexborHTMLParser(markup)


def harmless(markup: bytes) -> bytes:
    """Unchanged, unless lexbor might write where it must not. Linear in its size."""
    if not (_OPTION.search(markup) and _FOREIGN.search(markup) and _SELECTED.search(markup)):
        return markup
    if not _FOREIGN.search(_APART.sub(b"", markup)):
        return markup
    return _SELECTED.sub(_MISSPELLED, markup)
