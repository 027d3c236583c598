"""What a URL means to a crawl: what to fetch, what counts as the same page, whom to be polite to.

`identify` turns a URL into a `Target`; `fingerprint` turns its canonical form into the number under
which the frontier remembers it. Both see every link of every page, so `ada_url` is called for one
string only (2 us; each attribute of its `URL` object costs 1.5 us more) and the parts are sliced
from that. Slicing is easy: a WHATWG-normalised http(s) URL is ASCII and always reads
`scheme://[user@]host[:port]/path[?query][#fragment]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final
from zlib import crc32

import msgspec
from ada_url import join_url, normalize_url

from skitter.errors import BadURL
from skitter.redact import redact

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_URL_BYTES: Final = 8192

# Parameters that identify a click, a mailing or a visitor and do not affect the page. By Brave's
# criterion (github.com/brave/brave-browser/wiki/Query-String-Filter), Firefox's list
# (firefox-source-docs.mozilla.org, anti-tracking/query-stripping) and campaign tags. A name that
# selects content on some site would lose pages there, so words that sites use themselves (ref,
# source, cid, si) are left out. As in Brave, case matters.
TRACKING_PREFIXES: Final = ("utm_", "mtm_")  # Google Analytics, Matomo
TRACKING: Final = frozenset(
    {
        *("gclid", "gclsrc", "dclid", "gbraid", "wbraid", "_ga", "_gl"),  # Google
        *("fbclid", "igshid", "fb_action_ids", "fb_action_types"),  # Meta
        *("msclkid", "yclid", "ymclid", "_openstat", "twclid", "ttclid"),  # Bing, Yandex, X, TikTok
        *("li_fat_id", "epik", "rdt_cid", "ScCid", "irclickid"),  # LinkedIn, Pinterest, Reddit, ...
        *("_hsenc", "_hsmi", "__hsfp", "__hssc", "__hstc", "hsCtaTracking"),  # HubSpot
        *("mc_cid", "mc_eid", "mkt_tok", "_kx", "__s", "_bhlid"),  # Mailchimp, Marketo, mailings
        *("oly_anon_id", "oly_enc_id", "vero_id", "vero_conv", "wickedid", "rb_clickid"),
        *("pk_campaign", "pk_kwd", "pk_keyword", "piwik_campaign", "piwik_kwd"),  # old Matomo
        *("PHPSESSID", "phpsessid", "JSESSIONID", "jsessionid"),  # session ids of PHP, Java, ...
        *("CFID", "CFTOKEN", "cfid", "cftoken", "osCsid", "XTCsid", "zenid"),  # ColdFusion, shops
    }
)
# Session parameters whose names sites also use for other things: the value decides.
SESSIONS: Final = frozenset({"sid", "SID", "sessid", "sessionid", "sessionId", "session_id"})
_SESSION: Final = re.compile(r"(?=[0-9A-Za-z_-]*\d)(?=[0-9_-]*[A-Za-z])[0-9A-Za-z_-]{16,}")
_SESSION_IN_PATH: Final = re.compile(r";(?:jsessionid|phpsessid|sid)=[^/?;]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Canonical:
    """The rules for what counts as the same page. A crawl keeps those it started with."""

    sort_query: bool = True  # a?x=1&y=2 and a?y=2&x=1 are one page
    drop_tracking: bool = True  # and session ids
    keep_fragment: bool = False  # for sites whose scripts show another page per #fragment


class Target(msgspec.Struct, frozen=True):
    """A URL, parsed."""

    url: str  # what to fetch: as found, WHATWG-normalised, without fragment unless kept
    canonical: str  # what to remember: equal for URLs of the same page
    host: str  # whom to be polite to: host, and port if it is not the scheme's default


DEFAULT_RULES: Final = Canonical()


def identify(url: str, rules: Canonical = DEFAULT_RULES) -> Target:
    """Determine what to fetch, what to remember and whom to be polite to, or raise BadURL."""
    if host := _host_of_plain(url):
        return Target(url, _canonical(url, rules), host)
    _refuse_unfit_text(url)
    try:
        href = normalize_url(url)
    except ValueError:
        raise _bad(url, _why_unparsable(url)) from None
    # Normalisation escapes any '#' or '?' before the delimiter.
    page, _, fragment = href.partition("#")
    start = 8 if href[4] == "s" else 7
    host = page[start : page.index("/", start)]
    if "@" in host:
        raise _bad(url, "credentials in URLs are not stored: use a header.")
    canonical = _canonical(page, rules)
    if rules.keep_fragment and fragment:
        page, canonical = href, f"{canonical}#{_respell(fragment)}"
    if len(page) > MAX_URL_BYTES or len(canonical) > MAX_URL_BYTES:  # escaping makes 3 bytes of 1
        raise _bad(url, _too_long(max(len(page), len(canonical)), when="when percent-encoded"))
    return Target(page, canonical, host)


def fingerprint(canonical: str, *, method: str = "GET", body: bytes = b"", unique: str = "") -> str:
    """Number a request: 63 bits, in decimal, which Redis keeps as an integer in an intset.

    A plain GET is its canonical URL alone. Any other request is hashed with a personalisation and
    the length of each part in front, so that no two can collide by concatenation.
    """
    method = method.upper()
    if method == "GET" and not body and not unique:
        digest = blake2b(canonical.encode(errors="surrogatepass"), digest_size=8)
    else:
        digest = blake2b(digest_size=8, person=b"skitter request")
        for text in (canonical, method, unique):
            part = text.encode(errors="surrogatepass")
            digest.update(b"%d:%b" % (len(part), part))
        digest.update(body)
    return str(int.from_bytes(digest.digest(), "big") >> 1)


def fingerprint_of(identity: str, *, unique: str = "") -> str:
    """The fingerprint of an engine's own identity for a request. Never equals that of a URL."""
    return fingerprint(f"identity:{identity}", unique=unique)


