"""How far a running crawl may go beyond its spider's scope: hosts and patterns."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from skitter.errors import BadOption, BadURL
from skitter.patterns import compile_patterns, first_match
from skitter.urls import identify

BELOW: Final = "*."
HOSTS: Final = "hosts such as docs.example.com or *.example.com, with spaces between them"


class Widening(msgspec.Struct, frozen=True):
    """What an operator adds to a scope. It does not cover addresses: each worker's own
    configuration decides which may be connected to."""

    sites: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()  # with all their subdomains
    patterns: str = ""

    def has_site(self, site: str) -> bool:
        if site in self.sites or site in self.domains:
            return True
        return bool(self.domains) and any(above in self.domains for above in sites_above(site))

    def has_pattern(self, url: str) -> bool:
        """Whether it admits a URL that the spider's own patterns exclude."""
        return bool(self.patterns) and first_match(self.patterns, url) is not None


@lru_cache(maxsize=64)
def widening(hosts: str | None, patterns: str | None) -> Widening | None:
    """None: nothing to add. Raises BadOption."""
    if not hosts and not patterns:
        return None
    compile_patterns(patterns or "", option="also_include")
    names = (hosts or "").split()
    return Widening(
        sites=frozenset(_site(name) for name in names if not name.startswith(BELOW)),
        domains=frozenset(_site(name[2:]) for name in names if name.startswith(BELOW)),
        patterns=patterns or "",
    )


def _site(name: str) -> str:
    # A single `*` would set a crawl loose on the whole web.
    try:
        if "*" in name:
            raise BadURL(name, "it has a star within it.")
        return site_named(name)
    except BadURL:
        raise BadOption("also_hosts", name, HOSTS) from None


def site_named(name: str) -> str:
    """The site of a host name typed by a user. Raises BadURL."""
    if not isinstance(name, str) or set(name) & set("/\\?#@"):
        raise BadURL(str(name), "it is more than a host name.")
    return site_of(identify(f"http://{name}/").host.removesuffix(":443"))


def site_of(host: str) -> str:
    """A host with and without `www.` is the same site."""
    return host.removeprefix("www.")


def sites_above(site: str) -> list[str]:
    """The domains above a.b.c: b.c and c."""
    labels = site.split(".")
    return [".".join(labels[start:]) for start in range(1, len(labels))]
