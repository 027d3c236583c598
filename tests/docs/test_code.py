"""The code in the documents works: Python runs, settings are read, and commands do and print what
the page shows. What is not run is in one table, with the reason.

The pages share an embedded server and a folder. The tutorial comes first: the job that it leaves
behind is what others look at.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from types import SimpleNamespace

import pytest
from redis import Redis
from selectolax.lexbor import LexborHTMLParser

from cli.conftest import skitter  # noqa: F401
from conftest import ManualClock
from documents import (
    PAGES,
    ROOT,
    Block,
    agrees,
    all_blocks_of,
    blocks_of,
    calls_http,
    commands_of,
    name_of,
    spoken_of,
    steps_of,
)
from machines import Machine
from server.test_serve import certificate
from shops import open_bookshop
from sinks.conftest import postgres_server  # noqa: F401
from skitter import Metrics, settings
from skitter.celery.config import BROKER_DB
from skitter.cli.menu import all_commands
from skitter.embedded import hold, stop
from skitter.frontier.jobs import open_job
from skitter.frontier.sites.learned import ask_permits
from skitter.frontier.transport.connection import connect
from skitter.model import Completion, Request
from skitter.patterns import number_of, shape_of
from skitter.settings.sources import resolve
from terminal import SHOP, SITES, Terminal

#: Everything in the pages that no test runs: how the line or the block begins, and why.
NOT_RUN = {
    "$ skitter crawl https://example.com/ --proxy": "needs a proxy and a site outside",
    "skitter run books.py --out s3://": "needs a bucket and its credentials",
    "SKITTER_OUT_SECRET=": "needs a program that takes rows",
    "skitter agent --spiders": "it stays for what others start: tests/crawl/test_runs.py does that",
    "skitter start": "needs that agent",
    "skitter runs": "needs that agent",
    "skitter tail books": "it waits for items: tests/server/test_live_items.py",
    'curl -H "authorization: Bearer $TOKEN" -H \'content-type': "needs that agent, or a page",
    'curl -u ":$TOKEN"': "needs that agent",
    "skitter changes books --since": "needs three edits of a site: tests/crawl/test_changes.py",
    "skitter run books.py --revisit --only-changes": "needs a job of its own: the same test",
    "skitter dead show books https://books.example/b/7 --page": "needs a page that has failed",
    "skitter shell https://books.example/b/7 --dead": "needs a page that has failed",
    "make test": "this is `make test`",
    "podman compose": "it builds images from a registry; tests/deploy reads compose.yaml",
}
#: Languages that are run, or read and compared, by a test of this folder.
CHECKED = {"python", "console", "toml", "json", "sh", "nginx"}
SHOWN = {"text", "indented", "mermaid"}  # output and pictures; without commands, see below
TUTORIAL = ROOT / "docs" / "tutorial.md"
IN_ORDER = [TUTORIAL, *(page for page in PAGES if page != TUTORIAL)]
#: Where the picture of a terminal may differ from the next run.
VARYING = re.compile(r"\d+ s \(.*|(?<=found on ).*|(?<=fingerprint  ).*")
MENU = all_commands()
#: Spiders that pages take for granted.
BOOKS = """
from skitter import Page, Spider

spider = Spider("books", start=["http://localhost:8000/"])


@spider.page
def book(page: Page):
    yield {"title": page.css_first("h1").text()}
    yield from page.follow_all("h3 a")


