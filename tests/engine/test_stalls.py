"""The line that blocks the event loop is named, once; code of others is not blamed."""

from __future__ import annotations

import asyncio
import time

import pytest

from skitter import Page, Spider
from skitter.crawl.printed import stuck_line
from skitter.engine import watchdog
from skitter.engine.watchdog import Stalls
from skitter.spider.run import run_handler
from skitter.spider.source import line_of_stack


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_line_that_holds_up_the_loop_is_named_once(monkeypatch, is_async):
    monkeypatch.setattr(watchdog, "SLOW_S", 0.02)
    monkeypatch.setattr(watchdog, "STALL_LOOK_S", 0.01)
    said: list[str] = []
    watch = Stalls(said.append)
    spider = Spider("w", ["https://a.test/"])

    def block():
        while not watch._sure:
            time.sleep(0.01)  # what it is about: this blocks the loop

    async def streamed(page):
        yield {"url": page.url}
        block()

    def plain(page):
        block()
        return {"url": page.url}

    spider.page(streamed if is_async else plain)
    task = asyncio.create_task(watch.run())
    await asyncio.sleep(0)  # it has begun
    for _ in range(2):
        await run_handler(spider, Page.of(""))
        async with asyncio.timeout(30):
            while watch._sure:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    task.cancel()

    lines = {one.partition(" held up")[0] for one in said}
    assert len(said) == len(lines) > 0
    assert all("test_stalls.py:" in one and one.startswith("a handler blocks: ") for one in said)
    assert all("asyncio.to_thread" in one for one in said)


OURS = watchdog.__file__
STACKS = [
    ([("/venv/bin/skitter", 8), (OURS, 1)], None),  # the program that started us
    ([(OURS, 1), ("/tmp/shop.py", 3)], ("/tmp/shop.py", 3)),
    ([(OURS, 1), ("/tmp/shop.py", 3), (asyncio.__file__, 9)], ("/tmp/shop.py", 3)),
    ([("/tmp/script.py", 9), (OURS, 1), ("/tmp/shop.py", 3), (OURS, 2)], ("/tmp/shop.py", 3)),
    ([("/tmp/script.py", 9), ("/x/site-packages/lxml/a.py", 1)], None),  # a thread of the user's
]


@pytest.mark.parametrize(("stack", "line"), STACKS)
def test_only_code_that_skitter_called_is_blamed(stack, line):
    found = line_of_stack(iter(stack))
    assert (found and (found.file, found.line)) == line

    frames = [f'  File "{file}", line {number} in x\n' for file, number in reversed(stack)]
    other = f'Thread 0x1 [skitter]:\n  File "{OURS}", line 1 in run\n'
    trace = f"Timeout (0:00:30)!\n{other}\nThread 0x2 (most recent call first):\n{''.join(frames)}"
    assert stuck_line(trace) == found
