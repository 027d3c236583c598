"""The demo's bookshop on a thread of the test: open in no time, closed when the test ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from skitter.demo.site import BookShop

_loops: dict[str, asyncio.AbstractEventLoop] = {}


@contextmanager
def open_bookshop(log_file: Path, *, books: int = 80, latency_s: float = 0.0) -> Iterator[BookShop]:
    """The shop, and what is expected of a crawl of it. A process of its own takes half a second of
    CPU time to start, and most tests crawl a shop for less than that."""
    shop = BookShop(books=books, latency_s=latency_s, log_file=log_file)
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result()

    try:
        run(shop.__aenter__())
        _loops[shop.url] = loop
        yield shop
        run(shop.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def silenced(url: str) -> Iterator[None]:
    """The shop at that URL answers nobody while this lasts."""
    go_on = threading.Event()
    _loops[url].call_soon_threadsafe(go_on.wait)
    try:
        yield
    finally:
        go_on.set()
