"""Session: who we are to a site: the cookies it gave us, headers from a log-in, a route."""

from __future__ import annotations

import calendar
import re
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from skitter.domains import host_without_port, is_address, is_public_suffix
from skitter.model import Request, Response, SessionNews
from skitter.urls import origin_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


MAX_COOKIES: Final = 180
MAX_BYTES: Final = 64 * 2**10
#: RFC 6265bis 5.6: name and value together, one attribute, longest lifetime.
_PAIR_BYTES, _ATTRIBUTE_BYTES, _LONGEST_S = 4096, 1024, 400 * 86_400
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")  # and surrogates
_WSP: Final = " \t"
_DELIMITERS: Final = re.compile(r"[\x09\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_TIME: Final = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\D|$)")
_DAY: Final = re.compile(r"(\d{1,2})(?:\D|$)")
_YEAR: Final = re.compile(r"(\d{2,4})(?:\D|$)")
_MONTHS: Final = "janfebmaraprmayjunjulaugsepoctnovdec"
_MAX_AGE: Final = re.compile(r"-?[0-9]+")


class Cookie(msgspec.Struct, frozen=True, array_like=True):
    """One cookie; its key in a jar is its domain, path and name."""

    name: str
    value: str
    domain: str
    path: str
    host_only: bool
    secure: bool
    made: float  # seconds since the epoch
    expires: float | None = None  # None: with the session

    @property
    def key(self) -> str:
        return f"{self.domain};{self.path};{self.name}"

    @property
    def size_bytes(self) -> int:
        return len(self.key) + len(self.value)

    def is_for(self, where: CookieTarget, *, now: float) -> bool:
        is_here = where.host == self.domain if self.host_only else where.is_in(self.domain)
        return (
            is_here
            and (where.secure or not self.secure)
            and where.is_below(self.path)
            and (self.expires is None or self.expires > now)
        )


class CookieTarget(NamedTuple):
    """Where a request goes, as cookies see it: without the port."""

    host: str
    path: str
    secure: bool

    @classmethod
    def of(cls, url: str) -> CookieTarget:
        parts = urlsplit(url)
        host = host_without_port(parts.netloc.rpartition("@")[2]).strip("[]").rstrip(".").lower()
        return cls(host, parts.path or "/", parts.scheme == "https")

    def is_in(self, domain: str) -> bool:
        """RFC 6265bis 5.1.3: the domain itself or a name below it; an address has none."""
        return self.host == domain or (
            self.host.endswith(f".{domain}") and not is_address(self.host)
        )

    def is_below(self, path: str) -> bool:
        """RFC 6265bis 5.1.4."""
        if not self.path.startswith(path):
            return False
        return len(self.path) == len(path) or path.endswith("/") or self.path[len(path)] == "/"

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0] or "/"


@dataclass(slots=True)
class Jar:
    """The cookies of one session, as browsers keep them (RFC 6265bis), and what has changed.

    No library fits (docs/adr/0023): `http.cookiejar` follows the rules of 1997, has no suffix list
    and is stored as a whole; wreq's jar belongs to a client. SameSite does not apply: we visit no
    page on behalf of another. A server may set 180 cookies of 4 KB, 64 KB in all; beyond that the
    oldest go.
    """

    cookies: dict[str, Cookie] = field(default_factory=dict)
    added: dict[str, Cookie] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)

    def header_for(self, url: str, *, now: float) -> str:
        """The Cookie header; empty: none."""
        if not self.cookies:
            return ""
        where = CookieTarget.of(url)
        found = [cookie for cookie in self.cookies.values() if cookie.is_for(where, now=now)]
        found.sort(key=lambda cookie: (-len(cookie.path), cookie.made))
        return "; ".join(
            f"{cookie.name}={cookie.value}" if cookie.name else cookie.value for cookie in found
        )

    def take(self, response: Response, *, now: float) -> None:
        """Keep cookies that a response sets, and drop those it expires."""
        lines = [value for name, value in response.headers if name == "set-cookie"]
        if not lines:
            return
        where = CookieTarget.of(response.url)
        for line in lines:
            if (cookie := parse(line, where, now=now)) and self._may_set(cookie, where):
                self._set(cookie, now)
        self._make_room()

    def settle(self) -> None:
        """All changes have been stored."""
        self.added, self.removed = {}, set()

    def _may_set(self, cookie: Cookie, where: CookieTarget) -> bool:
        """RFC 6265bis 5.7, 16: http must not replace a secure cookie."""
        return where.secure or not any(
            one.secure
            and one.name == cookie.name
            and (_is_in(one.domain, cookie.domain) or _is_in(cookie.domain, one.domain))
            and CookieTarget("", cookie.path, secure=False).is_below(one.path)
            for one in self.cookies.values()
        )

    def _set(self, cookie: Cookie, now: float) -> None:
        key, old = cookie.key, self.cookies.get(cookie.key)
        if cookie.expires is not None and cookie.expires <= now:
            self._remove(key)
        elif old is None or msgspec.structs.replace(cookie, made=old.made) != old:
            self.cookies[key] = self.added[key] = msgspec.structs.replace(
                cookie, made=old.made if old else cookie.made
            )
            self.removed.discard(key)

    def _remove(self, key: str) -> None:
        if self.cookies.pop(key, None):
            self.added.pop(key, None)
            self.removed.add(key)

    def _make_room(self) -> None:
        size = sum(cookie.size_bytes for cookie in self.cookies.values())
        for cookie in sorted(self.cookies.values(), key=lambda cookie: cookie.made):
            if len(self.cookies) <= MAX_COOKIES and size <= MAX_BYTES:
                return
            size -= cookie.size_bytes
            self._remove(cookie.key)


