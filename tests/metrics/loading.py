"""A loader that stops when it has stored what there is."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from skitter.crawl.job_loader import Loader
from skitter.crawl.outputs import open_destination
from skitter.engine.pulse import Figures
from skitter.frontier.frontier import Frontier
from skitter.sinks import Destination
from waiting import until_async


async def load(frontier: Frontier, folder: Path, *, items: int) -> Figures:
    """What it measured."""
    figures, stop = Figures(), asyncio.Event()
    loader = Loader(frontier, "loader", lambda *_: None, stop, figures=figures)
    to = Destination(str(folder / "items.db"), frontier.job, folder)
    loading = asyncio.create_task(loader.run(partial(open_destination, frontier, to)))

    async def is_done() -> bool:
        return (await frontier.stats()).stored >= items

    await until_async(is_done)
    stop.set()
    await loading
    return figures
