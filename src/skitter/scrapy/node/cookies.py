"""Cookies that all nodes share: Scrapy's own jars, kept in step with the frontier's sessions.

A session is a site (registrable domain) and a `cookiejar`. What a response sets is in the jar of
its node at once, as in plain Scrapy. The server gets it in the step that completes the page, so the
requests that the page led to have it on every node. What other nodes learned comes with leases.
"""

from __future__ import annotations

import http.cookiejar
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
from scrapy.http.cookies import CookieJar

from skitter.domains import registrable_domain
from skitter.errors import UsageError
from skitter.fetch.session import MAX_COOKIES, Cookie
from skitter.frontier.completions import MAX_LINK_BYTES, MAX_LINKS
from skitter.frontier.sites.sessions import Wanted, note_sessions, open_sessions
from skitter.model import SessionNews
from skitter.scrapy.node.mailbox import ORIGIN, LooseCookies, OpenLease, Settled, Stored
from skitter.scrapy.requests.codec import jar_name
from skitter.settings import SessionPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrapy import Request as ScrapyRequest
    from scrapy.downloadermiddlewares.cookies import CookiesMiddleware

    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease
    from skitter.scrapy.node.mailbox import Changes, Mailbox, Parcel

_FIELD: Final = "c:"  # as fetch/session.py stores cookies
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Cookie).decode


def session_name(url: str, jar: str) -> str:
    """The name of a session; empty: a URL without a host has none."""
    host = urlsplit(url).hostname
    return f"{registrable_domain(host)}/{jar}" if host else ""


# --- on the engine's thread -----------------------------------------------------------------------


class SharedCookies:
    """Notes what changes in the jars of a CookiesMiddleware; merges what others have changed."""

    def __init__(self, mailbox: Mailbox, put: Callable[[Parcel], None]) -> None:
        self._mailbox, self._put = mailbox, put
        self._jars: dict[str, SharedJar] = {}  # by their names
        self._kept: dict[str, dict[str, http.cookiejar.Cookie]] = {}  # session -> field -> cookie
        self._unsent: dict[str, Changes] = {}  # session -> changes that the server may not have
        self._unread: dict[str, Stored] = {}  # sessions whose jar nobody has used here

    def share(self, middleware: CookiesMiddleware) -> None:
        middleware.jars = _Jars(self)  # type: ignore[assignment]

    def open_jar(self, cookiejar: Any) -> CookieJar:
        """A jar for this value of `meta["cookiejar"]`; one that cannot be sent is not shared."""
        try:
            name = jar_name(cookiejar)
        except UsageError:
            return CookieJar()
        jar = self._jars[name] = SharedJar(self, name)
        for session in [one for one in self._unread if one.partition("/")[2] == name]:
            self._merge(self._unread.pop(session), jar)
        return jar

    def note(self, jar: SharedJar, cookie: http.cookiejar.Cookie, *, gone: bool = False) -> None:
        """A jar has changed: for the page whose request did it, if any."""
        request = jar.request
        url = request.url if request else f"http://{cookie.domain.strip('.')}/"
        if not (session := session_name(url, jar.name)):
            return
        field, kept = _field(cookie), self._kept.setdefault(session, {})
        text = None if gone else _write(cookie)
        if (_write(kept[field]) if field in kept else None) == text:
            return
        if gone:
            del kept[field]
        else:
            kept[field] = cookie
        self._unsent.setdefault(session, {})[field] = text
        if (entry := self._owner(request)) is None:
            self._put(LooseCookies(session, {field: text}))
        else:
            entry.cookies.setdefault(session, {})[field] = text
        if len(kept) > MAX_COOKIES:  # as browsers do; the server keeps few more
            oldest = next(iter(kept.values()))
            jar.clear(oldest.domain, oldest.path, oldest.name)

    def _owner(self, request: ScrapyRequest | None) -> OpenLease | None:
        entry = self._mailbox.active.get(request) if request else None
        origin = entry or ORIGIN.get()
        return origin if isinstance(origin, OpenLease) and not origin.is_over else None

    def refresh(self) -> None:
        """Read what the node's thread has put down, in that order."""
        waiting = self._mailbox.cookies
        while waiting:
            one = waiting.popleft()
            jar = self._jars.get(one.name.partition("/")[2])
            if isinstance(one, Settled):
                self._settle(one)
            elif jar is not None:
                self._merge(one, jar)
            else:
                self._unread[one.name] = one

    def _settle(self, settled: Settled) -> None:
        unsent = self._unsent.get(settled.name, {})
        for field, text in settled.changes.items():
            if field in unsent and unsent[field] == text:
                del unsent[field]

    def _merge(self, stored: Stored, jar: SharedJar) -> None:
        """Changes of ours that the server may not have yet are newer."""
        unsent = self._unsent.get(stored.name, {})
        kept = self._kept.setdefault(stored.name, {})
        theirs = {
            field: cookie
            for field, data in stored.fields.items()
            if field.startswith(_FIELD) and (cookie := _read(data))
        }
        for field in [one for one in kept if one not in theirs and one not in unsent]:
            jar.discard(kept.pop(field))
        for field, cookie in theirs.items():
            if field not in unsent:
                kept[field] = cookie
                jar.put(cookie)


