"""What a sitemap or a feed lists: urlset, sitemapindex, RSS, Atom, plain text; packed or not.

One state machine on expat, fed piece by piece: a document is never unpacked or built as a whole.
It comes from a stranger, so it is bounded, and a DOCTYPE, which can define entities, is refused.
Entries read before a limit or an error count.
"""

from __future__ import annotations

import math
import zlib
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.parsers import expat

import msgspec

from skitter.urls import MAX_URL_BYTES, join

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Both from the protocol, sitemaps.org.
MAX_URLS: Final = 50_000
MAX_BYTES: Final = 50 * 2**20
#: Elements or lines. A real sitemap of 50 MB has fewer; 50 kB of gzip can have millions.
MAX_PARTS: Final = 1_000_000
#: Sitemaps taken from one index; the protocol allows 50,000, but each one is a request.
MAX_SITEMAPS: Final = 5_000
PIECE_BYTES: Final = 64 * 2**10
#: Before 2.6, expat reads a tag or comment from its beginning again with each piece of it.
MAX_TAG_BYTES: Final = 2**20
#: After this long, half of the priority added for a recent change is left.
HALF_LIFE_S: Final = 30 * 86_400

#: Root -> the element of an entry, and its depth.
_ENTRIES: Final = {
    "urlset": ("url", 2),
    "sitemapindex": ("sitemap", 2),
    "feed": ("entry", 2),
    "rdf": ("item", 2),  # RSS 1.0
    "rss": ("item", 3),
}
_FIELDS: Final = {
    "loc": "url",
    "link": "url",
    "lastmod": "changed",
    "updated": "changed",
    "pubdate": "changed",
    "date": "changed",
    "priority": "weight",
}
_BOMS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


class NotASitemap(ValueError):
    """It is something else, usually HTML."""


class SitemapEntry(NamedTuple):
    """One page, or one sitemap of an index."""

    url: str
    changed_at: float | None = None  # seconds since the epoch
    weight: float | None = None  # priority in sitemaps.org: 0 to 1, default 0.5

    def priority(self, *, now: float) -> int:
        """Its queue priority: -100 to 100 by weight, and up to 100 more for a recent change."""
        weighed = round(200 * (self.weight - 0.5)) if self.weight is not None else 0
        if self.changed_at is None:
            return weighed
        age_s = max(0.0, now - self.changed_at)
        return weighed + round(100 * math.exp2(-age_s / HALF_LIFE_S))


class Listing(msgspec.Struct):
    """What one document lists."""

    pages: list[SitemapEntry] = msgspec.field(default_factory=list)
    sitemaps: list[SitemapEntry] = msgspec.field(default_factory=list)
    cut: str = ""  # why there may be more


def read_sitemap(body: bytes, *, url: str) -> Listing:
    """The entries of a document; links are relative to `url`. Raises NotASitemap."""
    found = Listing()
    try:
        _read(body, _Reader(url, found))
    except _Enough as enough:
        found.cut = str(enough)
    return found


class _Enough(Exception):
    """Stop reading here."""


def _read(body: bytes, reader: _Reader) -> None:
    pieces = _pieces(body)
    first = next(pieces, b"")
    if not first.startswith(_BOMS[1:]):
        first = first.removeprefix(_BOMS[0]).lstrip()  # many scripts print an empty line first
    is_xml = first.startswith((*_BOMS[1:], b"<"))
    feed = reader.feed if is_xml else reader.feed_text
    feed(first)
    for piece in pieces:
        feed(piece)
    (reader.end if is_xml else reader.end_text)()


def _pieces(body: bytes) -> Iterator[bytes]:
    """Unpacked, up to the limit."""
    left = MAX_BYTES
    for piece in _unpacked(body) if body.startswith(b"\x1f\x8b") else _cut(body):
        yield piece[:left]
        left -= len(piece)
        if left <= 0:
            raise _Enough(f"it is larger than {MAX_BYTES:,} bytes")


def _cut(body: bytes) -> Iterator[bytes]:
    return (body[at : at + PIECE_BYTES] for at in range(0, len(body), PIECE_BYTES))


def _unpacked(body: bytes) -> Iterator[bytes]:
    """A gzip file may have several parts."""
    while body:
        unpacker = zlib.decompressobj(wbits=31)
        while body and not unpacker.eof:
            try:
                yield unpacker.decompress(body, PIECE_BYTES)
            except zlib.error as error:
                raise _Enough(f"it cannot be unpacked: {error}") from None
            body = unpacker.unconsumed_tail
        body = unpacker.unused_data


