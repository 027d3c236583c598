"""See it at work: demo."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from skitter.cli.check import show_audit
from skitter.cli.common import on_job
from skitter.cli.output import grid, out, say
from skitter.cli.running import run_plan
from skitter.crawl.plan import Plan
from skitter.demo import SPIDER
from skitter.errors import InfrastructureError
from skitter.frontier.audit.auditor import audit
from skitter.settings import Config, Settings, Workers
from skitter.spider import load_spider

ROWS = "SELECT title, price, currency, stock, rating, category FROM books ORDER BY title LIMIT 5"


def demo(
    books: Annotated[
        int, typer.Option(min=50, max=5000, help="Number of books in the shop.")
    ] = 700,
) -> None:
    """Crawl a bundled bookshop with 2 workers into SQLite, and audit it. No network needed."""
    with tempfile.TemporaryDirectory(prefix="skitter-demo-", dir="/tmp") as folder:
        home = Path(folder)
        with _open_shop(home, books) as url:
            say(f"A bookshop of {books} books is open at {url}, with traps, errors and duplicates.")
            os.environ["SKITTER_DEMO_URL"] = url
            where = Settings(directory=home / "v")
            plan = Plan(
                target=str(SPIDER),
                spider=(spider := load_spider(SPIDER)),
                job=spider.name,
                config=Config(
                    fetch=spider.fetch,
                    politeness=spider.politeness,
                    retries=spider.retries,
                    limits=spider.limits,
                    server=where,
                    workers=Workers(processes="2", concurrency=32),
                ),
                out=str(home / "books.db"),
                is_demo=True,
            )
            code = uvloop.run(run_plan(plan))
            if code:
                raise typer.Exit(code)
            _show_rows(home / "books.db")
            show_audit(on_job(where, "books", audit))


@contextmanager
def _open_shop(home: Path, books: int) -> Iterator[str]:
    """The site in a process of its own, so that it does not share our interpreter."""
    ready = home / "ready"
    words = [sys.executable, "-P", "-m", "skitter.demo.site", "--port", "0", "--books", str(books)]
    shop = subprocess.Popen([*words, "--ready-file", str(ready)], stdout=subprocess.DEVNULL)
    try:
        while not ready.exists():
            if shop.poll() is not None:
                raise InfrastructureError("the demo's web site did not start: see above.")
            time.sleep(0.02)
        yield ready.read_text().strip()
    finally:
        shop.terminate()
        shop.wait()


def _show_rows(database: Path) -> None:
    out.print()
    with closing(sqlite3.connect(database)) as connection:
        [count] = connection.execute("SELECT count(*) FROM books").fetchone()
        rows = connection.execute(ROWS).fetchall()
    grid(["title", "price", "", "stock", "rating", "category"], rows)
    say(f"... and {count - len(rows):,} more rows.\n")
