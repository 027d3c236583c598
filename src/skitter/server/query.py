"""Query parameters shared by several routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec

from skitter.server.problems import Refusal
from skitter.server.route import Rows

T = TypeVar("T")

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


class Search(Page, frozen=True, kw_only=True):
    """`search`: part of the name, ignoring case; `after`: how many to skip, the `next` before."""

    search: str = ""

    @property
    def start(self) -> int:
        if self.after and not (self.after.isdecimal() and len(self.after) < 10):
            says = "`after` must be the `next` of the page before."
            raise Refusal(422, says, field="after")
        return int(self.after or 0)

    def fits(self, *texts: str) -> bool:
        words = self.search.lower()
        return any(words in text.lower() for text in texts)

    def page(self, rows: Sequence[T]) -> Rows[T]:
        """This page of all rows that match, in their order."""
        end = self.start + self.limit
        more = str(end) if end < len(rows) else None
        return Rows(rows=list(rows[self.start : end]), next=more, total=len(rows))
