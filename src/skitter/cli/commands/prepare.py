"""Before a crawl: demo, new, config, plan."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.resources import files as package_files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import msgspec
import uvloop

from skitter.cli.commands.check import show_audit
from skitter.cli.commands.proxies import show_stats
from skitter.cli.common import Arguments, Directory, Json, Redis, on_job, on_server, pairs_of
from skitter.cli.crawl import JobName
from skitter.cli.dashboard import dashboard, environment_of
from skitter.cli.flags import CRAWLING, Given, with_flags
from skitter.cli.parameters import Argument, Exit, Option
from skitter.cli.running import run_plan
from skitter.cli.show.console import out
from skitter.cli.show.output import emit_json, grid, pairs, print_progress, say
from skitter.crawl.plan import Plan
from skitter.demo import MEMBERS, RARE, SIGNED, SPIDER
from skitter.engine.proxies.table import route_rows
from skitter.errors import InfrastructureError, UsageError
from skitter.frontier.audit.auditor import audit
from skitter.observe.report import duration, some
from skitter.redact import redact, redact_service
from skitter.settings import ArchiveOptions, Config, Settings, Workers, check_job_name, resolve
from skitter.settings.option import NO_LIMIT, number_of, options_of
from skitter.settings.option import Option as Setting
from skitter.settings.sources import OPTIONS
from skitter.spider import load_spider
from skitter.spider.importing import import_target


def new(
    name: Annotated[str, Argument(metavar="NAME", help="The spider's name, and its job's.")],
    directory: Annotated[
        Path, Option("--dir", help="Where to write it.", show_default=False)
    ] = Path(),
    as_json: Json = False,
) -> None:
    """Write a working spider and its test, for you to change."""
    files = {directory / path: text for path, text in render_new(name.removesuffix(".py")).items()}
    _write(files)
    spider, test = files
    run = f"skitter run {shlex.quote(str(spider))}"
    check = f"python -m pytest {shlex.quote(str(test))}"
    add = f"skitter test add {shlex.quote(str(spider))} URL"
    if as_json:
        paths = {"spider": str(spider), "test": str(test)}
        emit_json(paths | {"run": run, "check": check, "add_page": add})
        return
    say(f"Wrote {spider} and {test}.")
    say(f"Run it:   {run}")
    needs = "" if find_spec("pytest") else "   (after: pip install pytest)"
    say(f"Test it:  {check}{needs}")
    say(f"Add a page of the site to its tests:  {add}")


def render_new(name: str) -> dict[str, str]:
    """The files of a new spider: path -> text. Raises BadJobName."""
    check_job_name(name)
    stem = re.sub(r"\W", "_", name)
    return {
        f"{stem}.py": _render("spider.py.txt", name, stem),
        f"test_{stem}.py": _render("test_spider.py.txt", name, stem),
    }


def _render(template: str, name: str, stem: str) -> str:
    text = package_files("skitter.spider").joinpath("templates", template).read_text("utf-8")
    return text.replace("%NAME%", name).replace("%STEM%", stem)


def _write(files: dict[Path, str]) -> None:
    """Write all files, or none if any of them exists."""
    if taken := [str(path) for path in files if path.exists()]:
        raise UsageError(
            f"{' and '.join(taken)} exist{'s' if len(taken) == 1 else ''}, and nothing was "
            "written: choose another name, or another place with --dir."
        )
    written: list[Path] = []
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
        except OSError as error:
            for made in written:  # a disk that is full has room for empty files
                made.unlink(missing_ok=True)
            reason = str(error.strerror).lower()
            raise UsageError(
                f"cannot write {path}: {reason}. Choose another place with --dir."
            ) from None


HIDDEN = "(hidden)"


@with_flags(CRAWLING, settable=True)
def config(
    target: Annotated[
        str | None, Argument(metavar="[SPIDER]", help="Include the settings of this spider.")
    ] = None,
    arguments: Arguments = None,
    job: JobName = None,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """Show every setting, its value, and where that came from."""
    spider = load_spider(target, pairs_of(arguments)) if target else None
    name = job or (spider.name if spider else "")
    found = resolve(given, job=name, spider=spider.tables if spider else None)
    values = {key: _shown(option, found) for key, option in OPTIONS.items()}
    origins = found.origins | dict.fromkeys(proxies := _proxies(found), "[[proxy]]")
    values |= proxies
    if as_json:
        emit_json({key: {"value": value, "from": origins[key]} for key, value in values.items()})
    else:
        rows = [(key, _text(value), origins[key]) for key, value in values.items()]
        grid(["setting", "value", "from"], rows)


def _shown(setting: Setting, config: Config) -> Any:
    """The value for JSON, with secrets masked."""
    value = getattr(getattr(config, setting.table), setting.name)
    if setting.declared.secret and isinstance(value, dict):
        return dict.fromkeys(value, HIDDEN)
    if setting.declared.secret and isinstance(value, str):
        return redact(value)
    return value if isinstance(value, int | float | str | tuple | dict | None) else str(value)


def _proxies(config: Config) -> dict[str, Any]:
    """The settings of each route. They only say where its secret is, or should."""
    return {
        f"proxy.{route.name}.{option.name}": _hidden(option.name, value)
        for route in config.proxies
        for option in options_of(type(route))
        if option.name != "name" and (value := getattr(route, option.name)) != option.default
    }


def _hidden(name: str, value: Any) -> Any:
    """Without a key that was written into the address, or into the template of its query."""
    if name == "template":
        return redact_service(f"?{value}")[1:]
    return redact_service(value) if name == "url" else value


def _text(value: Any) -> str:
    """As in TOML, but without quotes around a single string."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {json.dumps(text)}" for name, text in value.items()) + "}"
    if isinstance(value, str):
        return value
    return NO_LIMIT if value is None else json.dumps(value)


