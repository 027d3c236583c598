from __future__ import annotations

import asyncio
import socket

import pytest

from skitter.fetch.http import guard
from skitter.fetch.http.guard import AWAY_S, KEEP_S, SILENT_S, Resolver


class Names:
    """A name server that counts, and answers when told."""

    def __init__(self):
        self.asked: list[str] = []
        self.answer = asyncio.Event()

    async def __call__(self, name: str) -> tuple[str, ...]:
        self.asked.append(name)
        await self.answer.wait()
        if name == "gone.example":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return ("93.184.215.14",)


async def test_a_hundred_callers_ask_once_and_again_after_a_minute():
    names, now = Names(), 0.0
    it = Resolver(lookup=names, clock=lambda: now)
    calls = [asyncio.create_task(it.resolve("a.example")) for _ in range(100)]
    names.answer.set()
    assert set(await asyncio.gather(*calls)) == {("93.184.215.14",)}
    now = KEEP_S - 1
    await it.resolve("a.example")
    assert names.asked == ["a.example"]
    now = KEEP_S + 1
    assert it.known("a.example") is None
    await it.resolve("a.example")
    assert names.asked == ["a.example"] * 2
    await it.close()


async def test_a_caller_that_gives_up_leaves_the_answer_to_the_others():
    names = Names()
    it = Resolver(lookup=names)
    first, second = (asyncio.create_task(it.resolve("a.example")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    names.answer.set()
    assert await second == ("93.184.215.14",)
    await it.close()


async def test_a_failure_is_not_kept():
    names = Names()
    names.answer.set()
    it = Resolver(lookup=names)
    for _ in range(2):
        with pytest.raises(OSError, match="unknown"):
            await it.resolve("gone.example")
    assert names.asked == ["gone.example"] * 2
    await it.close()


async def test_the_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(guard, "MAX_NAMES", 3)
    names = Names()
    names.answer.set()
    it = Resolver(lookup=names)
    for number in range(5):
        await it.resolve(f"{number}.example")
    assert [it.known(f"{number}.example") is not None for number in range(5)] == [
        *(False, False, True, True, True)
    ]
    await it.close()


async def test_the_system_is_asked_by_default():
    it = Resolver()
    assert set(await it.resolve("localhost")) <= {"127.0.0.1", "::1"}
    await it.close()


async def test_closing_ends_what_is_under_way():
    it = Resolver(lookup=Names())
    call = asyncio.create_task(it.resolve("a.example"))
    await asyncio.sleep(0)
    await it.close()
    with pytest.raises(asyncio.CancelledError):
        await call


class Silence:
    """A name server that is away, knows one name, and says that another does not exist."""

    is_away = True

    async def __call__(self, name: str) -> tuple[str, ...]:
        if name == "gone.example":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        if self.is_away or name == "broken.example":
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        return ("93.184.215.14",)


async def test_a_name_server_is_away_if_it_answers_nothing_but_not_for_ever():
    names, now = Silence(), 0.0
    it = Resolver(lookup=names, clock=lambda: now)

    async def fails(name: str) -> bool:
        with pytest.raises(socket.gaierror):
            await it.resolve(name)
        return it.is_away()

    assert await fails("a.example")
    now = AWAY_S - 1
    assert await fails("b.example")
    now = AWAY_S + 1
    assert not await fails("c.example")  # or its pages would wait for ever
    names.is_away = False
    await it.resolve("a.example")
    assert not await fails("broken.example")  # others were answered a moment ago
    now += SILENT_S + 1
    assert await fails("broken.example")
    assert not await fails("gone.example")  # that is an answer
    await it.close()
