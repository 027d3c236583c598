"""The composition root: settings become opened objects. Lifetimes are `async with` blocks."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from skitter.frontier.connection import Server, connect
from skitter.valkey import Progress, hold

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skitter.settings import Settings


@asynccontextmanager
async def open_server(
    settings: Settings, *, progress: Progress | None = None
) -> AsyncIterator[Server]:
    """The server that the settings name, or the embedded one, started if nobody has."""
    async with AsyncExitStack() as stack:
        url, password = settings.redis_url, None
        if url is None:
            # Entered and left in a thread: a large append-only file takes its time to load.
            held = hold(settings.directory, progress=progress)
            embedded = await asyncio.to_thread(held.__enter__)
            stack.push_async_callback(asyncio.to_thread, held.__exit__, None, None, None)
            url, password = embedded.url, embedded.password
        yield await stack.enter_async_context(connect(url, password=password))
