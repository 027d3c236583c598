"""Scope: where a crawl may go. `Scope` is what the user sets, `Fence` decides link by link.

For the syntax of patterns see patterns.py.

    Scope(include=["/books/*"], exclude=["*?sort=*", r"re:/page/\\d{4,}"])
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from skitter.errors import BadOption, BadURL
from skitter.patterns import compile_pattern
from skitter.settings.widening import Widening, site_named, site_of, sites_above
from skitter.urls import MAX_URL_BYTES, identify

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Allowed(msgspec.Struct, frozen=True):
    """The crawl may go there."""


class Refused(msgspec.Struct, frozen=True):
    """It may not."""

    reason: str
    kind: str = "scope"  # refusals are counted by kind


ScopeVerdict = Allowed | Refused
ALLOWED: Final = Allowed()
ANY_HOST: Final = "*"
FILE: Final = "file"  # the kind of refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where links may lead. Seeds are exempt: someone asked for them.

    `hosts`: None for the hosts of the seeds, and for links that stay on the host of their page;
    `["*"]` for all. Hosts with and without `www.` are the same; a port other than the scheme's
    default is part of the name (`localhost:8000`).
    """

    #: Hosts that may be crawled; None: those of the seeds; ["*"]: all.
    hosts: Sequence[str] | None = None
    subdomains: bool = False  # also follow links to subdomains of these hosts
    include: Sequence[str] = ()  # patterns: follow only links that match one; empty: all
    exclude: Sequence[str] = ()  # patterns: never follow links that match one
    files: bool = True  # False: no PDFs, archives, pictures or media, by the ends of their names

    def __post_init__(self) -> None:
        for option in ("hosts", "include", "exclude"):
            if isinstance(getattr(self, option), str):
                raise BadOption(option, getattr(self, option), "a list of strings")
        for host in self.hosts or ():
            _site_of_option(host)
        for option in ("include", "exclude"):
            for pattern in getattr(self, option):
                compile_pattern(pattern, option=option)

    def fence(self, seeds: Iterable[str] = (), *, seeds_only: bool = False) -> Fence:
        """The scope with its seeds, which decides link by link."""
        return Fence(self, seeds, seeds_only=seeds_only)


class Fence:
    """A scope with its seeds. It does not check depth, as only the frontier knows whether there is
    a shorter path to a link; except for `seeds_only`, which refuses all links."""

    REMEMBERED = 10_000  # origins; most links of a crawl go to few hosts

    def __init__(self, scope: Scope, seeds: Iterable[str], *, seeds_only: bool = False) -> None:
        self._scope = scope
        self._seeds_only = seeds_only
        if scope.hosts is None:
            self._sites = frozenset(site_of(identify(seed).host) for seed in seeds)
        else:
            self._sites = frozenset(_site_of_option(host) for host in scope.hosts)
        self._include = [(p, compile_pattern(p)) for p in scope.include]
        self._exclude = [(p, compile_pattern(p)) for p in scope.exclude]
        self._hosts: dict[str, str | Refused] = {}

    def allows(
        self,
        url: str,
        *,
        depth: int = 0,
        parent: str | None = None,
        also: Widening | None = None,
    ) -> ScopeVerdict:
        """Whether a link may be followed, or why not. `parent` is the page it is on; `also` is an
        operator's addition to the scope."""
        if self._seeds_only and depth > 0:
            return Refused("max_depth is 0: no link is followed", "depth")
        host = self._host(url)
        if isinstance(host, Refused):
            return host
        site = site_of(host)
        if not (self._is_inside(site, parent) or (also and also.has_site(site))):
            return Refused(self._why_outside(host))
        if not self._scope.files and is_file(url):
            return Refused("it is a file, not a page", FILE)
        if not (self._include or self._exclude) or (also and also.has_pattern(url)):
            return ALLOWED
        return self._compare(url)

    def _host(self, url: str) -> str | Refused:
        """The host of a URL, or why the frontier would refuse it.

        Called for every link. A URL that looks normalised is parsed only once per origin; any
        other is parsed in full.
        """
        plain = _NORMALISED.match(url) if isinstance(url, str) else None
        if plain is None or len(url) > _SURELY_SHORT:
            return _identified(url)
        origin = plain[1]
        host = self._hosts.get(origin)
        if host is None:
            if len(self._hosts) >= self.REMEMBERED:
                self._hosts.clear()
            host = self._hosts[origin] = _identified(f"{origin}/")
        return host

    def _is_inside(self, site: str, parent: str | None) -> bool:
        if site in self._sites or ANY_HOST in self._sites:
            return True
        if self._scope.subdomains and any(above in self._sites for above in sites_above(site)):
            return True
        return self._scope.hosts is None and parent is not None and self._is_at_home(site, parent)

    def _is_at_home(self, site: str, parent: str) -> bool:
        """Whether a link stays on its page's site: seeds may come from a generator or a feed."""
        host = self._host(parent)
        if isinstance(host, Refused):
            return False
        home = site_of(host)
        return site == home or (self._scope.subdomains and home in sites_above(site))

    def _why_outside(self, host: str) -> str:
        if self._scope.hosts is None:
            return f"host {host} is neither a seed's nor the page's own"
        return f"host {host} is not among the allowed hosts"

    def _compare(self, url: str) -> ScopeVerdict:
        for text, pattern in self._exclude:
            if pattern.search(url):
                return Refused(f"it matches exclude pattern {text!r}")
        if self._include and not any(pattern.search(url) for _, pattern in self._include):
            return Refused("it matches no include pattern")
        return ALLOWED


ENDINGS: Final = (
    "pdf|ps|eps|djvu|epub|mobi|docx?|xlsx?|pptx?|od[pst]|rtf"
    "|zip|t?gz|bz2|xz|zst|7z|rar|tar|jar|war|iso|dmg|exe|msi|deb|rpm|apk|bin|img"
    "|jpe?g|png|gif|webp|avif|svgz?|ico|bmp|tiff?|heic|psd"
    "|mp[34]|m4[av]|og[agv]|opus|wav|flac|aac|webm|avi|mov|mkv|wmv|mpe?g|flv|ttf|otf|woff2?"
)
# With a colon it is a page about a file: /wiki/File:Map.png.
_FILE: Final = re.compile(rf"\w+://[^/?#]+/(?:[^?#]*/)?[^/?#:]*\.(?:{ENDINGS})(?:[?#]|\Z)", re.I)


def is_file(url: str) -> bool:
    """Whether the name in a URL is that of a document, an archive, a picture or media."""
    return _FILE.match(url) is not None


# As ada serializes URLs: lower-case host, a path, printable ASCII.
_NORMALISED: Final = re.compile(r"(https?://[a-z0-9.-]+(?::[0-9]+)?)/[!-~]*\Z")
_SURELY_SHORT: Final = MAX_URL_BYTES // 3  # even if every character is escaped


def _identified(url: str) -> str | Refused:
    try:
        return identify(url).host
    except BadURL as error:
        return Refused(error.reason)


def _site_of_option(host: str) -> str:
    if host == ANY_HOST:
        return host
    try:
        return site_named(host)
    except BadURL:
        raise BadOption("hosts", host, "host names such as 'example.com', or '*'") from None
