"""Pages that are kept, under kills, and replayed without the site."""

from __future__ import annotations

import json
import sqlite3
from base64 import b32encode
from contextlib import closing
from hashlib import sha1

import pytest

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


def handled(machine) -> set[str]:
    """The URLs of all pages that the spider's handlers saw: those of books, and their parents."""
    with closing(sqlite3.connect(machine.folder / "books.db")) as database:
        return {url for (url,) in database.execute("SELECT _url FROM books")}


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
        stored = machine.call("replay", str(SPIDER), "--against", "books", "--out", "b.jsonl")
        assert (stored.returncode, stored.stdout[:15]) == (0, "Nothing differs"), stored.stderr
        nowhere = machine.call("replay", str(SPIDER), "--against", "no.csv")
        assert (nowhere.returncode, "no.csv has no rows of books" in nowhere.stderr) == (2, True)

        # The output of the crawl is not that of a replay, and its limits count fetched pages.
        settings = '[output]\nto = "books.db"\n[limits]\nmax_pages = 9\n'
        (machine.folder / "skitter.toml").write_text(settings)
        (machine.folder / "other.py").write_text(FOLLOWS_ALL.format(url=shop.url))
        replayed = machine.call("replay", "other.py", "--job", "books", "--json")
        report = json.loads(replayed.stdout)
        assert report["out"] == "books-replay.db"
        assert report["pages"] == len(archive), "a link to a page that is not kept is no page"
        assert report["kept_out"]["archive"] == 1
        (machine.folder / "skitter.toml").unlink()

        source = SPIDER.read_text().replace("CURRENCIES[price[0]]", "None")
        (machine.folder / "broken.py").write_text(source)
        found = machine.call("replay", "broken.py", "--against", str(SPIDER), "--json")
    assert found.returncode == 1, found.stderr
    diff = json.loads(found.stdout)
    assert (diff["gone"], diff["new"]) == ([], [])
    different = {
        name: one for name, one in diff["fields"].items()
        if one["lost"] or one["added"] or one["changed"]
    }  # fmt: skip
    assert set(different) == {"currency"}
    assert {one["url"] for one in different["currency"]["lost"]} == handled(machine)

    listed = machine.call("archive", "list", "--match", "/book")
    assert "pages (books" in listed.stdout
    url = next(iter(handled(machine)))
    got = machine.call("archive", "get", url)
    assert "<h1" in got.stdout
    missing = machine.call("archive", "show", f"{shop.url}nowhere")
    assert (missing.returncode, "`skitter archive list" in missing.stderr) == (2, True)
