"""Shards that are away: those that answer do not wait for them.

A shard that takes too long counts as empty. Its call goes on, as it may have been carried out: what
it brings later is given back, and the shard is asked again. After an error it has a rest.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from skitter.errors import SkitterError
from skitter.frontier.transport.sync import has_loop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable, Mapping

T = TypeVar("T")

#: How long to wait for a shard while others have answered.
SLOW_S = 5.0
REST_S = 1.0


@dataclass(slots=True)
class ShardCalls(Generic[T]):
    """Calls to several shards, and which of these are away."""

    give_back: Callable[[T], Coroutine[Any, Any, object]]  # an answer that nobody waits for
    errors: dict[int, SkitterError | None] = field(default_factory=dict)  # None: it only hangs
    _late: dict[int, asyncio.Task[T]] = field(default_factory=dict)
    _rests_until: dict[int, float] = field(default_factory=dict)
    _keepers: set[asyncio.Task[None]] = field(default_factory=set)

    async def ask(self, calls: Mapping[int, Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
        """The answers of those shards that have one. Raises errors that waiting does not mend."""
        now = time.monotonic()
        here = [n for n in calls if n not in self._late and self._rests_until.get(n, 0.0) <= now]
        if not has_loop():
            return await self._ask_in_turn({n: calls[n] for n in here})
        import asyncio

        tasks = {n: asyncio.create_task(calls[n]()) for n in here}
        try:
            # Nobody waits for one that was away a moment ago.
            if awaited := [task for n, task in tasks.items() if n not in self.errors]:
                await asyncio.wait(awaited, timeout=SLOW_S)
        except asyncio.CancelledError:
            for number, task in tasks.items():
                self._keep(number, task)
            raise
        return self._answers(tasks)

    async def ask_one(self, call: Coroutine[Any, Any, T]) -> T:
        """The only shard there is. If we are cancelled, its answer is given back."""
        if not has_loop():
            return await call
        import asyncio

        task = asyncio.create_task(call)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._keep(0, task)
            raise

    async def until_one_answers(self) -> None:
        """Wait for a shard that is late, or for the end of a rest."""
        if self._late:
            import asyncio

            await asyncio.wait(self._late.values(), return_when=asyncio.FIRST_COMPLETED)
        else:
            self._rests_until.clear()

    def _answers(self, tasks: Mapping[int, asyncio.Task[T]]) -> list[T]:
        answers, failed = list[T](), list[BaseException]()
        for number, task in tasks.items():
            if not task.done():
                self.errors.setdefault(number, None)
                self._keep(number, task)
            elif error := task.exception():
                if not self._note(number, error):
                    failed.append(error)
            else:
                self.errors.pop(number, None)
                answers.append(task.result())
        if failed:
            self._return(answers)
            raise failed[0]
        return answers

    async def _ask_in_turn(
        self, calls: Mapping[int, Callable[[], Coroutine[Any, Any, T]]]
    ) -> list[T]:
        answers = list[T]()
        for number, call in calls.items():
            began = time.monotonic()
            try:
                answers.append(await call())
                self.errors.pop(number, None)
            except SkitterError as error:
                # As long as it kept us waiting, as nobody else can ask it meanwhile.
                if not self._note(number, error, rest_s=time.monotonic() - began):
                    for answer in answers:
                        await self.give_back(answer)
                    raise
        return answers

    def _note(self, number: int, error: BaseException, *, rest_s: float = REST_S) -> bool:
        """Whether it is only away."""
        if not (isinstance(error, SkitterError) and error.retryable):
            return False
        self.errors[number] = error
        self._rests_until[number] = time.monotonic() + rest_s
        return True

    def _keep(self, number: int, task: asyncio.Task[T]) -> None:
        """Give back what it brings, whenever that is."""
        self._late[number] = task
        task.add_done_callback(lambda _: self._arrive(number, task))

    def _arrive(self, number: int, task: asyncio.Task[T]) -> None:
        if self._late.get(number) is task:
            del self._late[number]
        if task.cancelled():
            return
        if error := task.exception():
            self._note(number, error)
            return
        self.errors.pop(number, None)
        self._return([task.result()])

    def _return(self, answers: Iterable[T]) -> None:
        import asyncio

        for answer in answers:
            keeper = asyncio.create_task(self._give_back(answer))
            self._keepers.add(keeper)
            keeper.add_done_callback(self._keepers.discard)

    async def _give_back(self, answer: T) -> None:
        with suppress(SkitterError):  # then the leases expire
            await self.give_back(answer)