class _Jars(dict[Any, CookieJar]):
    """Jars by `meta["cookiejar"]`, made on first use."""

    def __init__(self, shared: SharedCookies) -> None:
        super().__init__()
        self._shared = shared

    def __missing__(self, cookiejar: Any) -> CookieJar:
        jar = self[cookiejar] = self._shared.open_jar(cookiejar)
        return jar


class SharedJar(CookieJar):
    """A jar of Scrapy's that tells of its changes."""

    def __init__(self, shared: SharedCookies, name: str) -> None:
        super().__init__()
        self.name = name
        self.request: ScrapyRequest | None = None  # that is now read or written
        self._shared = shared
        self.put, self._clear = self.jar.set_cookie, self.jar.clear  # without telling
        # http.cookiejar calls these two for every change.
        self.jar.set_cookie = self._on_set  # type: ignore[method-assign]
        self.jar.clear = self._on_clear  # type: ignore[method-assign]

    def discard(self, cookie: http.cookiejar.Cookie) -> None:
        """Remove it without telling; it may be gone already."""
        if cookie in (one for one in self.jar if _field(one) == _field(cookie)):
            self._clear(cookie.domain, cookie.path, cookie.name)

    def _on_set(self, cookie: http.cookiejar.Cookie) -> None:
        self.put(cookie)
        self._shared.note(self, cookie)

    def _on_clear(
        self, domain: str | None = None, path: str | None = None, name: str | None = None
    ) -> None:
        gone = [
            cookie
            for cookie in self.jar
            if domain in (None, cookie.domain)
            and path in (None, cookie.path)
            and name in (None, cookie.name)
        ]
        self._clear(domain, path, name)
        for cookie in gone:
            self._shared.note(self, cookie, gone=True)

    # --- what a CookiesMiddleware calls -----------------------------------------------------------

    def add_cookie_header(self, request: ScrapyRequest) -> None:
        self._shared.refresh()
        super().add_cookie_header(request)

    def extract_cookies(self, response: Any, request: ScrapyRequest) -> None:
        self._for(request, super().extract_cookies, response, request)

    def make_cookies(self, response: Any, request: ScrapyRequest) -> Any:
        return self._for(request, super().make_cookies, response, request)

    def set_cookie_if_ok(self, cookie: http.cookiejar.Cookie, request: ScrapyRequest) -> None:
        self._for(request, super().set_cookie_if_ok, cookie, request)

    def _for(self, request: ScrapyRequest, work: Callable[..., Any], *args: Any) -> Any:
        self.request = request
        try:
            return work(*args)
        finally:
            self.request = None


def _field(cookie: http.cookiejar.Cookie) -> str:
    return f"{_FIELD}{cookie.domain};{cookie.path};{cookie.name}"


def _write(cookie: http.cookiejar.Cookie) -> str:
    """As our own workers store it."""
    return _encode(
        Cookie(
            name=cookie.name,
            value=cookie.value or "",
            domain=cookie.domain,
            path=cookie.path,
            host_only=not cookie.domain_specified,
            secure=bool(cookie.secure),
            made=0.0,
            expires=cookie.expires,
        )
    ).decode()


