"""A route ready for use: the gateway's URL for a country and session, or the API's URL for a page.

Secrets are kept here, in the worker's memory, and nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote, urlsplit

import msgspec

from skitter.settings.proxy import check_country

if TYPE_CHECKING:
    from skitter.model import Request
    from skitter.settings import Route

GB: Final = 2**30
MILLIONTHS: Final = 10**6
_OPTIONAL: Final = re.compile(r"\[([^\[\]]*)\]")
_FIELD: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Exit:
    """A route and its secret."""

    route: Route
    secret: str = field(default="", repr=False)

    @classmethod
    def open(cls, route: Route) -> Self:
        """Raises UsageError if its secret is missing."""
        return cls(route, route.read_secret() if route.secret else "")

    def proxy(self, *, country: str = "", session: str = "") -> str | None:
        """The proxy's URL; None: direct. It contains only a hash of the session's name."""
        if self.route.kind != "gateway":
            return None
        parts = urlsplit(self.route.url)
        user = fill(self.route.template or "{user}", self._values(country, session))
        if not user:
            return self.route.url
        password = f":{quote(self.secret, safe='')}" if self.secret else ""
        return f"{parts.scheme}://{quote(user, safe='')}{password}@{parts.netloc}"

    def through_api(self, request: Request, *, session: str = "") -> Request:
        """The request to the API that fetches the page for us."""
        values = self._values(request.country, session)
        values |= {"url": request.url, "secret": self.secret}
        values |= {"headers": "true" if request.headers else ""}
        query = fill(
            self.route.template, {name: quote(one, safe="") for name, one in values.items()}
        )
        return msgspec.structs.replace(request, url=f"{self.route.url}?{query}")

    def price(self, *, bytes: int) -> int:
        """In millionths, rounded up."""
        money = self.route.price_per_request + self.route.price_per_gb * bytes / GB
        return -int(-money * MILLIONTHS // 1)

    def _values(self, country: str, session: str) -> dict[str, str]:
        """The country becomes part of user names, so it is checked here. Raises BadOption."""
        country = check_country(country) if country else ""
        mark = blake2b(session.encode(), digest_size=6).hexdigest() if session else ""
        return {
            "user": self.route.user,
            "country": country,
            "COUNTRY": country.upper(),
            "session": mark,
            "number": str(int(mark, 16) % 10_000) if mark else "",
        }


def fill(template: str, values: dict[str, str]) -> str:
    """Fill in the template; a part in brackets is dropped if one of its fields is empty."""

    def part(found: re.Match[str]) -> str:
        fields = _FIELD.findall(found[1])
        return found[1] if all(values.get(name) for name in fields) else ""

    return _FIELD.sub(lambda found: values.get(found[1], ""), _OPTIONAL.sub(part, template))