books = spider
"""


def has(*languages):
    return [page for page in IN_ORDER if blocks_of(page, *languages)]


def reason(code: str) -> str:
    """Why a line or a block is not run, if there is a reason."""
    return next((NOT_RUN[one] for one in NOT_RUN if f"{code}\n".startswith(one)), "")


@pytest.fixture(scope="module")
def place(tmp_path_factory, short_dir):
    """A folder to work in, a server, and the shop."""
    folder = tmp_path_factory.mktemp("docs")
    Machine(folder).clone()
    with ExitStack() as stack:
        stack.enter_context(hold(short_dir / "docs"))
        stack.callback(stop, short_dir / "docs")  # `skitter up` keeps it
        shop = stack.enter_context(open_bookshop(folder / "log", books=60))
        yield SimpleNamespace(
            folder=folder, server=short_dir / "docs", host=shop.origin.removeprefix("http://")
        )


@pytest.fixture
def terminal(place, skitter, nursery, monkeypatch, request) -> Iterator[Terminal]:  # noqa: F811
    """In that place, without what other pages left there."""
    monkeypatch.chdir(place.folder)
    monkeypatch.delenv("SKITTER_REDIS_URL")
    monkeypatch.setenv("SKITTER_DIR", str(place.server))
    monkeypatch.setenv("COLUMNS", "160")
    with ExitStack() as stack:
        yield (
            terminal := Terminal(
                folder=place.folder,
                server=place.server,
                host=place.host,
                skitter=skitter,
                nursery=nursery,
                postgres=cache(lambda: request.getfixturevalue("postgres_server").create()),
                monkeypatch=monkeypatch,
                open=stack,
            )
        )
        terminal.stop()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", has("python", "console"), ids=name_of)
def test_code_runs_and_commands_print_what_the_page_shows(page, terminal, place, capsys):
    prepare(page, terminal)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page, "python", "console"):
        if reason(block.code) or calls_http(block):
            continue
        if block.language == "console":
            type_all(block, terminal)
        elif "from skitter.celery import" in block.code and ".delay(" in block.code:
            terminal.python(block.code)  # whose app is that of its process; Celery is at work
        elif "from crawlee." in block.code:
            terminal.python(block.code)  # it sets up logging, and starts loops
            rows = json.loads((place.folder / "books.json").read_text())
            assert len({row["title"] for row in rows}) == 60  # it fetches some of them twice
        else:
            execute(block, names, place)
            printed = capsys.readouterr().out
            assert not printed or printed in page.read_text().replace("\n    ", "\n")
    for metrics in [one for one in names.values() if isinstance(one, Metrics)]:
        metrics.close()  # at the end of a script this happens by itself


def type_all(block: Block, terminal: Terminal) -> None:
    steps = [step for step in steps_of(block) if not reason(step.command)]
    if any(step.command.endswith(" &") for step in steps):
        terminal.script([step.command for step in steps])
        return
    for step in steps:
        for pattern, make_ready in READY.items():
            if re.match(pattern, step.command):
                make_ready(terminal)
        terminal.type(step.command, step.output)


def test_every_block_is_run_or_has_a_reason():
    """A language or a program that nobody knows how to run is a line for the table above."""
    untested = [
        f"{name_of(page)}: {block.language}: {block.code[:60]!r}"
        for page in PAGES
        for block in all_blocks_of(page)
        if not reason(block.code)
        and (
            block.language not in CHECKED | SHOWN
            or (block.language == "console" and not steps_of(block))
            or (block.language == "sh" and not calls_http(block))
            or (block.language in SHOWN and re.search(r"^ *(\$ |skitter \w)", block.code, re.M))
        )
    ]
    assert untested == []


def test_every_reason_is_needed():
    code = [block.code for page in PAGES for block in all_blocks_of(page)]
    code += [
        step.command
        for page in PAGES
        for one in blocks_of(page, "console")
        for step in steps_of(one)
    ]
    unused = [one for one in NOT_RUN if not any(f"{each}\n".startswith(one) for each in code)]
    assert unused == []


# --- what pages take for granted ------------------------------------------------------------------


def prepare(page, terminal):
    """Spiders, a list of URLs, and the job `books`, which pages look at, with nothing in it yet.
    Pages use the same names; the tutorial's job stays."""
    for job in json.loads(terminal.skitter("status", "--json").out):
        if job["job"] != "shop":
            terminal.skitter("purge", job["job"], "--yes")
    for rows in terminal.folder.glob("books.*"):  # reports count them, whichever page stored them
        if rows.is_file():
            rows.unlink()
    with Redis(unix_socket_path=str(terminal.server / "valkey.sock"), db=BROKER_DB) as client:
        client.flushdb()  # what Celery's workers of another page have not taken
    if page != TUTORIAL:
        code = BOOKS.replace(SHOP, terminal.host)
        (terminal.folder / "spiders").mkdir(exist_ok=True)
        for file in ("books.py", "spider.py", "spiders/books.py"):
            (terminal.folder / file).write_text(code)
    (terminal.folder / "urls.txt").write_text("https://shop.example/a\nhttps://shop.example/cart\n")
    if page.name == "celery.md" and page.parent.name == "coming-from":
        set_up_celery(terminal)
        terminal.type("skitter celery worker -c 2", [])
    if page.parent.name == "howto":
        terminal.skitter("create", "books")


