"""Where Scrapy's downloader may go: no private address, no foreign proxy."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from skitter.errors import AddressRefused, BadURL, UsageError
from skitter.fetch.http.guard import (
    Guard,
    Resolver,
    authority_of,
    is_address,
    refusal,
    refusal_of_name,
)
from skitter.redact import redact
from skitter.scrapy.node.mailbox import OpenLease

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from skitter.fetch.http.guard import Authority
    from skitter.scrapy.internals import ScrapyEngine


#: Schemes that any page may link to.
SCHEMES = frozenset({"http", "https", "data", "about"})


class GuardMiddleware:
    """The guard against private addresses: no page, redirect or feed message may lead a node into
    its own network. On unless SKITTER_GUARD is False.

    It runs nearest to the downloader, so it sees the final request. Twisted gets a resolver that
    filters addresses, so only those that pass are dialled. Without Twisted's reactor, or with
    custom download handlers, the name is resolved and checked before the request, and the address
    that answered is checked after it.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        name = "SKITTER_ALLOW_HOSTS"
        if not settings.getpriority(name):  # nobody has set it: compatibility.RENAMED
            name = "SKITTER_ALLOWED_HOSTS"
        self._allowed = frozenset(settings.getlist(name))
        self._seeds: set[str] = set()
        self.trusts_start = settings.getbool("SKITTER_TRUST_START", default=True)
        self.guard = Guard(self._allowed)
        twisted = settings.getbool("TWISTED_REACTOR_ENABLED", default=True)
        own_handlers = any(settings.getdict("DOWNLOAD_HANDLERS").values())
        self._schemes = {*SCHEMES, *settings.getlist("SKITTER_FEED_SCHEMES")}
        self._names = judging_names() if twisted and not own_handlers else None
        self._places: WeakKeyDictionary[Request, tuple[str, int]] = WeakKeyDictionary()
        self._resolver = None if self._names else Resolver()

    def allow_seed(self, url: str) -> None:
        """Allow a start URL that names localhost or a private address literally; a file: URL allows
        all files."""
        self._schemes.add(_scheme(url))
        if _is_http(url) and len(self._seeds) < 1000:
            with suppress(BadURL):  # it is refused when it is asked for
                self._allow_seed(_without_login(url))

    def _allow_seed(self, origin: str) -> None:
        if origin not in self._seeds and Guard.for_seeds([origin]).allowed_hosts:
            self._seeds.add(origin)
            self.guard = Guard.for_seeds(self._seeds, also=self._allowed)

    def process_request(self, request: Request, spider: Any = None) -> Awaitable[None] | None:
        self._check_scheme(request.url)
        whom = self._to_judge(request)
        if whom is None:
            return None
        if reason := refusal_of_name(whom.name):
            raise _refused(request.url, whom, reason)
        if request.meta.get("proxy"):
            return None  # the proxy resolves the name
        if self._names is not None:
            self._names = judging_names()  # Scrapy may have replaced it since
            self._places[request] = _place(whom)
            self._names.watch(_place(whom))
            return None
        return self._look_up(request.url, whom)

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Any:
        self._stop_watching(request)
        whom = self._to_judge(request)
        if whom is None or request.meta.get("proxy"):
            return response
        if response.ip_address and (reason := refusal(str(response.ip_address))):
            raise _refused(request.url, whom, reason)
        return response

    def process_exception(self, request: Request, exception: Any, spider: Any = None) -> None:
        if reason := self._stop_watching(request):
            raise _refused(request.url, _read(request.url), reason) from exception

    def _check_scheme(self, url: str) -> None:
        """Scrapy also handles file:, FTP and S3: a link on a page must not trigger that."""
        if _scheme(url) not in self._schemes:
            raise AddressRefused(
                url,
                f"only a spider's start may use {_scheme(url)}: addresses; to allow it, add "
                f"{_scheme(url)!r} to SKITTER_FEED_SCHEMES",
            )

    def _stop_watching(self, request: Request) -> str | None:
        place = self._places.pop(request, None)
        return self._names.forget(place) if self._names and place else None

    def _to_judge(self, request: Request) -> Authority | None:
        """The authority to check; None: no check needed. Raises AddressRefused if it cannot be
        read: clients repair and guess, so there is no telling where they would go."""
        if not _is_http(request.url):
            return None
        try:
            whom = _read(request.url)
        except BadURL as error:
            raise AddressRefused(
                request.url, f"its host cannot be checked: {error.reason}"
            ) from None
        return None if self.guard.permits(whom) else whom

    async def _look_up(self, url: str, whom: Authority) -> None:
        assert self._resolver is not None
        try:
            addresses = await self._resolver.resolve(whom.name)
        except (OSError, UnicodeError):
            return  # the downloader will report it
        for address in addresses:
            if reason := refusal(address):
                raise _refused(url, whom, reason)


def make_guard(crawler: Crawler, spider: Spider, engine: ScrapyEngine) -> GuardMiddleware | None:
    """None: SKITTER_GUARD is False."""
    if not crawler.settings.getbool("SKITTER_GUARD", default=True):
        return None
    guard = GuardMiddleware(crawler)
    # An argument does not change the class.
    for url in getattr(spider if guard.trusts_start else type(spider), "start_urls", ()):
        guard.allow_seed(url)
    engine.add_downloader_middleware(guard)
    return guard


