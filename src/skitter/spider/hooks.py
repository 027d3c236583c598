"""Functions of a user besides handlers: hooks, and how a spider logs in."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from skitter.domains import registrable_domain
from skitter.errors import SpiderError
from skitter.model import Request
from skitter.urls import identify

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.spider.items import Item
    from skitter.spider.page import Page


F = TypeVar("F", bound=Callable[..., Any])
Answer = Callable[[Request, list["Item"], str], "Item"]


@dataclass(slots=True)
class Hooks:
    """Functions called besides the handlers; plain or async."""

    start: list[Callable[..., Any]] = field(default_factory=list)
    finish: list[Callable[..., Any]] = field(default_factory=list)
    error: list[Callable[..., Any]] = field(default_factory=list)  # of pages given up
    failed_attempt: list[Callable[..., Any]] = field(default_factory=list)
    item: list[Callable[..., Any]] = field(default_factory=list)
    logged_out: list[Callable[..., Any]] = field(default_factory=list)
    #: Makes one item of what becomes of a page, for the caller who asked for it: from the request,
    #: its items, and why there are none.
    answer: Answer | None = None
    #: Takes from the job what it keeps, before pages are handled. Returns what to tell the user.
    joined: Callable[[Frontier], Awaitable[str]] | None = None


async def run_hooks(hooks: Iterable[Callable[..., Any]], *arguments: object) -> None:
    """Call each in order of registration; await the async ones."""
    for hook in hooks:
        result = hook(*arguments)
        if inspect.isawaitable(result):
            await result


async def run_error_hooks(hooks: Iterable[Callable[..., Any]], *arguments: object) -> None:
    """With (request, error, response), or without the response for those that do not take it."""
    for hook in hooks:
        await run_hooks([hook], *arguments[: 3 if _takes(hook, *arguments) else 2])


def _takes(function: Callable[..., Any], *arguments: object) -> bool:
    try:
        inspect.signature(function).bind(*arguments)
    except (TypeError, ValueError):  # or written in C, without a signature
        return False
    return True


def added_error(function: F, hooks: list[Callable[..., Any]]) -> F:
    names = "request", "error", "response"
    return added(function, hooks, "on_error", *names[: 3 if _takes(function, *names) else 2])


def added(function: F, hooks: list[Callable[..., Any]], kind: str, *arguments: str) -> F:
    """Register it after checking its signature, rather than fail at its first call."""
    name = _name(function)
    if not callable(function):
        raise SpiderError(f"{name} cannot be an {kind} hook: decorate a function")
    try:
        inspect.signature(function).bind(*arguments)
    except ValueError:
        pass  # written in C, without a signature
    except TypeError:
        takes = f"{', '.join(arguments)}" or "no arguments"
        raise SpiderError(
            f"the {kind} hook {name} must take {takes}: write def {name}({', '.join(arguments)})"
        ) from None
    put(hooks, function)
    return function


def put(hooks: list[Callable[..., Any]], function: Callable[..., Any]) -> None:
    """Add it, or replace what an earlier run of its cell has added."""
    for at, other in enumerate(hooks):
        if _name(other) == _name(function) and is_again(other, function):
            hooks[at] = function
            return
    hooks.append(function)


def is_again(before: Callable[..., Any], now: Callable[..., Any]) -> bool:
    """Whether it is the same function, defined again: its module was reloaded, or its cell of a
    notebook was run again, perhaps changed. Each version of a cell has a file name of its own."""
    old, new = (getattr(inspect.unwrap(one), "__code__", None) for one in (before, now))
    if old is None or new is None:
        return False
    if old.co_filename == new.co_filename:
        return bool(old.co_firstlineno == new.co_firstlineno)
    return is_of_cell(now)


def is_of_cell(function: Callable[..., Any]) -> bool:
    """Whether it was typed into a notebook or a shell: it has code, but no file."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is not None and not Path(code.co_filename).exists()


def check_handler(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None)
    if not callable(function) or not isinstance(name, str) or name == "<lambda>":
        raise SpiderError(f"{function!r} cannot be a handler: decorate a function that has a name")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise SpiderError(f"handler {name} must take one argument, the page") from None
    return name


def _name(function: Any) -> str:
    return getattr(function, "__name__", repr(function))


Send = Callable[[Request], Awaitable["Page"]]


@dataclass(frozen=True, slots=True)
class Login:
    """Where to log in, and the steps of the function that does it."""

    url: str
    handler: Callable[..., Any]

    @property
    def site(self) -> str:
        return registrable_domain(identify(self.url).host)

    async def run(self, page: Page, send: Send) -> Page:
        """Run all steps, from the log-in page to the last answer.

        The function returns a request, or yields several and gets the page of each:
        `answer = yield page.form().fill(...).submit()`.
        """
        result = self.handler(page)
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, AsyncIterator):
            return await self._drive_async(result, page, send)
        if isinstance(result, Iterator):
            return await self._drive(result, page, send)
        return await send(self._checked(result))

    async def _drive(self, steps: Any, page: Page, send: Send) -> Page:
        answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return await send(self._checked(end.value)) if end.value else answer or page
            answer = await send(self._checked(step))

    async def _drive_async(self, steps: Any, page: Page, send: Send) -> Page:
        answer = None
        while True:
            try:
                step = await steps.asend(answer)
            except StopAsyncIteration:
                return answer or page
            answer = await send(self._checked(step))

    def _checked(self, step: object) -> Request:
        if isinstance(step, Request):
            return step
        name = getattr(self.handler, "__name__", "it")
        raise SpiderError(
            f"the log-in {name} returned a {type(step).__name__}: return or yield a request, such "
            "as page.form().fill(...).submit()"
        )