def _read(data: bytes) -> http.cookiejar.Cookie | None:
    """None: another program wrote it."""
    try:
        cookie = _decode(data)
    except ValueError:
        return None
    return http.cookiejar.Cookie(
        version=0,
        name=cookie.name,
        value=cookie.value,
        port=None,
        port_specified=False,
        domain=cookie.domain,
        domain_specified=not cookie.host_only,
        domain_initial_dot=cookie.domain.startswith("."),
        path=cookie.path,
        path_specified=True,
        secure=cookie.secure,
        expires=None if cookie.expires is None else int(cookie.expires),
        discard=cookie.expires is None,
        comment=None,
        comment_url=None,
        rest={},
    )


# --- on the node's thread -------------------------------------------------------------------------


class SharedSessions:
    """Loads sessions for leases, and sends what pages have changed."""

    def __init__(self, frontier: Frontier, mailbox: Mailbox) -> None:
        self._frontier, self._mailbox = frontier, mailbox
        self._known: dict[str, str] = {}  # session -> number and version

    async def open(self, leases: Sequence[Lease]) -> None:
        """Load what has changed in their sessions, before the engine gets the leases. Costs nothing
        while no site has set a cookie."""
        wanted: dict[str, Wanted] = {}
        for lease in leases:
            if not self._frontier.has_sessions(lease.host):
                continue
            if name := _session_of(lease):
                wanted[name] = Wanted(
                    _site(name), name, make=False, known=self._known.get(name, "")
                )
        if not wanted:
            return
        opened = await open_sessions(self._frontier, [*wanted.values()], SessionPool())
        for name, session in zip(wanted, opened, strict=True):
            self._known[name] = f"{session.number} {session.version}"
            if session.fields:
                self._mailbox.cookies.append(Stored(name, session.fields))

    def ahead(
        self, entries: Iterable[OpenLease], loose: Iterable[LooseCookies]
    ) -> list[SessionNews]:
        """What has to be there before links are sent. The rest is sent as these leases end."""
        news = [_news(cookies.name, cookies.changes) for cookies in loose]
        for entry in entries:
            own = _session_of(entry.lease) if entry.cookies else ""
            for name, changes in entry.cookies.items():
                if name != own or self._is_early(entry, name):
                    news.append(_news(name, changes))
                else:
                    entry.feedback.session = _news(name, changes)
        return news

    async def send(self, news: Sequence[SessionNews]) -> None:
        await note_sessions(self._frontier, [(_site(session.name), session) for session in news])
        for session in news:
            self._settle(session)

    def settle(self, entry: OpenLease, *, is_kept: bool) -> None:
        """The lease has ended. If that was too late, its cookies do not count."""
        if (news := entry.feedback.session) is not None:
            self._settle(news)
            if not is_kept:
                self._known.pop(news.name, None)  # load it again

    def _settle(self, news: SessionNews) -> None:
        changes: Changes = dict(zip(news.fields[::2], news.fields[1::2], strict=True))
        changes |= dict.fromkeys(news.gone)
        self._mailbox.cookies.append(Settled(news.name, changes))

    def _is_early(self, entry: OpenLease, name: str) -> bool:
        """Whether some of its links may be fetched before its lease has ended."""
        links, shard_of = entry.links, self._frontier.layout.shard_of
        home = shard_of(_site(name))
        return (
            bool(entry.error or entry.is_returned)
            or len(links) > MAX_LINKS
            or sum(link.offer.size_bytes for link in links) > MAX_LINK_BYTES
            or shard_of(entry.lease.host) != home
            or any(link.offer.shard != home for link in links)
        )


def _session_of(lease: Lease) -> str:
    return session_name(lease.request.url, str(lease.request.meta.get("jar", "")))


def _site(name: str) -> str:
    return name.partition("/")[0]


def _news(name: str, changes: Changes) -> SessionNews:
    fields = [part for pair in changes.items() if pair[1] is not None for part in pair]
    gone = [field for field, text in changes.items() if text is None]
    return SessionNews(name=name, fields=fields, gone=gone)  # type: ignore[arg-type]
