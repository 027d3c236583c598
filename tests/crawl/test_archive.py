"""Pages that are kept, under kills, and replayed without the site."""

from __future__ import annotations

import json
import sqlite3
from base64 import b32encode
from contextlib import closing, suppress
from hashlib import sha1

import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

from crawl.conftest import kill
from crawl.test_crawls import assert_complete
from skitter.archive.index import Archive
from skitter.demo import SPIDER

pytestmark = pytest.mark.timeout(300)


FOLLOWS_ALL = """
from skitter import Request, Spider

spider = Spider("other", start=["{url}"])


@spider.page
async def listing(page):
    yield {{"url": page.url}}
    yield page.follow("/nowhere")


@spider.page
async def book(page):
    yield {{"url": page.url}}
"""


#: After some pages, a handler goes on only once the test says so.
WAITS = """if next(numbers) > 9:
        while not pathlib.Path("go").exists():
            await asyncio.sleep(0.01)"""


def handled(machine) -> set[str]:
    """The URLs of all pages that the spider's handlers saw: those of books, and their parents."""
    with closing(sqlite3.connect(machine.folder / "books.db")) as database:
        return {url for (url,) in database.execute("SELECT _url FROM books")}


def add_row_of_another_page(machine) -> None:
    with closing(sqlite3.connect(machine.folder / "books.db")) as database, database:
        database.execute("CREATE TEMP TABLE one AS SELECT * FROM books LIMIT 1")
        database.execute("UPDATE one SET _id = 'f-0', _url = 'https://a.test/'")
        database.execute("INSERT INTO books SELECT * FROM one")


def assert_shown(machine, archive: Archive) -> None:
    listed = machine.call("archive", "list", "--match", "/book")
    assert "pages (books" in listed.stdout
    bodies = {kept.url: archive.read(kept).body for kept in archive}
    url = next(url for url, body in bodies.items() if b"<h1" in body and body.isascii())
    got = machine.call("archive", "get", url)
    assert "<h1" in got.stdout
    missing = machine.call("archive", "show", "https://a.test/nowhere")
    assert (missing.returncode, "`skitter archive list" in missing.stderr) == (2, True)
    other = machine.call("replay", str(SPIDER), "--job", "book")
    assert (other.returncode, "'book': it has those of books" in other.stderr) == (2, True)


def test_kept_pages_are_replayed_to_the_same_rows_though_workers_were_killed(
    open_shop, make_machine, until
):
    shop = open_shop(latency_s=0.05)
    machine = make_machine(shop)
    words = ("run", str(SPIDER), "--workers", "2", "--concurrency", "4", "--archive")
    crawl = machine.start(*words)
    for rows in (5, 15):
        until(lambda rows=rows: len(machine.rows()) > rows)
        kill(*machine.children("work"))
    _, said = crawl.communicate()
    assert crawl.returncode == 0, said
    assert_complete(machine, shop)

    archive = Archive.open(machine.folder / "archive")
    assert handled(machine) <= {one.url for one in archive}
    for kept in archive:
        body = archive.read(kept).body
        assert b32encode(sha1(body).digest()).decode() == kept.digest
    lines = [
        (one["url"], one["offset"])
        for path in machine.folder.glob("archive/*.jsonl")
        for one in map(json.loads, path.read_text().splitlines())
    ]
    assert len({url for url, _ in lines}) == len(set(lines)), "one response for each done page"

    with shop.silent():
        same = machine.call("replay", str(SPIDER), "--against", "books.db")
        assert (same.returncode, same.stdout[:15]) == (0, "Nothing differs"), same.stderr
        every = handled(machine)
        add_row_of_another_page(machine)  # from before `--archive`
        stored = machine.call("replay", str(SPIDER), "--against", "books", "--out", "b.jsonl")
        assert (stored.returncode, stored.stdout[:15]) == (0, "Nothing differs"), stored.stderr
        assert "Not compared: 1 stored row, whose pages were not kept." in stored.stdout
        nowhere = machine.call("replay", str(SPIDER), "--against", "no.csv")
        assert (nowhere.returncode, "no.csv has no rows of books" in nowhere.stderr) == (2, True)

        # The output of the crawl is not that of a replay, and its limits count fetched pages.
        settings = '[output]\nto = "books.db"\n[limits]\nmax_pages = 9\n[fetch]\ncache = "dev"\n'
        (machine.folder / "skitter.toml").write_text(settings)
        (machine.folder / "other.py").write_text(FOLLOWS_ALL.format(url=shop.url))
        replayed = machine.call("replay", "other.py", "--job", "books", "--json")
        report = json.loads(replayed.stdout)
        assert report["out"] == "books-replay.db"
        assert report["pages"] == len(archive), "a link to a page that is not kept is no page"
        assert report["kept_out"]["archive"] == 1
        assert report["archived"] == 0, "what comes from the archive is in it"
        (machine.folder / "skitter.toml").unlink()

        failing = min(every)
        source = SPIDER.read_text().replace("CURRENCIES[price[0]]", "None")
        crash = f"    1 / (page.url != {failing!r})\n"
        source = source.replace("    stock =", f"{crash}    stock =")
        (machine.folder / "broken.py").write_text(source)
        found = machine.call("replay", "broken.py", "--against", str(SPIDER), "--json")
    assert found.returncode == 1, found.stderr
    diff = json.loads(found.stdout)
    assert (diff["gone"], diff["new"], diff["not_kept"]) == ([failing], [], 0)
    [(reason, count)] = diff["failed"].items()
    assert (count, "ZeroDivisionError" in reason) == (1, True)
    different = {
        name: one for name, one in diff["fields"].items()
        if one["lost"] or one["added"] or one["changed"]
    }  # fmt: skip
    assert set(different) == {"currency"}
    assert {one["url"] for one in different["currency"]["lost"]} == every - {failing}

    assert_shown(machine, archive)