def forget_books(terminal):
    terminal.skitter("purge", "books", "--yes")


def store_prices(terminal):
    """Rows that have more than a title."""
    priced = BOOKS.replace(".text()}", '.text(), "price": 9.5}').replace(SHOP, terminal.host)
    (terminal.folder / "priced.py").write_text(priced)
    forget_books(terminal)
    terminal.type("skitter run priced.py --out books.db", [])


def schedule_books(terminal):
    terminal.skitter("schedule", "add", "books.py", "--every", "6h")


def leave_a_queue_of_scrapy_redis(terminal):
    request = {"url": "https://books.example/", "callback": "parse", "method": "GET", "headers": {}}
    with Redis(unix_socket_path=str(terminal.server / "valkey.sock")) as client:
        client.zadd("books:requests", {pickle.dumps(request): 0})
        client.sadd("books:dupefilter", "0" * 40)


def leave_a_queue_of_ones_own(terminal):
    forget_products(terminal)
    pages = [f"https://example.com/{n}" for n in range(4)]
    with Redis(unix_socket_path=str(terminal.server / "valkey.sock")) as client:
        client.hset("products:running", pages[0], 1)
        client.zadd("products:queue", {pages[1]: 1, pages[2]: 2})
        client.sadd("products:seen", *pages)


def forget_products(terminal):
    terminal.skitter("purge", "products", "--yes")


def lead_into_a_trap(terminal):
    """A budget of one page, and two pages of a calendar that were found on each other."""
    terminal.skitter("set", "books", "--shape-budget", "1")
    asyncio.run(walk_a_calendar(f"unix://{terminal.server}/valkey.sock"))


async def walk_a_calendar(url):
    clock = ManualClock()
    async with connect(url) as server:
        frontier = await open_job(server, "books", clock=clock)
        await frontier.add([Request(f"https://shop.example/calendar/2031/4/{n}") for n in (11, 12)])
        for _ in range(2):
            clock.advance(60)
            (lease,) = (await frontier.lease(1)).leases
            asked = (lease, number_of(shape_of(lease.request.url)))
            (permit,) = await ask_permits(frontier, [asked])
            if permit.is_ours:
                await frontier.complete([Completion(lease=lease)])


def configure_two_routes(terminal):
    """One of them is no proxy at all, as on the page; the shop answers instead of the service."""
    file = terminal.folder / "skitter.toml"
    file.write_text(
        f'[routes]\ntest_url = "http://{terminal.host}/"\n'
        f'[fetch]\nallow_hosts = ["{terminal.host}"]\n'
        '[[proxy]]\nname = "home"\nkind = "direct"\n'
    )
    terminal.open.callback(file.unlink)


def make_a_certificate(terminal):
    made, _ = certificate(terminal.folder)
    made.rename(terminal.folder / "cert.pem")


