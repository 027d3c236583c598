"""Saved pages as tests of spiders: `skitter test`, and plain pytest."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from skitter.archive.index import write_lines
from skitter.archive.record import Record
from skitter.archive.writer import ArchiveWriter
from skitter.model import Request, Response
from skitter.spider.fixtures import Checks, find

BOOK = "<h1>Caf\xe9 \x80</h1><p class=price>12.50</p>\r\n<a href=/next?sid=1>next</a>"
SPIDER = """
from dataclasses import dataclass

from skitter import Spider

@dataclass
class Book:
    title: str
    price: float | None
    page: str
    shelf: str = "new"
    count: int = 1
    note: str | None = None

spider = Spider("shop", "https://shop.example/", item=Book)

@spider.page
def listing(page):
    for link in page.css("a"):
        yield page.follow(link, book, meta={"shelf": link.text()})

@spider.page
async def book(page):
    yield Book(
        page.css_first("h1").text(),
        float(page.css_first(".price").text()),
        page.url,
        page.meta.get("shelf", "new"),
    )
    yield page.follow(page.css_first("a"), listing)
"""
LOGIN = """page.follow(
        "/in?token=geheim", listing, method="POST", body="user=anna&password=geheim"
    )
    yield page.follow("/list", listing, method="POST", body="page=2")"""
URL = "https://shop.example/book/1"


class Shop(BaseHTTPRequestHandler):
    """A bookshop with one book, in an old encoding, that sets a cookie."""

    def do_GET(self):
        is_book = self.path.startswith("/book")
        body = BOOK.encode("latin-1") if is_book else b""
        self.send_response(200 if is_book else 404)
        self.send_header("content-type", "text/html; charset=windows-1252")
        self.send_header("set-cookie", "sid=geheim")
        self.send_header("x-csrf-token", "geheim")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def here(tmp_path: Path, monkeypatch) -> Path:
    """A folder with a spider and a saved page."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(SPIDER)
    (tmp_path / "saved.html").write_bytes(BOOK.encode("latin-1"))
    return tmp_path


def add(skitter, *words: str):
    answer = skitter("test", "add", "shop.py", *words, "--json")
    assert answer.exit_code == 0, answer.err
    return answer.json


def add_file(skitter, url: str = URL, *words: str):
    return add(skitter, url, "--handler", "book", "--file", "saved.html", *words)


def change(here: Path, before: str, now: str) -> None:
    source = (here / "shop.py").read_text()
    assert before in source
    (here / "shop.py").write_text(source.replace(before, now))


def test_a_page_is_fetched_and_kept_byte_for_byte_without_secrets(skitter, here, shop):
    added = add(skitter, f"{shop}/book/1?page=2&token=geheim", "--handler", "book")

    folder = here / "fixtures/shop/book-book-1-page-2-token"
    assert added == {
        "fixture": str(folder.relative_to(here)),
        "same": True,
        "problem": None,
        "differences": [],
        "new": True,
        "from": "web",
        "items": 1,
        "links": 1,
        "rejected": 0,
    }
    assert (folder / "body.html").read_bytes() == BOOK.encode("latin-1")
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    assert expected["items"] == [
        {
            "title": "Caf\xe9 \u20ac",
            "price": 12.5,
            "page": f"{shop}/book/1?page=2&token=***",
            "shelf": "new",
            "count": 1,
            "note": None,
        }
    ]
    assert expected["links"] == [{"url": f"{shop}/next?sid=1", "handler": "listing"}]
    assert not any(b"geheim" in one.read_bytes() for one in folder.iterdir())
    assert skitter("test").out == "1 of 1 fixture as expected.\n"


def test_one_broken_selector_is_named_and_nothing_else(skitter, here):
    add_file(skitter)
    add_file(skitter, f"{URL}-b")
    change(here, 'float(page.css_first(".price").text())', "None")

    answer = skitter("test", "shop.py")
    assert answer.exit_code == 1
    assert answer.out.splitlines() == [
        "fixtures/shop/book-book-1",
        "  item 1, price",
        "    - 12.5",
        "    + null",
        "fixtures/shop/book-book-1-b",
        "  item 1, price",
        "    - 12.5",
        "    + null",
        "0 of 2 fixtures as expected. To take the new values: skitter test accept",
    ]
    one, _ = skitter("test", "--json").json
    assert one["differences"] == [{"what": "item 1", "field": "price", "before": 12.5, "now": None}]

    taken = skitter("test", "accept", "fixtures/shop/book-book-1-b")
    assert (taken.exit_code, taken.out.splitlines()[0]) == (
        0,
        "Accepted fixtures/shop/book-book-1-b",
    )
    assert [one["same"] for one in skitter("test", "--json").json] == [False, True]
    assert skitter("test", "accept").exit_code == 0
    assert skitter("test").exit_code == 0


