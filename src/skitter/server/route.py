"""One row of the table of routes, and the headers of all answers."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import cache, cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_type_hints

import msgspec

from skitter.frontier.records.operators import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


T = TypeVar("T")

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
JSON = "application/json"


class Rows(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Part of a list. `next`, if there is more: the `after` of the next call."""

    rows: list[T]
    next: str | None = None
    total: int | None = None  # how many match, where that is counted


class Removed(msgspec.Struct, frozen=True):
    """Whether there was anything to remove."""

    removed: bool


@dataclass(frozen=True)
class Route:
    """A method and path, the scope it needs, and the function that answers.

    The function takes the call and, if it wants them, `query` and `body`. The rest of the row
    comes from their types, its return type and its docstring.
    """

    method: Method
    path: str
    answer: Callable[..., Coroutine[Any, Any, Any]]
    scope: Scope | None = "read"  # None: no token is needed
    status: int = 200
    may_be_later: bool = False  # it may answer 202, too
    errors: tuple[int, ...] = ()  # besides those that any call may return
    media: str = JSON  # of the answer
    takes: tuple[str, ...] = (JSON,)  # media types of the body
    reads: Any = None  # type of a body that the function itself reads
    knows_away: bool = False  # it handles the absence of Redis itself
    all_jobs: bool = False  # it shows all jobs: not for tokens of some
    notes_itself: bool = False  # in the action log: what it changed is not in its path or JSON

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.answer)

    @cached_property
    def body(self) -> Any:
        return self._hints.get("body")

    @cached_property
    def decode(self) -> Callable[[bytes], Any]:
        return msgspec.json.Decoder(self.body).decode

    @cached_property
    def query(self) -> Any:
        return self._hints.get("query")

    @property
    def output(self) -> Any:
        return self._hints["return"]

    @property
    def name(self) -> str:
        return self.answer.__name__

    @property
    def summary(self) -> str:
        return inspect.getdoc(self.answer) or ""

    @property
    def parameters(self) -> list[str]:
        """The names of the path's parameters."""
        return re.findall(r"{(\w+)(?::\w+)?}", self.path)


SECURITY = [
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
NOT_KEPT = (b"cache-control", b"no-store")


@cache
def head_of(status: int) -> bytes:
    """The head of a JSON answer, without its date and length."""
    lines = [(b"content-type", JSON.encode()), *SECURITY, NOT_KEPT]
    first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
    return first + b"".join(b"%b: %b\r\n" % line for line in lines)