def set_up_celery(terminal):
    """A package of spiders, an output that has a name, and a shop that workers may fetch."""
    terminal.monkeypatch.setenv("SKITTER_OUTPUT_WAREHOUSE", f"sqlite:///{terminal.folder}/w.db")
    terminal.monkeypatch.setenv("SKITTER_ALLOW_HOSTS", terminal.host)
    terminal.monkeypatch.setenv("PYTHONPATH", str(terminal.folder))
    (terminal.folder / "shop").mkdir()
    (terminal.folder / "shop" / "__init__.py").touch()
    (terminal.folder / "shop" / "spiders.py").write_text(BOOKS.replace(SHOP, terminal.host))
    terminal.open.callback(shutil.rmtree, terminal.folder / "shop")


READY: dict[str, Callable[[Terminal], None]] = {
    r"skitter run books.py -s politeness.per": forget_books,  # which cannot change
    r"skitter run books.py --job books --redis redis\+cluster": forget_books,
    r"skitter export (JOB --to items|books --to cheap)": store_prices,
    r"skitter run books.py --out .file:": forget_books,  # whose items go elsewhere
    r"skitter schedule watch": schedule_books,  # the page has removed it
    r"skitter adopt redis": leave_a_queue_of_ones_own,
    r"skitter adopt scrapy": leave_a_queue_of_scrapy_redis,
    r"skitter why books https://shop.example/calendar": lead_into_a_trap,
    r"skitter proxy test": configure_two_routes,
    r"skitter serve .*--tls-cert": make_a_certificate,
    r"skitter celery worker -c 4": set_up_celery,
}


def test_the_picture_of_a_terminal_shows_what_commands_print(terminal):
    picture = LexborHTMLParser((ROOT / "docs" / "terminal.svg").read_text())
    lines = "\n".join(line.text() for line in picture.css("svg > text"))
    for step in steps_of(Block("console", lines)):
        again = " --fresh --yes" if " run " in step.command else ""
        printed = terminal.print(step.command + again)
        shown = [VARYING.sub("...", line) for line in step.output]
        assert agrees(shown, printed), f"{step.command}\n{printed}"


def execute(block: Block, names: dict[str, object], place: SimpleNamespace) -> None:
    """A block that begins with `# name.py` is that file as well, and its tests are run."""
    first = block.code.partition("\n")[0]
    file = place.folder / (first[2:] if first.startswith("# ") and first.endswith(".py") else "x")
    code = block.code.replace(SHOP, place.host)
    if file.suffix:
        file.write_text(SITES.sub(f"http://{place.host}", code))
    names["__file__"] = str(file)
    exec(compile(code, str(file), "exec", dont_inherit=True), names)
    for name in [name for name in names if name.startswith("test_")]:
        names.pop(name)()  # type: ignore[operator]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_are_there_and_take_what_the_page_gives_them(page):
    for words in commands_of(page):
        if words == ["--version"]:
            continue
        command, rest = find(words)
        if command is not MENU:  # which takes --help and --version
            command.make_context(command.name, rest)  # raises for what it does not take
    for sentence in spoken_of(page):
        command, rest = find(sentence.split())
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
        given = {word.partition("=")[0] for word in rest if word.startswith("-") and word != "-"}
        passes_on = command.context_settings.get("ignore_unknown_options")
        assert passes_on or given <= {*known, "--help", "--version"}, sentence


def find(words):
    command, rest = MENU, list(words)
    while rest and rest[0][0] != "-" and (commands := getattr(command, "commands", None)):
        has_default = rest[0] not in commands and command is not MENU
        command = commands["run" if has_default else rest.pop(0)]  # `skitter test shop.py`
    return command, rest


@pytest.mark.parametrize("page", has("toml"), ids=name_of)
def test_settings_are_read(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks_of(page, "toml"):
        if set(tomllib.loads(block.code)) & {*settings.TABLES, "proxy", "job"}:
            (tmp_path / "skitter.toml").write_text(block.code)
            resolve()  # raises for a key that is unknown, or a value that does not fit