def test_links_and_types_and_empty_values_differ_too(skitter, here):
    add_file(skitter)
    change(here, "item=Book)", ")")
    change(here, "float(page.css_first", "(page.css_first")
    change(here, 'page.follow(page.css_first("a"), listing)', 'page.follow("/else", listing)')
    change(here, 'page.meta.get("shelf", "new")', '""')
    change(here, "count: int = 1", "count: int = 1.0")
    change(here, "note: str | None = None", 'note: str | None = ""')

    found = skitter("test", "--json").json[0]["differences"]
    assert found == [
        {"what": "item 1", "field": "price", "before": 12.5, "now": "12.50"},
        {"what": "item 1", "field": "shelf", "before": "new", "now": ""},
        {"what": "item 1", "field": "count", "before": 1, "now": 1.0},
        {"what": "item 1", "field": "note", "before": None, "now": ""},
        {
            "what": "link https://shop.example/else",
            "now": {"url": "https://shop.example/else", "handler": "listing"},
        },
        {
            "what": "link https://shop.example/next?sid=1",
            "before": {"url": "https://shop.example/next?sid=1", "handler": "listing"},
        },
    ]
    assert "link https://shop.example/else is new" in skitter("test").out


def test_an_item_that_comes_first_now_is_all_that_is_new(skitter, here):
    add_file(skitter)
    change(here, "async def book(page):\n", 'async def book(page):\n    yield Book("a", 1, "b")\n')

    (found,) = skitter("test", "--json").json[0]["differences"]
    assert (found["what"], "before" in found, found["now"]["title"]) == ("item 1", False, "a")


def test_adding_a_page_again_replaces_it_and_a_page_of_the_same_name_does_not(skitter, here):
    first = add_file(skitter)
    (here / "saved.html").write_bytes(b"<h1>New</h1><p class=price>1</p><a href=/>")
    again = add_file(skitter)
    other = add_file(skitter, "https://shop.example/book?1")

    assert (first["new"], again["new"], other["new"]) == (True, False, True)
    assert first["fixture"] == again["fixture"]
    assert other["fixture"] == f"{first['fixture']}-2"
    body = here / again["fixture"] / "body.html"
    assert body.read_bytes().startswith(b"<h1>New")
    assert len(skitter("test", "--json").json) == 2


def test_a_kept_page_is_taken_from_the_archive_with_its_handler_and_meta(skitter, here):
    request = Request(url=URL, handler="book", meta={"shelf": "old", "password": "geheim"})
    headers = (("content-type", "text/html; charset=latin-1"), ("set-cookie", "sid=geheim"))
    response = Response(url=URL, status=200, headers=headers, body=BOOK.encode("latin-1"))
    with closing(ArchiveWriter(here / "archive", "shop", print)) as writer:
        lines = writer.write([Record(request, response, 1.0, "shop", "1")])
    write_lines(here / "archive", lines)

    added = add(skitter, URL)
    assert (added["from"], added["fixture"]) == ("archive", "fixtures/shop/book-book-1")
    folder = here / added["fixture"]
    assert json.loads((folder / "expected.json").read_text())["items"][0]["shelf"] == "old"
    page = json.loads((folder / "page.json").read_text())
    assert page["request"]["meta"] == {"shelf": "old", "password": "***"}
    assert "geheim" not in (folder / "page.json").read_text()


def test_plain_pytest_runs_fixtures_and_shows_what_differs(skitter, here):
    add_file(skitter)
    (here / "test_own.py").write_text("def test_own(): pass\n")
    other = here / "fixtures/other/tool"
    other.mkdir(parents=True)
    (other / "page.json").write_text("{}")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:schemathesis", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=here)

    assert "2 passed" in run().stdout
    change(here, ".price", ".no-price")  # of another size: Python's cache goes by size and second
    broken = run("fixtures")
    assert broken.returncode == 1
    assert ".no-price" in broken.stdout
    assert "Traceback" not in broken.stdout
    change(here, 'float(page.css_first(".no-price").text())', "7")
    differs = run("fixtures")
    assert "item 1, price\n  - 12.5\n  + 7" in differs.stdout, differs.stdout
    assert "skitter test accept fixtures/shop/book-book-1" in differs.stdout