class JudgingNames:
    """Wraps Twisted's resolver; for watched names it passes on only permitted addresses."""

    def __init__(self, below: Any) -> None:
        self._below = below
        self._watched: Counter[tuple[str, int]] = Counter()
        self._refusals: dict[tuple[str, int], str] = {}

    def watch(self, place: tuple[str, int]) -> None:
        self._watched[place] += 1

    def forget(self, place: tuple[str, int]) -> str | None:
        """Stop watching; returns why an address was refused, if any was."""
        reason = self._refusals.get(place)
        self._watched[place] -= 1
        if self._watched[place] <= 0:
            del self._watched[place]
            self._refusals.pop(place, None)
        return reason

    def resolveHostName(
        self, receiver: Any, name: str, port: int = 0, *rest: Any, **more: Any
    ) -> Any:
        port = more.pop("portNumber", port)
        place = name.lower().removesuffix("."), port
        if place in self._watched:
            receiver = _Judge(receiver, place, self._refusals)
        return self._below.resolveHostName(receiver, name, port, *rest, **more)


class _Judge:
    """A resolution receiver that filters addresses."""

    def __init__(
        self, receiver: Any, place: tuple[str, int], refusals: dict[tuple[str, int], str]
    ) -> None:
        self._receiver, self._place, self._refusals = receiver, place, refusals
        self.resolutionBegan = receiver.resolutionBegan
        self.resolutionComplete = receiver.resolutionComplete

    def addressResolved(self, address: Any) -> None:
        if reason := refusal(address.host):
            self._refusals[self._place] = reason
        else:
            self._receiver.addressResolved(address)


def judging_names() -> JudgingNames:
    """Wrap the reactor's resolver in ours, once."""
    from twisted.internet import reactor
    from twisted.internet.interfaces import IHostnameResolver, IResolutionReceiver
    from zope.interface import classImplements  # type: ignore[import-untyped]

    known: Any = reactor
    if not isinstance(known.nameResolver, JudgingNames):
        classImplements(JudgingNames, IHostnameResolver)
        classImplements(_Judge, IResolutionReceiver)
        known.installNameResolver(JudgingNames(known.nameResolver))
    found: JudgingNames = known.nameResolver
    return found


def _scheme(url: str) -> str:
    return url.partition(":")[0].lower()


def _is_http(url: str) -> bool:
    return url[:5].lower() == "http:" or url[:6].lower() == "https:"


def _place(whom: Authority) -> tuple[str, int]:
    return whom.name, int(whom.host_port.rpartition(":")[2])


def _without_login(url: str) -> str:
    """The URL up to its path, as `urlsplit` divides it: Scrapy's clients go by that. Raises BadURL.

    Credentials are legal in Scrapy, and the guard's own parser refuses them.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadURL(url, f"{error}.") from None
    if "\\" in parts.netloc:  # where a browser ends the host, and Python does not
        raise BadURL(url, "there is a backslash in its host.")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/"


def _read(url: str) -> Authority:
    """Raises BadURL, also where Scrapy's clients would look up another name than the one judged:
    to them, an escape is a part of it."""
    origin = _without_login(url)
    whom = authority_of(origin)
    dialled = urlsplit(origin).hostname or ""
    if dialled.removesuffix(".") != whom.name and not is_address(whom.name):
        raise BadURL(url, "there are escapes in its host.")
    return whom


def _refused(url: str, whom: Authority, reason: str) -> AddressRefused:
    word = whom.host_port
    return AddressRefused(url, f"{reason}: to allow it, add {word!r} to SKITTER_ALLOW_HOSTS")


#: Strict, since Scrapy and urllib disagree about where the host is in `http://a?@b`.
_ADDRESS: Final = re.compile(
    r"(?:https?://)?(?:[^@/?#\\\s]*@)?([\w.-]+|\[[\da-f:.]+\])(:\d+)?/?", re.ASCII | re.IGNORECASE
)

_CHOSEN: Final = ("proxy", "_auth_proxy")  # the second is Scrapy's: whose password is in the header


class StoredProxies:
    """The proxies that a stored request may name: those of SKITTER_PROXIES; all, if it is `*` or
    there is no guard.

    Whoever can write to Redis must not send a node's requests, with the passwords in them, through
    a machine of theirs or of the node's own network. What a downloader middleware chooses is not
    stored.
    """

    def __init__(self, settings: BaseSettings) -> None:
        self._named = {str(one).lower() for one in settings.getlist("SKITTER_PROXIES")}
        if not settings.getbool("SKITTER_GUARD", default=True):
            self._named.add("*")

    def check(self, meta: Any) -> None:
        """Raises UsageError for a proxy that is not named."""
        proxy = meta.get("proxy") if isinstance(meta, dict) else None
        if proxy and not self._permits(str(proxy)):
            raise UsageError(
                f"its meta chooses the proxy {redact(str(proxy))!r}, which could be anybody's: add "
                "its host to SKITTER_PROXIES, or choose it in a downloader middleware."
            )

    def _permits(self, proxy: str) -> bool:
        found = _ADDRESS.fullmatch(proxy)
        if not found:
            return "*" in self._named
        host, port = found[1].lower(), found[2] or ""
        return not self._named.isdisjoint(("*", host, host + port))


def without_chosen(request: Request, origin: object) -> Request:
    """The request without a proxy that a middleware chose for the page it is from, as retries,
    redirects and `meta=response.meta` have it: the middleware chooses again. Nor with the proxy's
    password, which Scrapy moves to a header: without that proxy, the site would get it."""
    chosen = origin.proxy if isinstance(origin, OpenLease) else None
    if not chosen or request.meta.get("proxy") != chosen:
        return request
    stored = request.replace(
        meta={name: value for name, value in request.meta.items() if name not in _CHOSEN}
    )
    stored.headers.pop(b"Proxy-Authorization", None)
    return stored
