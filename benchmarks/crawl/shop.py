"""shop: whole commands, from the prompt to the prompt, on a site as small as a first crawl."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar

from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns
from benchmarks.peers import CONCURRENT, SCRAPY_CRAWL, Peer
from skitter.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

FIRST = Figure("s", min)
WHOLE = Figure("s", min, inverse=True)
LOOK_S = 0.005
SPIDER = """\
from skitter import Page, Politeness, Spider

polite = Politeness(delay_s=0, max_in_flight={concurrent})
spider = Spider("shop", start=[{seed!r}], politeness=polite)


@spider.page
def shelf(page: Page):
    yield {{"title": page.css_first("title").text()}}
    yield from page.follow_all("a", shelf)
"""


@dataclass(frozen=True, kw_only=True)
class Shop(Part):
    """Wall time, so that a wait counts: it is what a user sees. Bytecode is compiled."""

    name: ClassVar[str] = "shop"
    pages: int = 269
    rounds: int = 5
    peers: tuple[Peer, ...] = (SCRAPY_CRAWL,)

    async def measure(self, ground: Ground) -> list[Row]:
        up = ("--redis", f"unix://{ground.socket}")
        one = {
            "a server that is up": (Goal("at most 1.0 s", most=1.0, of="measured"), up),
            "a server that it starts": (Goal("at most 1.5 s", most=1.5, of="measured"), ()),
        }
        firsts = {name: crawler(ground, 1, words) for name, (_, words) in one.items()}
        wholes = {name: crawler(ground, self.pages, words) for name, (_, words) in one.items()}
        rivals = [
            Contender(peer.title, partial(crawl_theirs, ground, peer, self.pages), fresh=False)
            for peer in self.peers
        ]
        for contender in (*list(firsts.values())[-1:], *rivals):
            await contender.run()  # writes the bytecode
        contenders = [*firsts.values(), *wholes.values(), *rivals]
        await take_turns(ground, contenders, part=self.name, rounds=self.rounds)
        return [
            *(
                Row(
                    what=f"`skitter run` with {name}, to the first row, least of {self.rounds}",
                    figure=FIRST,
                    ours=firsts[name],
                    goal=goal,
                )
                for name, (goal, _) in one.items()
            ),
            *(
                Row(
                    what=f"`skitter run` with {name}, a shop of {self.pages} pages, from start to "
                    f"end, least of {self.rounds}",
                    figure=WHOLE,
                    ours=ours,
                    theirs=theirs,
                    beside=theirs.name,
                    goal=Goal("no slower", least=1.0) if name == "a server that is up" else None,
                )
                for name, ours in wholes.items()
                for theirs in rivals
            ),
        ]


def crawler(ground: Ground, pages: int, words: Sequence[str]) -> Contender:
    return Contender(f"{pages} pages {' '.join(words)}", partial(crawl_ours, ground, pages, words))


async def crawl_ours(ground: Ground, pages: int, words: Sequence[str]) -> Sample:
    """In an empty folder, like a first crawl."""
    seed = ground.publish(pages)
    with TemporaryDirectory(dir=ground.directory, prefix="w") as folder:
        home = Path(folder)
        (home / "shop.py").write_text(SPIDER.format(seed=seed, concurrent=CONCURRENT))
        command = [sys.executable, "-m", "skitter", "run", "shop.py", *words]
        began = time.perf_counter()
        looking = asyncio.create_task(first_row(home / "shop.db"))
        await run_in(home, command)
        whole_s = time.perf_counter() - began
        stored_at = await looking
        if (rows := count_rows(home / "shop.db")) != pages:
            raise AssertionError(f"skitter run: {rows:,} of {pages:,} rows")
    return {FIRST: [stored_at - began], WHOLE: [whole_s]}


async def crawl_theirs(ground: Ground, peer: Peer, pages: int) -> Sample:
    with TemporaryDirectory(dir=ground.directory, prefix="w") as folder:
        rows, seed = Path(folder) / "rows.jsonl", ground.publish(pages)
        peer = replace(peer, task=(*peer.task, ("out", str(rows))))
        began = time.perf_counter()
        await peer.crawl(seed, pages=pages, socket=ground.socket)
        whole_s = time.perf_counter() - began
        if (found := len(set(rows.read_text().splitlines()))) != pages:
            raise AssertionError(f"{peer.title}: {found:,} of {pages:,} rows")
    return {WHOLE: [whole_s]}


async def run_in(folder: Path, command: list[str]) -> None:
    hidden = ("PYTHONDONTWRITEBYTECODE", "SKITTER_REDIS_URL", "SKITTER_DIR")
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in hidden},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    if process.returncode:
        raise InfrastructureError(f"skitter run failed: {said.decode(errors='replace')}")


async def first_row(database: Path) -> float:
    """When it is there, which others can see."""
    while not count_rows(database):  # noqa: ASYNC110  nothing tells us
        await asyncio.sleep(LOOK_S)
    return time.perf_counter()


def count_rows(database: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
            return int(opened.execute("SELECT count(*) FROM shop").fetchone()[0])
    except sqlite3.OperationalError:  # there is no file or table yet, or it is being made
        return 0