def test_pytest_without_fixtures_imports_nothing_of_ours(tmp_path):
    (tmp_path / "test_own.py").write_text(
        "import sys\ndef test_own():\n"
        "    ours = {one for one in sys.modules if one.startswith('skitter')}\n"
        "    assert ours == {'skitter', 'skitter.pytest_plugin'}\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:schemathesis"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_a_spider_in_a_package_and_its_arguments_are_found_again(skitter, here, monkeypatch):
    monkeypatch.syspath_prepend(str(here))
    package = here / "fixture_shops"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text(
        "from skitter import Spider\n"
        "def spider(shelf: str) -> Spider:\n"
        "    made = Spider('one', 'https://shop.example/')\n"
        "    @made.page\n"
        "    def book(page): return {'shelf': shelf, 'encoding': page.encoding}\n"
        "    return made\n"
    )
    words = ("-a", "shelf=old", "--file", "saved.html")
    answer = skitter("test", "add", "fixture_shops.one", URL, *words)
    assert answer.exit_code == 0, answer.err
    assert "Saved fixture_shops/fixtures/one/book-book-1: 1 item and 0 links (file)." in answer.out
    assert skitter("test", "fixture_shops.one").exit_code == 0
    assert skitter("test", "fixture_shops").exit_code == 0
    (folder,) = find()
    assert Checks().run(folder)["items"] == [{"shelf": "old", "encoding": "windows-1252"}]


def test_a_value_that_is_new_in_each_run_is_told_at_once(skitter, here):
    change(here, "page.url,", "str(id(page)) + __import__('uuid').uuid4().hex,")

    words = ("--handler", "book", "--file", "saved.html")
    answer = skitter("test", "add", "shop.py", URL, *words)
    assert answer.exit_code == 1
    assert "it differs already when it runs again:\n  item 1, page\n" in answer.err


def test_rejected_items_are_expected_too_wherever_the_line_is(skitter, here):
    (here / "saved.html").write_bytes(b"<h1>x</h1><p class=price>1</p><a href=/>")
    change(here, 'float(page.css_first(".price").text())', '"cheap"')
    added = add_file(skitter)
    assert (added["items"], added["rejected"]) == (0, 1)

    change(here, "from dataclasses", "\n\n\nfrom dataclasses")
    assert skitter("test").exit_code == 0
    change(here, '"cheap"', '"dear"')
    (found,) = skitter("test", "--json").json[0]["differences"]
    assert (found["what"], found["field"]) == ("rejected item 1", "item")
    assert found["now"]["price"] == "dear"


def test_secrets_of_requests_and_links_are_masked(skitter, here):
    change(here, 'page.follow(page.css_first("a"), listing)', LOGIN)
    add_file(skitter, "https://shop.example/book/1;jsessionid=geheim")

    (folder,) = find()
    texts = [one.read_text("latin-1") for one in folder.iterdir()]
    assert not any("geheim" in text or "anna" in text for text in texts)
    found = json.loads((folder / "expected.json").read_text())["links"]
    assert [one["body"] for one in found] == ["***", "page=2"]


def test_mistakes_are_told_with_what_to_do(skitter, here, shop):
    def says(*words: str) -> tuple[int, str]:
        answer = skitter("test", *words)
        assert "Traceback" not in answer.err
        return answer.exit_code, " ".join((answer.out + answer.err).split())

    code, text = says()
    assert code == 2
    assert "there is no fixture in .: `skitter test add SPIDER URL` makes one." in text
    code, text = says("shop.py")
    assert code == 2
    assert "there is no fixture of shop.py: `skitter test add shop.py URL` makes one." in text
    assert says("gone.py") == (2, "skitter: there is no file gone.py: check the path.")
    assert says("no.such:spider")[0] == 2
    code, text = says("add", "shop.py", f"{shop}/nothing")
    assert (code, "404" in text, "Nothing was saved." in text) == (1, True, True)
    code, text = says("add", "shop.py", URL, "--file", "gone.html")
    assert (code, "cannot read gone.html" in text) == (2, True)
    (here / "empty.html").write_text("<p>")
    code, text = says("add", "shop.py", URL, "--handler", "book", "--file", "empty.html")
    assert (code, "handler book failed" in text) == (1, True)
    assert not (here / "fixtures").exists()

    add_file(skitter)
    folder = here / "fixtures/shop/book-book-1"
    change(here, "async def book", "async def novel")
    change(here, "page.follow(link, book,", "page.follow(link, novel,")
    code, text = says()
    assert code == 1
    assert "has no handler 'book'; it has listing, novel" in text
    assert "If it is gone for good, remove fixtures/shop/book-book-1." in text
    code, text = says("accept")
    assert (code, "has no handler 'book'" in text) == (1, True)
    (here / "shop.py").write_text("import no_such_module\n")
    code, text = says()
    assert (code, "no_such_module" in text) == (1, True)
    (here / "shop.py").unlink()
    code, text = says()
    assert (code, "there is no file" in text) == (1, True)

    (here / "shop.py").write_text(SPIDER)
    (folder / "expected.json").unlink()
    code, text = says()
    assert code == 1
    assert "`skitter test accept fixtures/shop/book-book-1` writes it anew" in text
    assert says("accept")[0] == 0
    assert says()[0] == 0
    (folder / "page.json").write_text('{"spider": 1')
    code, text = says("shop.py")
    assert (code, "add the page again" in text) == (1, True)
    assert add_file(skitter)["fixture"] == "fixtures/shop/book-book-1"
    assert says()[0] == 0
