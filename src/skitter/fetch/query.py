"""The query of a link, and the text of a form, as the bytes that a browser would send.

URL 4.4 (query state) and 1.3 (percent-encode after encoding): the path of a link is always UTF-8,
its query has the encoding of the page; characters it lacks become `&#number;`.
"""

from __future__ import annotations

import codecs
from functools import lru_cache
from typing import Final

import webencodings

from skitter.urls import MAX_URL_BYTES

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
    """The link, with its query encoded to ASCII. `encoding`: as `decode` names it."""
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
    unknown = {ord(one): number.format(ord(one)) for one in set(spelled) if not _has(name, one)}
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