def shard_of(host: str, shards: int) -> int:
    """Choose a host's shard. Must never change for a given number of shards: keys depend on it."""
    return crc32(host.encode()) % shards if shards > 1 else 0


def join(base: str, link: str) -> str | None:
    """Resolve a link as a browser would; None if HTTP cannot fetch the result."""
    if link[:1] == "/" and _PLAIN_PATH.fullmatch(link) and (origin := origin_of(base)):
        return origin + link
    if len(link) > MAX_URL_BYTES:  # a data: URL of a megabyte is not worth parsing
        return None
    try:
        href = join_url(base, link)
    except ValueError:
        return None
    return href if href.startswith(("http://", "https://")) else None


def join_all(base: str, links: Iterable[str]) -> list[str]:
    """Resolve a page's links, without fragments: each target once, in order.

    The pages of a site share most of their links, so recent results are cached, under the part of
    the base that they depend on.
    """
    above = _lately.at(origin_of(base) or base)  # no trailing slash: distinct from any folder
    hrefs = list(links)
    urls = list(map(above.get, hrefs))
    if None in urls:
        _resolve_rest(base, above, hrefs, urls)
    return [url for url in dict.fromkeys(urls) if url]


def _resolve_rest(base: str, above: _LinksOfBase, links: list[str], urls: list[str | None]) -> None:
    """Fill in what was not found above: most of it is relative to the base's folder."""
    below: _LinksOfBase | None = None
    for place, link in enumerate(links):
        if urls[place] is not None:
            continue
        if link.startswith(_ROOTED):
            urls[place] = above.resolve(link)
        elif (link[:1].isalnum() or link[:1] == ".") and ":" not in link:  # a relative path
            below = below or _lately.at(join(base, ".") or base)
            urls[place] = below.get(link) or below.resolve(link)
        else:  # empty, ?query and #fragment depend on the whole base; or it is not a link
            urls[place] = _drop_fragment(join(base, link))


_ROOTED: Final = ("/", "http://", "https://")
_WORTH_KEEPING: Final = 500  # characters: bounds the cache in bytes, too