def parse(line: str, where: CookieTarget, *, now: float) -> Cookie | None:
    """One Set-Cookie header; None: ignore it (RFC 6265bis 5.6 and 5.7)."""
    if _CONTROL.search(line):
        return None
    pair, *rest = line.split(";")
    name, equals, value = (part.strip(_WSP) for part in pair.partition("="))
    if not equals:
        name, value = "", name
    if not (name or value) or len(name.encode()) + len(value.encode()) > _PAIR_BYTES:
        return None
    said = _attributes(rest)
    if (domain := _domain_of(said.get("domain", ""), where)) is None:
        return None
    path = said.get("path", "")
    cookie = Cookie(
        name=name,
        value=value,
        domain=domain or where.host,
        path=path if path.startswith("/") else where.folder,
        host_only=not domain,
        secure="secure" in said,
        made=now,
        expires=_expiry(said, now),
    )
    return cookie if _keeps_promises(cookie, said, where) else None


def _attributes(parts: Iterable[str]) -> dict[str, str]:
    """Attributes by name in lower case; the last one wins."""
    pairs = (part.partition("=") for part in parts)
    return {
        name.strip(_WSP).lower(): value.strip(_WSP)
        for name, _, value in pairs
        if len(value) <= _ATTRIBUTE_BYTES
    }


def _domain_of(said: str, where: CookieTarget) -> str | None:
    """The domain of the cookie; empty: this host only; None: another site's, or a public suffix."""
    domain = said.removeprefix(".").lower()
    if not domain:
        return ""
    if not domain.isascii() or not where.is_in(domain):
        return None
    if is_public_suffix(domain) or is_address(domain):
        return "" if domain == where.host else None
    return domain


def _keeps_promises(cookie: Cookie, said: dict[str, str], where: CookieTarget) -> bool:
    """Secure only over https, and the rules of name prefixes."""
    if cookie.secure and not where.secure:
        return False
    marked = (cookie.name or cookie.value).lower()
    if marked.startswith("__secure-"):
        return bool(cookie.name) and cookie.secure
    if marked.startswith("__host-"):
        own = cookie.host_only and cookie.path == "/" and said.get("path") == "/"
        return bool(cookie.name) and cookie.secure and own
    return True


def _expiry(said: dict[str, str], now: float) -> float | None:
    """Max-Age wins; invalid values are ignored."""
    if _MAX_AGE.fullmatch(age := said.get("max-age", "")):
        seconds = int(age) if len(age) < 12 else -1 if age.startswith("-") else _LONGEST_S
        return now + min(seconds, _LONGEST_S) if seconds > 0 else 0.0
    at = parse_date(said.get("expires", ""))
    return None if at is None else min(at, now + _LONGEST_S)


def parse_date(text: str) -> float | None:
    """RFC 6265bis 5.1.1: the first token of each kind counts, in any order."""
    time = day = month = year = None
    for token in _DELIMITERS.split(text):
        if time is None and (found := _TIME.match(token)):
            time = tuple(map(int, found.groups()))
        elif day is None and (found := _DAY.match(token)):
            day = int(found[1])
        elif month is None and (number := _month(token[:3].lower())):
            month = number
        elif year is None and (found := _YEAR.match(token)):
            year = int(found[1])
    if time is None or day is None or month is None or year is None:
        return None
    year += 1900 if 70 <= year <= 99 else 2000 if year <= 69 else 0
    is_valid = 1 <= day <= 31 and year >= 1601 and time[0] <= 23 and max(time[1:]) <= 59
    if not is_valid or day > calendar.monthrange(min(year, 9999), month)[1]:
        return None
    return float(calendar.timegm((min(year, 9999), month, day, *time, 0, 0, 0)))


def _month(name: str) -> int:
    """1 for `jan`; 0: not a month."""
    at = _MONTHS.find(name)
    return at // 3 + 1 if len(name) == 3 and at % 3 == 0 and at >= 0 else 0


