"""Session: who we are to a site. Cookies, headers from a log-in, and a route."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skitter.fetch.cookies import Cookie, Jar
from skitter.model import Request, Response, SessionNews
from skitter.urls import origin_of

if TYPE_CHECKING:
    from collections.abc import Mapping

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
            jar=Jar({one.key: one for one in cookies if one}),
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
        cookies = {f"{_COOKIE}{key}": _encode(one).decode() for key, one in self.jar.added.items()}
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