def test_pages_are_handled_again_in_place_though_the_redo_is_killed(open_shop, make_machine, until):
    shop = open_shop(books=50)
    machine = make_machine(shop)
    good = SPIDER.read_text()
    code = '    for link in page.css(".related h3 a"):'
    (machine.folder / "bad.py").write_text(
        good.replace("CURRENCIES[price[0]]", "'?'").replace(
            code, f"    yield {{'upc': 'ad'}}\n{code}"
        )
    )
    (machine.folder / "good.py").write_text(
        "import asyncio, itertools, pathlib\nnumbers = itertools.count()\n"
        + good.replace("    yield {", f"    {WAITS}\n    yield {{")
    )
    crawl = machine.call("run", "bad.py", "--archive", "--workers", "1")
    assert crawl.returncode == 0, crawl.stderr
    assert [row["currency"] for row in machine.rows()] == ["?", None] * 50

    with shop.silent():
        redo = machine.start("redo", "good.py", "--handler", "book", "--concurrency", "4")
        until(lambda: any(row["currency"] not in ("?", None) for row in machine.rows()))
        kill(redo.pid, *machine.children("work"), *machine.children("load"))
        assert machine.stats().remaining, "it was killed in the middle"
        (machine.folder / "go").touch()
        again = machine.call("run", "good.py", "--workers", "1")
        assert again.returncode == 0, again.stderr
        assert_complete(machine, shop)
        assert (machine.stats().cached, machine.stats().again) == (50, 50)
        none = machine.call("redo", "good.py", "--match", "/nowhere")
        assert (none.returncode, "has no such page" in none.stderr) == (0, True)


