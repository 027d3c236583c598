"""One row of the table of routes."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_type_hints

import msgspec

from skitter.frontier.admin.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
JSON = "application/json"


class Rows(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Part of a list. `next`, if there is more, is the `after` of the next call."""

    rows: list[T]
    next: str | None = None


class Removed(msgspec.Struct, frozen=True):
    """Whether there was one."""

    removed: bool


@dataclass(frozen=True)
class Route:
    """What is asked, who may, and which function answers.

    The function takes the call, and `query` or `body` if it wants one: their types, that of what
    it returns and its docstring are the rest of the row.
    """

    method: Method
    path: str
    answer: Callable[..., Coroutine[Any, Any, Any]]
    scope: Scope | None = "read"  # None: no token is needed
    status: int = 200
    errors: tuple[int, ...] = ()  # beside those that any call may end with
    media: str = JSON  # of the answer
    takes: tuple[str, ...] = (JSON,)  # media types of the body
    reads: Any = None  # type of a body that the function reads by itself
    knows_away: bool = False  # it decides by itself what to say while Redis is away

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
        """The names in the path."""
        return re.findall(r"{(\w+)(?::\w+)?}", self.path)
