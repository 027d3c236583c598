"""Query parameters shared by several routes."""

from __future__ import annotations

from typing import Annotated

import msgspec

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]
ENTRY = r"\d{1,18}-\d{1,18}"
#: The id of a log entry, or empty.
EntryId = Annotated[str, msgspec.Meta(pattern=rf"^({ENTRY})?$")]


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unknown parameters are refused."""


class First(Query, frozen=True, kw_only=True):
    """`limit`: the most rows to return."""

    limit: Limit = 100


class Page(First, frozen=True, kw_only=True):
    """`after`: the `next` of the previous page."""

    after: str = ""
