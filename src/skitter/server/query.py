"""What several routes take in their query."""

from __future__ import annotations

from typing import Annotated

import msgspec

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query has no names that mean nothing."""


class First(Query, frozen=True, kw_only=True):
    """How many rows at the most."""

    limit: Limit = 100


class Page(First, frozen=True, kw_only=True):
    """`after`: the `next` of the page before."""

    after: str = ""
