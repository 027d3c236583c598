"""What a handler may get away with: failures that pass, and how much it yields. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from skitter.errors import SkitterError, UsageError
from skitter.spider.page.selectors import PageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.settings import Limits


_OF_THE_FILES: Final = (
    FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError,
)  # fmt: skip
#: The code does not fit the page: fetched again, the same page fails the same way.
_OF_THE_CODE: Final = (
    LookupError, TypeError, ValueError, AttributeError, NameError, ArithmeticError, AssertionError,
    ImportError, SyntaxError, NotImplementedError, RecursionError, StopIteration, SystemExit,
    PageError, UsageError, *_OF_THE_FILES,
)  # fmt: skip


def may_pass(error: BaseException) -> bool:
    """Whether a failure of a handler may pass, so that its page is worth fetching again.

    What its own I/O raises may, also as the cause of another error: OSError, which is what most
    clients raise, and our own errors that say so. Other errors of libraries may, too: nobody knows.
    An error of the code does not.
    """
    chain = list(_chain(error))
    return any(_is_of_a_network(cause) for cause in chain) or not isinstance(error, _OF_THE_CODE)


def _is_of_a_network(error: BaseException) -> bool:
    if isinstance(error, SkitterError):
        return error.retryable
    return isinstance(error, OSError) and not isinstance(error, _OF_THE_FILES)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


#: Limit for all items of a page, and for all its links. A page is completed in one step, which
#: blocks the server and holds everything in memory twice.
MAX_PAGE_BYTES: Final = 16 * 2**20
#: A handler is stopped once it has yielded this many times a page's limits. Known and out-of-scope
#: links do not count against the limits, but they do count here.
PATIENCE: Final = 10


class _Room(msgspec.Struct):
    """What is left of the limits for items, or for links."""

    limit: int
    left: int
    left_bytes: int = MAX_PAGE_BYTES
    too_heavy: int = 0

    def count(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def weigh(self, size_bytes: int) -> bool:
        if size_bytes > self.left_bytes:
            self.too_heavy += 1
            return False
        self.left_bytes -= size_bytes
        return True

    def take(self, size_bytes: int) -> bool:
        self.left -= 1
        if self.left < 0 or size_bytes > self.left_bytes:
            self.too_heavy += self.left >= 0
            return False
        self.left_bytes -= size_bytes
        return True

    def exceeded(self, what: str, option: str) -> Iterator[str]:
        if self.left < 0:
            yield f"{-self.left:,} {what} over {option}={self.limit:,} were left out"
        if self.too_heavy:
            yield f"{self.too_heavy:,} {what} over {MAX_PAGE_BYTES:,} bytes a page were left out"


class Quota:
    """What one page may still yield.

    The excess is dropped and counted: no page may fill the queue or the server's memory, or hold up
    the others.
    """

    def __init__(self, limits: Limits) -> None:
        items, links = limits.max_items_per_page, limits.max_links_per_page
        self._items, self._links = _Room(items, items), _Room(links, links)
        self.outputs_left = PATIENCE * (items + links)  # of its handler
        self.takes_link = self._links.take  # bound once, to save a call: pages have many links
        self.counts_item = self._items.count  # its size is known only after its hooks
        self.takes_item = self._items.weigh

    @property
    def exceeded(self) -> str:
        """What was dropped and why; empty if nothing was."""
        rooms = self._items, self._links
        if self.outputs_left > 0 and not any(room.left < 0 or room.too_heavy for room in rooms):
            return ""
        parts = [
            *self._items.exceeded("items", "max_items_per_page"),
            *self._links.exceeded("links", "max_links_per_page"),
            *(["the handler was stopped because it did not end"] * (self.outputs_left <= 0)),
        ]
        return "; ".join(parts)