class _Reader:
    """The state machine: outside or inside an entry, outside or inside one of its fields."""

    def __init__(self, url: str, found: Listing) -> None:
        self._url, self._found = url, found
        self._depth = self._parts = self._entries = 0
        self._entry = ("", 0)  # the element of entries in this document, and its depth
        self._field = ""
        self._text = ""
        self._values: dict[str, str] = {}
        self._line = b""  # of plain text, not yet complete
        self._fed = 0  # bytes
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._hear

    # --- XML --------------------------------------------------------------------------------------

    def feed(self, piece: bytes) -> None:
        self._parse(piece, is_last=False)

    def end(self) -> None:
        self._parse(b"", is_last=True)

    def _parse(self, piece: bytes, *, is_last: bool) -> None:
        try:
            self._parser.Parse(piece, is_last)
        except (expat.ExpatError, ValueError, LookupError) as error:  # also: an unknown encoding
            if isinstance(error, NotASitemap):
                raise
            if not self._entry[1]:
                raise NotASitemap(f"it is not XML: {error}") from None
            raise _Enough(f"it is damaged: {error}") from None
        self._fed += len(piece)
        if self._fed - self._parser.CurrentByteIndex > MAX_TAG_BYTES:
            raise _Enough(f"a tag in it is longer than {MAX_TAG_BYTES:,} bytes")

    def _refuse_doctype(self, name: str, *_: object) -> None:
        raise NotASitemap(f"it has a DOCTYPE: {name[:40]}")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._count()
        name = _local(name)
        if self._depth == 1:
            if name not in _ENTRIES:
                raise NotASitemap(f"its root is <{name[:40]}>")
            self._entry = _ENTRIES[name]
        entry, depth = self._entry
        if self._depth == depth and name == entry:
            self._values = {}
        elif self._depth == depth + 1:
            self._field, self._text = _FIELDS.get(name, ""), ""
            if "href" in attributes:  # Atom
                self._note_link(attributes)

    def _note_link(self, attributes: dict[str, str]) -> None:
        """Note only the page's own link: others are its comments, its file, its feed."""
        self._field = ""
        if attributes.get("rel", "alternate") == "alternate" and "hreflang" not in attributes:
            self._values.setdefault("url", attributes["href"])

    def _hear(self, text: str) -> None:
        if self._field and len(self._text) <= MAX_URL_BYTES:
            self._text += text

    def _end(self, name: str) -> None:
        entry, depth = self._entry
        if self._depth == depth + 1 and self._field:
            self._values.setdefault(self._field, self._text.strip())
            self._field = ""
        elif self._depth == depth and _local(name) == entry:
            self._add(self._values)
        self._depth -= 1

    # --- text -------------------------------------------------------------------------------------

    def feed_text(self, piece: bytes) -> None:
        *lines, self._line = (self._line + piece).split(b"\n")
        self._line = self._line[-MAX_URL_BYTES:]
        for line in lines:
            self._add_line(line)

    def end_text(self) -> None:
        self._add_line(self._line)
        if not self._found.pages:
            raise NotASitemap("it is text without URLs")

    def _add_line(self, line: bytes) -> None:
        self._count()
        text = line.strip().decode("utf-8", "replace")
        if text.startswith(("http://", "https://")):
            self._add({"url": text})

    # --- entries ----------------------------------------------------------------------------------

    def _count(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise _Enough(f"it has more than {MAX_PARTS:,} parts")

    def _add(self, values: dict[str, str]) -> None:
        """Invalid entries count too, or they could go on forever."""
        is_index = self._entry[0] == "sitemap"
        limit = MAX_SITEMAPS if is_index else MAX_URLS
        if self._entries == limit:
            raise _Enough(f"it lists more than {limit:,} {'sitemaps' if is_index else 'URLs'}")
        self._entries += 1
        url = join(self._url, values.get("url", "")) if values.get("url") else None
        if url is None or len(url) > MAX_URL_BYTES:
            return
        changed_at, weight = _moment(values.get("changed", "")), _weight(values.get("weight", ""))
        entries = self._found.sitemaps if is_index else self._found.pages
        entries.append(SitemapEntry(url, changed_at, weight))


def _local(name: str) -> str:
    return name.rpartition(":")[2].lower()


def _moment(text: str) -> float | None:
    """The timestamp of a W3C or e-mail date; without a time, midnight."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse(text[:64])
            aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return aware.timestamp()
        except (ValueError, OverflowError):
            continue
    return None


def _weight(text: str) -> float | None:
    try:
        weight = float(text[:16])
    except ValueError:
        return None
    return weight if 0 <= weight <= 1 else None
