"""Crawl a bundled site: demo."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Annotated

import uvloop

from skitter.cli.commands.check import show_audit
from skitter.cli.commands.proxies import show_stats
from skitter.cli.common import on_job, on_server
from skitter.cli.dashboard import dashboard
from skitter.cli.parameters import Exit, Option
from skitter.cli.running import run_plan
from skitter.cli.show.console import out
from skitter.cli.show.output import grid, print_progress, say
from skitter.crawl.plan import Plan
from skitter.demo import MEMBERS, RARE, SIGNED, SPIDER
from skitter.engine.proxies.table import route_rows
from skitter.errors import InfrastructureError
from skitter.frontier.audit.auditor import audit
from skitter.settings import Config, Settings, Workers
from skitter.spider import load_spider
from skitter.spider.load import import_target

ROWS = {
    "books": "SELECT title, price, currency, stock, rating, category FROM books",
    "members": "SELECT title, price FROM members",
    "rare": "SELECT title, price FROM rare",
    "signed": "SELECT title, price FROM signed",
}


def demo(
    books: Annotated[int, Option(min=50, max=5000, help="Number of books in the shop.")] = 700,
    browser: Annotated[
        bool, Option("--browser", help="Also crawl pages that need a browser.")
    ] = False,
    with_dashboard: Annotated[
        bool, Option("--dashboard", help="Serve the dashboard too, until Ctrl-C.")
    ] = False,
) -> None:
    """Crawl a bundled bookshop, and audit the result.

    Two workers store the books in SQLite, log in to the members' corner, and find out which of
    two proxies the shop bans. No network needed.
    """
    with tempfile.TemporaryDirectory(prefix="skitter-demo-", dir="/tmp") as folder:
        home = Path(folder)
        where, out = Settings(directory=home / "v"), str(home / "books.db")
        served = dashboard(where, wanted=with_dashboard, out=out)
        with _open_shop(home, books) as url, served as link:
            os.environ["SKITTER_DEMO_URL"] = url
            say(f"A bookshop of {books} books is open at {url}, with traps, errors and duplicates.")
            _crawl(home, SPIDER, processes="2")
            say("\nThe members' corner needs a log-in: a form, a token and cookies.")
            _crawl(home, MEMBERS)
            say("\nRare books are fetched through two proxies; the shop bans the cheap one.")
            _crawl(home, RARE)
            show_stats(on_server(where, route_rows))
            if browser:
                say("\nSigned copies have prices that only JavaScript shows.")
                _crawl(home, SIGNED)
            if with_dashboard:
                print_progress(f"The dashboard stays until Ctrl-C: {link}")
                with suppress(KeyboardInterrupt):
                    signal.pause()


def _crawl(home: Path, target: Path, *, processes: str = "1") -> None:
    """Crawl with one spider into its table, and audit the job."""
    spider, where = load_spider(target), Settings(directory=home / "v")
    plan = Plan(
        target=str(target),
        spider=spider,
        job=spider.name,
        config=Config(
            **spider.tables,  # type: ignore[arg-type]
            server=where,
            workers=Workers(processes=processes, concurrency=32),
            proxies=import_target(target)[0].PROXIES if target == RARE else (),
        ),
        out=str(home / "books.db"),
        is_demo=True,
    )
    if code := uvloop.run(run_plan(plan)):
        raise Exit(code)
    _show_rows(home / "books.db", spider.name)
    show_audit(on_job(where, spider.name, audit))


@contextmanager
def _open_shop(home: Path, books: int) -> Iterator[str]:
    """Run the site in a separate process, so that it does not share our interpreter."""
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


def _show_rows(database: Path, table: str) -> None:
    out.print()
    with closing(sqlite3.connect(database)) as connection:
        [count] = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        found = connection.execute(f"{ROWS[table]} ORDER BY title LIMIT 5")
        names, rows = [column[0] for column in found.description], found.fetchall()
    grid(["" if name == "currency" else name for name in names], rows)
    say(f"... and {count - len(rows):,} more rows.\n")