class _LinksOfBase(dict[str, str]):
    """Links as written relative to one base, and where they lead."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base

    def resolve(self, link: str) -> str | None:
        url = _drop_fragment(join(self._base, link))
        if url and len(link) <= _WORTH_KEEPING:
            self[link] = url
            _lately.make_room()
        return url


class _Lately:
    """All bases. Forgets everything when full."""

    def __init__(self, size: int) -> None:
        self._size, self._room = size, size
        self._places: dict[str, _LinksOfBase] = {}

    def at(self, base: str) -> _LinksOfBase:
        place = self._places.get(base)
        if place is None:
            self.make_room()
            place = self._places[base] = _LinksOfBase(base)
        return place

    def make_room(self) -> None:
        self._room -= 1
        if self._room < 0:
            self._places, self._room = {}, self._size


_lately: Final = _Lately(size=32_768)


def _drop_fragment(url: str | None) -> str | None:
    return url.partition("#")[0] if url else None


# Most links are paths of characters that no parser would change: joining them is concatenation.
_PLAIN_PATH: Final = re.compile(
    r"(?=.{1,2000}\Z)(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?(?:\?[A-Za-z0-9._~=&-]*)?"
)


def origin_of(base: str) -> str | None:
    """`https://host:port` of a page, normalised, without the scheme's default port; None if it has
    no host."""
    end = base.find("/", 8) + 1
    return _spell_origin(base[:end] if end else base)  # cached per site, not per page


def _host_of_plain(url: str) -> str | None:
    """The host of a URL that a parser would not change; None if only a parser can tell."""
    end = url.find("/", 8) if isinstance(url, str) else -1
    if end < 0 or not _PLAIN_PATH.fullmatch(url, end):
        return None
    origin = _spell_origin(url[: end + 1])
    if origin is None or len(origin) != end or "@" in origin or not url.startswith(origin):
        return None
    return origin.partition("//")[2]


@lru_cache(maxsize=4096)
def _spell_origin(beginning: str) -> str | None:
    try:
        href = normalize_url(beginning)
    except ValueError:
        return None
    if not href.startswith(("http://", "https://")):
        return None
    return href[: href.index("/", 8)]


# --- the canonical form ---------------------------------------------------------------------------


def _canonical(page: str, rules: Canonical) -> str:
    page = _respell(page)
    if ";" in page and rules.drop_tracking:
        page = _SESSION_IN_PATH.sub("", page)
    if "?" not in page:
        return page
    path, _, query = page.partition("?")
    if rules.sort_query or rules.drop_tracking:
        query = _tidy_query(query, rules)
    return f"{path}?{query}" if query else path


def _tidy_query(query: str, rules: Canonical) -> str:
    """Drop and sort the raw pieces: decoding and re-encoding would change what some sites see."""
    pieces = [piece for piece in query.split("&") if piece]  # a form parses a=1&&b=2 as a=1&b=2
    if rules.drop_tracking:
        pieces = [piece for piece in pieces if not _is_tracking(piece)]
    if rules.sort_query and len(pieces) > 1:
        pieces.sort(key=_name)  # stable, and by name only: a=2&a=1 may be an ordered list
    return "&".join(pieces)


def _name(piece: str) -> str:
    return piece.partition("=")[0]


def _is_tracking(piece: str) -> bool:
    name, _, value = piece.partition("=")
    if name in SESSIONS:
        return _SESSION.fullmatch(value) is not None
    return name in TRACKING or name.startswith(TRACKING_PREFIXES)


_HEX: Final = "0123456789ABCDEFabcdef"
_UNRESERVED: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"  # RFC 3986 2.3
)
# Every way to write an escape -> the one we keep. A '%' that begins no escape stands for itself
# (WHATWG "percent-decode"), that is %25; left alone, '%%34%31' would become '%41' and then 'A'.
_SPELLINGS: Final = {"%": "%25"} | {
    f"%{high}{low}": chr(code) if code in _UNRESERVED else f"%{code:02X}"
    for high in _HEX
    for low in _HEX
    for code in (int(high + low, 16),)
}
# Matches only what will change: a path in Chinese has 30 escapes, most already normal.
_MISSPELT: Final = re.compile(
    "%(?![0189A-F][0-9A-F]|2[0-9ABCF]|3[A-F]|[46]0|5[B-E]|7[BCDF])(?:[0-9A-Fa-f]{2})?"
)


def _respell(text: str) -> str:
    """Upper-case escapes, and decode unneeded ones (RFC 3986 6.2.2)."""
    return _MISSPELT.sub(lambda escape: _SPELLINGS[escape[0]], text) if "%" in text else text


# --- refusals -------------------------------------------------------------------------------------

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_NO_HOST: Final = re.compile(r"https?:[/\\]*+(?:[^/\\?#]*@)?(?::\d*)?(?:[/\\?#]|$)", re.IGNORECASE)


def _refuse_unfit_text(url: str) -> None:
    """Refuse what the parser would silently repair, crash on, or explain badly."""
    if not isinstance(url, str):
        raise _bad(repr(url), f"it is of type {type(url).__name__}: pass a str.")
    if not url.isprintable():  # one fast pass; what it flags is rarely refused
        _refuse_characters(url)
    if not url.startswith(("https://", "http://")):
        _refuse_beginning(url)
    if url[-1] == " ":
        raise _bad(url, "it ends with a space: strip it first.")
    if len(url) > MAX_URL_BYTES // 4 and (size := len(url.encode())) > MAX_URL_BYTES:
        raise _bad(url, _too_long(size))


def _refuse_characters(url: str) -> None:
    if control := _CONTROL.search(url):
        where = f"U+{ord(control[0]):04X} at position {control.start()}"
        raise _bad(url, f"it has a control character ({where}): remove it.")
    if _SURROGATE.search(url):
        # Escaped, or logging the error would fail on it again.
        shown = url.encode(errors="backslashreplace").decode()
        raise _bad(shown, "it has a lone surrogate, which UTF-8 cannot write: decode it properly.")


def _refuse_beginning(url: str) -> None:
    if not url:
        raise _bad(url, "it is empty: pass an absolute URL such as https://example.com/.")
    if url[0] == " ":
        raise _bad(url, "it begins with a space: strip it first.")
    scheme = _SCHEME.match(url)
    if not scheme or "." in scheme[1] or scheme[1].lower() == "localhost":  # host:port, no scheme
        raise _bad(url, "it has no scheme: add https:// in front, or join it to its page's URL.")
    if scheme[1].lower() not in ("http", "https"):
        raise _bad(url, f"its scheme is {scheme[1]!r}: only http and https can be fetched.")


def _why_unparsable(url: str) -> str:
    if _NO_HOST.match(url):
        return "it has no host: write one after the scheme, as in https://example.com/."
    return "it does not parse: check the host name, the brackets of an IPv6 address and the port."


def _too_long(size: int, when: str = "") -> str:
    long = f"it is {size:,} bytes {when}".rstrip()
    return f"{long}, the limit is {MAX_URL_BYTES:,}: send large data in a body."


def _bad(url: str, reason: str) -> BadURL:
    """The error, without the URL's password: errors end up in logs."""
    return BadURL(redact(url), reason)
