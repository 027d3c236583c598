"""Looks up names, so that clients dial the very addresses that the guard checked.

wreq would resolve names itself, to unchecked addresses. It gets ours instead (clients.py).
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

Lookup = Callable[[str], Awaitable[tuple[str, ...]]]

KEEP_S: Final = 60.0
MAX_NAMES: Final = 10_000
ATTEMPT_S: Final = 2.0
#: The name server counts as away if it has answered nothing for this long, but not for ever: a
#: domain whose own servers are broken looks the same.
SILENT_S: Final = 10.0
AWAY_S: Final = 600.0
NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", -5)})
THREADS: Final = 64  # getaddrinfo blocks, for 10 s and more on a dead name server


class Resolver:
    """Addresses of names, kept for a minute."""

    def __init__(
        self,
        *,
        lookup: Lookup | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_answer: Callable[[float], None] = lambda _: None,  # gets the seconds it took
    ) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="skitter-names")
        self._lookup: Lookup = lookup or self._ask_system
        self._clock, self._on_answer = clock, on_answer
        self._known: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._asking: dict[str, asyncio.Task[tuple[str, ...]]] = {}
        self._answered_at = -math.inf
        self._silent_since: float | None = None  # the first failure since then

    def known(self, name: str) -> tuple[str, ...] | None:
        """The addresses, if they were looked up recently."""
        entry = self._known.get(name)
        return entry[1] if entry and entry[0] > self._clock() else None

    def is_away(self) -> bool:
        """After a failure: whether no name can be looked up, as far as this process knows."""
        now = self._clock()
        self._silent_since = now if self._silent_since is None else self._silent_since
        return now - self._answered_at > SILENT_S and now - self._silent_since < AWAY_S

    async def resolve(self, name: str) -> tuple[str, ...]:
        """Every address of a name; OSError if it has none. Concurrent callers share a look-up."""
        if addresses := self.known(name):
            return addresses
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = asyncio.create_task(self._ask(name))
            task.add_done_callback(_take_exception)
        # Shielded: a caller that gives up must not cancel the look-up for others.
        return await asyncio.shield(task)

    async def attempt(self, name: str) -> tuple[str, ...]:
        """The addresses, or none if it does not resolve soon; that is remembered too."""
        entry = self._known.get(name)
        if entry and entry[0] > self._clock():
            return entry[1]
        try:
            async with asyncio.timeout(ATTEMPT_S):
                return await self.resolve(name)
        except (TimeoutError, OSError, UnicodeError):
            return self._keep(name, ())

    async def close(self) -> None:
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, name: str) -> tuple[str, ...]:
        asked_at = self._clock()
        try:
            addresses = await self._lookup(name)
        except socket.gaierror as error:
            if is_no_such_name(error):
                self._note_answer()
            raise
        finally:
            del self._asking[name]
            self._on_answer(self._clock() - asked_at)
        self._note_answer()
        return self._keep(name, addresses)

    def _note_answer(self) -> None:
        self._answered_at, self._silent_since = self._clock(), None

    def _keep(self, name: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
        if len(self._known) >= MAX_NAMES:
            del self._known[next(iter(self._known))]  # the oldest
        self._known[name] = (self._clock() + KEEP_S, addresses)
        return addresses

    async def _ask_system(self, name: str) -> tuple[str, ...]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _system_addresses, name)


def is_no_such_name(error: BaseException) -> bool:
    """Whether the name server says so; else it has not answered, or could not find out."""
    if isinstance(error, UnicodeError):  # a label over 63 characters
        return True
    return isinstance(error, socket.gaierror) and error.errno in NO_SUCH_NAME


def _system_addresses(name: str) -> tuple[str, ...]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def _take_exception(task: asyncio.Task[tuple[str, ...]]) -> None:
    """Retrieve the exception even if every caller has gone, or asyncio warns about it."""
    if not task.cancelled():
        task.exception()
