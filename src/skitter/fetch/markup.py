"""HTML becomes a tree. All of it is parsed here, except by the helper that tries pages first.

Without lexbor's events, by which it imitates what a browser does to a document afterwards. Pages
are scraped as they were sent, and the events have a bug (in selectolax 1.0.2): for an <option
selected> inside <svg> or <math> they set a field that only HTML's own <option> has, and so write
past the end of the element. A page could spoil the memory of its worker.
"""

from __future__ import annotations

from typing import Final

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

_OPTIONS: Final = int(LexborDocumentOptions.WO_EVENTS)


def parse_html(markup: str | bytes) -> LexborHTMLParser:
    """Its tree. Bytes are UTF-8. That it is cheap to parse is for skitter.fetch.nesting to say."""
    if isinstance(markup, str):
        markup = markup.encode(errors="replace")
    return LexborHTMLParser(markup, options=_OPTIONS)
