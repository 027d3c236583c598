"""What several routes take in their query."""

from __future__ import annotations

from typing import Annotated

import msgspec

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]
ENTRY = r"\d{1,18}-\d{1,18}"
#: The id of an entry in a log; empty: none.
EntryId = Annotated[str, msgspec.Meta(pattern=rf"^({ENTRY})?$")]


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A name that means nothing is refused."""


class First(Query, frozen=True, kw_only=True):
    """At most so many rows."""

    limit: Limit = 100


class Page(First, frozen=True, kw_only=True):
    """`after`: the `next` of the page before."""

    after: str = ""
