"""Text and bytes, as browsers convert them.

Labels come from `webencodings`, the table of the standard (latin1 means windows-1252, and so on).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import webencodings

from skitter.urls import MAX_URL_BYTES

Headers = Iterable[tuple[str, str]]

_PRESCAN_BYTES: Final = 1024
_LATE_BYTES: Final = 16 * 1024  # browsers change their mind if a meta element comes later
_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]")
_UTF8: Final = re.compile(  # characters of two to four bytes; RFC 3629, without its finer points
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))

# Possessive, and no match begins inside a name: the input comes from strangers.
_CHARSET: Final = re.compile(r"""charset\s*+=\s*+["']?+\s*+([^\s;"']+)""", re.IGNORECASE)
_XML: Final = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([^"'>]+)["']""")
_COMMENT: Final = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
# Spelled out: a search that ignores case looks at every byte, this one only at tags.
_META: Final = re.compile(rb"<[mM][eE][tT][aA][\s/]((?:[^>\"']++|\"[^\"]*\"|'[^']*')*)")
_ATTRIBUTE: Final = re.compile(
    r"""(?<![^\s=/>"'])([^\s=/>"']++)\s*+=\s*+(?:"([^"]*)"|'([^']*)'|([^\s>"']+))""", re.DOTALL
)

_CONTENT_TYPE_CHARS: Final = 256  # it comes from strangers; nothing sensible is longer
# windows-1252 leaves no byte undefined; Python's cp1252 leaves five.
_WINDOWS_1252: Final = {
    byte: bytes([byte]).decode("cp1252")
    for byte in range(0x80, 0xA0)
    if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}


def decode(body: bytes, headers: Headers = ()) -> tuple[str, str]:
    """The text, without its byte order mark, and the standard name of its encoding.

    The encoding is, in this order (WHATWG HTML 13.2.3, Encoding 6): a byte order mark, the charset
    of Content-Type, a declaration in the first 1024 bytes, UTF-8 if the body is valid UTF-8, a
    declaration further down, UTF-8 if only a few bytes of it are not, windows-1252.
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return _decode(body[len(mark) :], name), name
    if declared := _declared(body, headers):
        return _decode(body, declared), declared
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        name = _in_document(body[:_LATE_BYTES]) or _likelier(body)
        return _decode(body, name), name


def _likelier(body: bytes) -> str:
    """One cut character does not make a page of UTF-8 another: text in windows-1252 hardly ever has
    bytes that are."""
    whole = _UTF8.findall(body)
    broken = len(_NOT_ASCII.findall(body)) - sum(map(len, whole))
    return "utf-8" if len(whole) > 4 * broken else "windows-1252"


def _declared(body: bytes, headers: Headers) -> str | None:
    for key, value in headers:
        if key == "content-type":
            if name := _in_content_type(value):
                return name
            break
    return _in_document(body[:_PRESCAN_BYTES])


@lru_cache(maxsize=256)  # a site says the same on every page
def _in_content_type(value: str) -> str | None:
    label = _CHARSET.search(value[:_CONTENT_TYPE_CHARS])
    return _name(label[1]) if label else None


def _in_document(start: bytes) -> str | None:
    """HTML 13.2.3.2: the encoding named in an XML declaration or a meta element."""
    if start.startswith(b"<?xml") and (xml := _XML.match(start)):
        return _readable(xml[1].decode("latin-1"))
    if b"<!--" in start:
        start = _COMMENT.sub(b"", start)
    for meta in _META.finditer(start):
        if name := _in_meta(meta[1]):
            return name
    return None


@lru_cache(maxsize=256)
def _in_meta(attributes: bytes) -> str | None:
    label = _label_of(attributes.decode("latin-1"))
    return _readable(label) if label else None


def _label_of(text: str) -> str | None:
    attributes: dict[str, str] = {}
    for found in _ATTRIBUTE.finditer(text):
        value = next(group for group in found.groups()[1:] if group is not None)
        attributes.setdefault(found[1].lower(), value)
    if "charset" in attributes:
        return attributes["charset"]
    if attributes.get("http-equiv", "").lower() == "content-type":
        label = _CHARSET.search(attributes.get("content", ""))
        return label[1] if label else None
    return None


def _readable(label: str) -> str | None:
    """We have just read it as ASCII, so it cannot be UTF-16 (HTML 13.2.3.2)."""
    name = _name(label)
    if name in ("utf-16le", "utf-16be"):
        return "utf-8"
    return "windows-1252" if name == "x-user-defined" else name


def sent_as(labels: str) -> str | None:
    """The first known label of an `accept-charset`, by its standard name."""
    return next((name for label in labels.split() if (name := _name(label))), None)


def _name(label: str) -> str | None:
    encoding = webencodings.lookup(label)
    return encoding.name if encoding else None


def _decode(body: bytes, name: str) -> str:
    if name == "utf-8":
        return body.decode(errors="replace")
    if name == "windows-1252":
        return body.decode("latin-1").translate(_WINDOWS_1252)
    # Encoding 10.1.1: "gbk's decoder is gb18030's decoder", which webencodings leaves out.
    encoding = webencodings.lookup("gb18030" if name == "gbk" else name)
    assert encoding is not None, name  # it came from the same table
    return encoding.codec_info.decode(body, "replace")[0]


#: Encoding 4.3: these are for decoding only; what is sent is UTF-8.
_AS_UTF8: Final = frozenset({"utf-8", "utf-16le", "utf-16be", "replacement"})
_QUOTED: Final = frozenset(b"\"#<>'")
_REMOVED: Final = str.maketrans("", "", "\t\n\r")
_TRIMMED: Final = "".join(map(chr, range(0x21)))
_SHIFTS: Final = dict.fromkeys((0x0E, 0x0F, 0x1B), "%26%2365533%3B")
#: Where Python's codecs use another character for the same bytes, or none.
_SPELLINGS: Final = {
    "shift_jis": str.maketrans({"\u2212": "\uff0d", "\u00a5": "\\", "\u203e": "~"}),
    "euc-jp": str.maketrans(
        {"\uff0d": "\u2212", "\uff5e": "\u301c", "\u00a5": "\\", "\u203e": "~"}
    ),
    "iso-2022-jp": str.maketrans({"\uff0d": "\u2212", "\uff5e": "\u301c"}) | _SHIFTS,
}
_BYTES: Final = {"gbk": {"\u20ac": b"\x80"}} | {
    "windows-1252": {chr(byte): bytes([byte]) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}
}
_ESCAPED: Final = [
    chr(byte) if 0x20 < byte < 0x7F and byte not in _QUOTED else f"%{byte:02X}"
    for byte in range(256)
]
_NUMBER: Final = "%26%23{}%3B"  # &#number;


def encode_query(link: str, encoding: str) -> str:
    """The link, with its query encoded to ASCII. `encoding`: as `decode` names it.

    URL 4.4 (query state) and 1.3 (percent-encode after encoding): the path of a link is always
    UTF-8, its query has the encoding of the page; characters it lacks become `&#number;`.
    """
    if encoding in _AS_UTF8 or link.isascii() or len(link) > MAX_URL_BYTES:
        return link  # too long to be a link at all: 2 MB of it took minutes
    link = link.strip(_TRIMMED).translate(_REMOVED)
    page, hash_sign, fragment = link.partition("#")
    path, mark, query = page.partition("?")
    return f"{path}{mark}{_percent_encoded(query, encoding)}{hash_sign}{fragment}"


def encode_text(text: str, encoding: str) -> bytes:
    """What a form sends: characters that the encoding lacks become `&#number;`."""
    if encoding in _AS_UTF8:
        return text.encode(errors="replace")
    return _encode(text, encoding, "&#{};")


def _percent_encoded(query: str, name: str) -> str:
    return "".join(map(_ESCAPED.__getitem__, _encode(query, name, _NUMBER)))


def _encode(text: str, name: str, number: str) -> bytes:
    known = _BYTES.get(name, {})

    def express(error: UnicodeError) -> tuple[bytes, int]:
        assert isinstance(error, UnicodeEncodeError)
        return known[error.object[error.start]], error.start + 1

    codecs.register_error("skitter.query", express)
    spelled = text.translate(_SPELLINGS.get(name, {}))
    # Each character is tried once: Python's codecs are quadratic in the number they do not know.
    unknown = {ord(char): number.format(ord(char)) for char in set(spelled) if not _has(name, char)}
    return _codec(name).encode(spelled.translate(unknown), "skitter.query")[0]


@lru_cache(maxsize=10_000)
def _has(name: str, character: str) -> bool:
    if character.isascii() or character in _BYTES.get(name, {}):
        return True
    try:
        return bool(_codec(name).encode(character))
    except UnicodeEncodeError:
        return False


def _codec(name: str) -> codecs.CodecInfo:
    if name == "big5":  # decoded with the Hong Kong characters, encoded without (Encoding 11.1)
        return codecs.lookup("cp950")
    encoding = webencodings.lookup(name)
    assert encoding is not None, name  # `decode` uses the same table
    return encoding.codec_info