#: Measured: docs/scaling.md and docs/benchmarks.md say how.
PENDING_BYTES, SEEN_BYTES = 218, 8.6
PAGES_PER_WORKER, SLOTS_PER_WORKER, WORKER_MB = 57.0, 64, 100
PAGES_PER_SERVER = 1400.0  # of one core, at seven new links per page
CONNECTIONS_PER_WORKER = 3


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a crawl takes, if its pages are spread evenly over its hosts."""

    hours: float
    pages_per_s: float
    bound_by: str  # hosts, workers or server
    workers: int
    worker_memory_mb: int
    server_memory_mb: int  # if all URLs are known at once
    connections: int


def needs_of(
    *, pages: int, hosts: int, delay_s: float, seconds: float, workers: int | None = None
) -> Needs:
    """Pure. `seconds`: that a fetch takes; `workers`: that there are, else as many as help."""
    by_hosts = hosts / max(delay_s, seconds)  # one request at a time to each
    polite = min(by_hosts, PAGES_PER_SERVER)
    per_worker = min(PAGES_PER_WORKER, SLOTS_PER_WORKER / seconds)
    worth = max(1, math.ceil(polite / per_worker))
    count = workers or worth
    rate = min(polite, count * per_worker)
    bound = "hosts" if rate == by_hosts else "server" if rate == PAGES_PER_SERVER else "workers"
    return Needs(
        hours=round(pages / rate / 3600, 2),
        pages_per_s=round(rate, 1),
        bound_by=bound,
        workers=count,
        worker_memory_mb=count * WORKER_MB,
        server_memory_mb=math.ceil(pages * (PENDING_BYTES + SEEN_BYTES) / 2**20),
        connections=count * CONNECTIONS_PER_WORKER,
    )


BOUNDS = {
    "hosts": "politeness: more workers would wait; only more hosts or a shorter delay help",
    "workers": "workers: more of them help",
    "server": "one server: shards on a cluster help (docs/howto/cluster.md)",
}


def plan(
    pages: Annotated[
        str, Option(metavar="N", help="Number of pages, such as 50000, 200K, 10M or 1B.")
    ],
    hosts: Annotated[int, Option(min=1, help="Number of hosts that they are spread over.")],
    delay: Annotated[float, Option(min=0, help="Seconds between requests to one host.")] = 1.0,
    seconds: Annotated[float, Option(min=0.01, help="Seconds that one fetch takes.")] = 0.5,
    workers: Annotated[
        int | None, Option(min=1, help="Workers that you have. Default: as many as help.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say how long a crawl takes, what it needs, and what bounds it.

    From measured figures; pages that are spread unevenly over hosts take longer.
    """
    needs = needs_of(
        pages=number_of("pages", pages),
        hosts=hosts,
        delay_s=delay,
        seconds=seconds,
        workers=workers,
    )
    if as_json:
        emit_json(needs)
        return
    rows = [
        ("time", f"{duration(3600 * needs.hours)}, at {needs.pages_per_s:,.0f} pages/s"),
        ("bound by", BOUNDS[needs.bound_by]),
        ("workers", f"{some(needs.workers, 'process', 'processes')}, a core each"),
        ("memory", f"{needs.worker_memory_mb:,} MB for them"),
        ("server", f"{needs.server_memory_mb:,} MB, if all URLs are known at once"),
        ("connections", f"{needs.connections:,} to the server"),
    ]
    pairs(iter(rows))


ROWS = {
    "books": "SELECT title, price, currency, stock, rating, category FROM books",
    "members": "SELECT title, price FROM members",
    "rare": "SELECT title, price FROM rare",
    "signed": "SELECT title, price FROM signed",
}


CARELESS = """
    found = offer(page)
    price = found["price"]
    yield {**found, "price": float(price[1:]) if price[0] in "€£" else None}
"""


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
    two proxies the shop bans. A changed spider is tried on kept pages. No network needed.
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
            if find_spec("fastwarc"):
                _show_replay(home)
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
            archive=ArchiveOptions(
                keep=target == RARE and bool(find_spec("fastwarc")), folder=home / "archive"
            ),
            proxies=import_target(target)[0].PROXIES if target == RARE else (),
        ),
        out=str(home / "books.db"),
        is_demo=True,
    )
    if code := uvloop.run(run_plan(plan)):
        raise Exit(code)
    _show_rows(home / "books.db", spider.name)
    show_audit(on_job(where, spider.name, audit))


def _show_replay(home: Path) -> None:
    (home / "careless.py").write_text(RARE.read_text().replace("    yield offer(page)", CARELESS))
    say("\nA new version makes these prices numbers, and forgets dollars. On the kept pages:")
    words = ["replay", "careless.py", "--against", "books.db"]
    say(f"$ skitter {shlex.join(words)}")
    sys.stdout.flush()
    environment = os.environ | environment_of(Settings(directory=home / "v"))
    command = [sys.executable, "-P", "-m", "skitter", *words]
    done = subprocess.run(command, cwd=home, env=environment, check=False)
    if done.returncode != 1:  # a price is gone
        raise Exit(done.returncode or 1)


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