def _is_in(name: str, domain: str) -> bool:
    return name == domain or name.endswith(f".{domain}")


#: The session of the current request, for routes and browsers; each attempt is its own task.
SESSION: ContextVar[Session | None] = ContextVar("skitter_session", default=None)
#: The route of this task's last request: a session that begins with it stays on it.
ROUTE: ContextVar[str] = ContextVar("skitter_route", default="")
#: Prefix of cookies' fields on the server.
_COOKIE: Final = "c:"
_HEADERS, _ORIGIN, _ROUTE, _LOGIN = "headers", "origin", "route", "login"
# As text: the msgpack of Redis has no bytes type.
_encode = msgspec.json.Encoder().encode
_decode_cookie = msgspec.json.Decoder(Cookie).decode
_decode_headers = msgspec.json.Decoder(dict[str, str]).decode


@dataclass(slots=True)
class Session:
    """One identity at one site, for one attempt. Changes are sent as `news`."""

    name: str  # site/class
    number: int = 0  # 0: the server has none yet
    jar: Jar = field(default_factory=Jar)
    #: Headers from a log-in, such as a bearer token; sent only to `origin`.
    headers: dict[str, str] = field(default_factory=dict)
    origin: str = ""
    route: str = ""  # of [[proxy]]; empty: none was chosen
    has_new_route: bool = False
    login: int = 0  # number of this log-in; 0: not logged in
    score: float = 0.0  # how often it was refused recently
    errors: float = 0.0  # how this attempt changes that
    logged_out: bool = False
    claim: str = ""  # while we log it in

    @classmethod
    def of(cls, name: str, number: int, score: float, fields: Mapping[str, bytes]) -> Session:
        """As the server has it. Unreadable parts are dropped: anybody may have written them."""
        cookies = (_cookie(value) for key, value in fields.items() if key.startswith(_COOKIE))
        return cls(
            name=name,
            number=number,
            score=score,
            jar=Jar({cookie.key: cookie for cookie in cookies if cookie}),
            headers=_headers(fields.get(_HEADERS, b"")),
            origin=fields.get(_ORIGIN, b"").decode("utf-8", "replace"),
            route=fields.get(_ROUTE, b"").decode("utf-8", "replace"),
            login=int(login) if (login := fields.get(_LOGIN, b"0")).isdigit() else 0,
        )

    @property
    def id(self) -> str:
        return f"{self.name}/{self.number}"

    def dress(self, request: Request, *, now: float) -> Request:
        """The request as it is sent. Its own Cookie header replaces ours."""
        extra: dict[str, str] = {}
        if cookies := self.jar.header_for(request.url, now=now):
            extra["cookie"] = cookies
        if self.headers and origin_of(request.url) == self.origin:
            extra |= self.headers
        if not extra:
            return request
        own = {name.lower(): value for name, value in request.headers.items()}
        return msgspec.structs.replace(request, headers=extra | own)

    def note(self, *, refused: bool) -> None:
        """Note whether the site refused. As in Crawlee, a page that arrives offsets half a
        refusal."""
        self.errors = 1.0 if refused else -min(0.5, self.score)

    def go_by(self, route: str) -> None:
        """Use this route from now on; the server is told."""
        self.has_new_route = self.has_new_route or route != self.route
        self.route = route

    def take(self, response: Response, *, now: float) -> None:
        """Take the cookies of a response, including redirects."""
        self.jar.take(response, now=now)

    @property
    def fields(self) -> dict[str, str]:
        """What is new, as the server keeps it."""
        cookies = {
            f"{_COOKIE}{key}": _encode(cookie).decode() for key, cookie in self.jar.added.items()
        }
        return cookies | ({_ROUTE: self.route} if self.has_new_route else {})

    @property
    def login_fields(self) -> dict[str, str]:
        """The same, with the headers from a log-in."""
        headers = {_HEADERS: _encode(self.headers).decode(), _ORIGIN: self.origin}
        return self.fields | (headers if self.headers else {})

    def news(self) -> SessionNews | None:
        """What to tell the server; None: nothing."""
        said: dict[str, Any] = {}
        if fields := self.fields:
            said["fields"] = [part for pair in fields.items() for part in pair]
        if self.jar.removed:
            said["gone"] = [f"{_COOKIE}{key}" for key in self.jar.removed]
        if self.number and self.errors:
            said["errors"] = self.errors
        if self.number and self.logged_out:
            said["logged_out"] = self.login
        return SessionNews(name=self.name, number=self.number, **said) if said else None


def _cookie(data: bytes) -> Cookie | None:
    try:
        return _decode_cookie(data)
    except ValueError:  # msgspec's errors are ValueErrors
        return None


def _headers(data: bytes) -> dict[str, str]:
    try:
        return _decode_headers(data) if data else {}
    except ValueError:
        return {}
