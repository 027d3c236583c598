"""Copies the cookies of a session into a browser, and back.

They come back as Set-Cookie lines of the response, whether a server or a script set them, and are
subject to the same rules. Those of other hosts stay in the browser.
"""

from __future__ import annotations

from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.fetch.cookies import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skitter.fetch.cookies import Cookie, Jar
    from skitter.model import Response


def to_browser(cookies: Iterable[Cookie]) -> list[dict[str, Any]]:
    """In Playwright's format."""
    return [
        {
            "name": one.name,
            "value": one.value,
            "domain": one.domain if one.host_only else f".{one.domain}",
            "path": one.path,
            "expires": -1 if one.expires is None else one.expires,
            "secure": one.secure,
        }
        for one in cookies
        if one.name
    ]


def with_cookies(response: Response, found: list[dict[str, Any]], before: Jar | None) -> Response:
    """The response, with cookies that the browser has now and deletions of those it lost."""
    where = Place.of(response.url)
    here = [one for one in found if _is_of(one, where)]
    lines = [*map(_line, here), *_gone(here, before, where)]
    new = tuple(("set-cookie", line) for line in lines)
    return msgspec.structs.replace(response, headers=response.headers + new) if new else response


def _is_of(cookie: dict[str, Any], where: Place) -> bool:
    domain = cookie["domain"]
    return where.is_in(domain[1:]) if domain.startswith(".") else domain.strip("[]") == where.host


def _line(cookie: dict[str, Any]) -> str:
    parts = [f"{cookie['name']}={cookie['value']}", f"Path={cookie['path']}"]
    if cookie["domain"].startswith("."):
        parts.append(f"Domain={cookie['domain']}")
    if cookie["secure"]:
        parts.append("Secure")
    if cookie["expires"] > 0:
        parts.append(f"Expires={formatdate(cookie['expires'], usegmt=True)}")
    return "; ".join(parts)


def _gone(here: list[dict[str, Any]], before: Jar | None, where: Place) -> Iterator[str]:
    left = {(one["name"], one["domain"].lstrip(".").strip("[]"), one["path"]) for one in here}
    for one in before.cookies.values() if before else ():
        is_here = where.host == one.domain if one.host_only else where.is_in(one.domain)
        if is_here and one.name and (one.name, one.domain, one.path) not in left:
            domain = "" if one.host_only else f"; Domain={one.domain}"
            yield f"{one.name}=; Path={one.path}{domain}; Max-Age=0"
