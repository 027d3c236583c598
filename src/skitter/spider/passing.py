"""Which failures of a handler may pass, so that its page is worth fetching again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skitter.errors import SkitterError, UsageError
from skitter.page.errors import PageError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """What a handler's own I/O raises may pass, also as the cause of another error: OSError, which
    is what most clients raise, and our own errors that say so. Other errors of libraries may, too:
    nobody knows. An error of the code does not."""
    chain = list(_chain(error))
    return any(_is_of_a_network(one) for one in chain) or not isinstance(error, _OF_THE_CODE)


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