@pytest.mark.chaos
def test_each_done_page_has_one_record_of_what_its_handler_saw_whoever_was_killed(
    open_shop, make_machine, until
):
    shop = open_shop(books=300, latency_s=0.05)
    machine = make_machine(shop)
    digest = "{'digest': b32encode(sha1(page.body).digest()).decode()}"
    source = SPIDER.read_text().replace(
        "    for link in page.css(", f"    yield {digest}\n    for link in page.css(", 1
    )
    source = source.replace('        "title":', f'        **{digest},\n        "title":')
    imports = "from base64 import b32encode\nfrom hashlib import sha1\n"
    (machine.folder / "books.py").write_text(imports + source)
    words = ("run", "books.py", "--workers", "2", "--concurrency", "4", "--archive")
    victims, running = ("work", "load", "server", "work", "load", "run"), [machine.start(*words)]

    def has_seen(rows: int) -> bool:
        if running[-1].poll() is not None:  # the kill before has ended it
            running.append(machine.start(*words))
        return len(seen(machine)) > rows

    for number, victim in enumerate(victims, 1):
        until(lambda rows=30 * number: has_seen(rows))
        kill(*([machine.server_pid()] if victim == "server" else machine.children(victim)))
    running[-1].communicate()
    last = machine.call(*words)
    assert last.returncode == 0, last.stderr

    archive, stats = Archive.open(machine.folder / "archive"), machine.stats()
    assert archive.unreadable == []
    assert len(archive) == stats.done
    lines = [
        (one["url"], one["file"], one["offset"])
        for path in machine.folder.glob("archive/*.jsonl")
        for one in map(json.loads, path.read_text().split("\n")[:-1])
    ]
    assert len({url for url, *_ in lines}) == len(set(lines)) == stats.done
    digests = {one.url: one.digest for one in archive}
    found = seen(machine)
    assert len(found) > 300
    assert found.items() <= digests.items()
    for one in archive:
        assert archive.read(one)
    read = set[str]()
    for path in machine.folder.glob("archive/*.warc.gz"):
        with path.open("rb") as file, suppress(EOFError, ArchiveLoadFailed):  # cut by a kill
            for record in ArchiveIterator(file, check_digests="raise"):
                record.content_stream().read()
                read.add(record.rec_headers.get_header("WARC-Target-URI"))
    assert digests.keys() <= read

    with shop.silent():
        same = machine.call("replay", "books.py", "--against", "books.db")
    assert (same.returncode, same.stdout[:15]) == (0, "Nothing differs"), same.stdout + same.stderr


def seen(machine) -> dict[str, str]:
    """The digests of the bodies that handlers saw, by URL."""
    if not (file := machine.folder / "books.db").exists():  # or we would make an empty one
        return {}
    with closing(sqlite3.connect(file)) as database:
        try:
            return dict(database.execute("SELECT _url, digest FROM books WHERE digest > ''"))
        except sqlite3.OperationalError:
            return {}


TYPED = """
from dataclasses import dataclass
from skitter import Spider

spider = Spider("typed", start=["{url}"])


@dataclass
class Found:
    url: str
    size: int


@spider.page(item=Found)
def page(page):
    yield {{"url": page.url, "size": {size}}}
"""


def test_pages_with_rejected_items_are_fetched_again_without_an_archive(open_shop, make_machine):
    shop = open_shop(books=50)
    machine = make_machine(shop)
    spider = machine.folder / "typed.py"
    spider.write_text(TYPED.format(url=shop.url, size="'large'"))
    assert machine.call("run", "typed.py").returncode == 1
    spider.write_text(TYPED.format(url=shop.url, size="len(page.body)"))
    idle = machine.call("run", "typed.py")
    assert "`skitter redo typed.py` handles its pages again" in idle.stderr

    redone = machine.call("redo", "typed.py", "--rejected")

    assert (redone.returncode, "1 to be fetched" in redone.stderr) == (0, True), redone.stderr
    assert machine.stats("typed").rejected == 0
    with closing(sqlite3.connect(machine.folder / "typed.db")) as database:
        [(size,)] = database.execute("SELECT size FROM typed").fetchall()
    assert size > 100
    assert "no rejected items" in machine.call("rejected", "typed").stdout


def test_pages_of_a_limited_crawl_are_handled_again_and_no_others(open_shop, make_machine):
    machine = make_machine(open_shop(books=50))
    spider, code = machine.folder / "typed.py", TYPED + "    yield from page.follow_all()\n"
    spider.write_text(code.format(url=machine.shop.url, size="0"))
    machine.call("run", "typed.py", "--revisit", "--max-pages", "4", "--delay", "0")
    spider.write_text(code.format(url=machine.shop.url, size="1"))

    assert "4 to be fetched" in machine.call("redo", "typed.py").stderr

    stats = machine.stats("typed")
    assert (stats.again, stats.done, stats.revisits) == (4, 4, 4)
    with closing(sqlite3.connect(machine.folder / "typed.db")) as database:
        assert database.execute("SELECT size FROM typed").fetchall() == [(1,)] * 4
    plain = machine.call("run", "typed.py", "--max-pages", "4")
    assert "4 pages to revisit: without --revisit" in plain.stderr
