"""The first hour of a new user, step by step, on a site that changes: after each, the rows."""

from __future__ import annotations

import csv
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(300)

SPIDER = """
from skitter import Page, Politeness, Spider, Visits

spider = Spider(
    "news",
    start=["{url}"],
    politeness=Politeness(delay_s=0, max_in_flight=8),
    visits=Visits(revisit_after_s=1, revisit_min_s=1, revisit_max_s=1),
)


@spider.page
def front(page: Page):
    yield from page.follow_all("li a", article)


@spider.page
def article(page: Page):
    {verb} {{"url": page.url, "title": page.css_first("h1").text()}}
"""


@dataclass
class News:
    """A front page, and articles by name."""

    titles: dict[str, str] = field(
        default_factory=lambda: {f"a{n}": f"Title {n}" for n in range(5)}
    )
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def rows(self) -> list[tuple[str, str]]:
        return sorted((f"{self.url}{name}", title) for name, title in self.titles.items())

    def body(self, path: str) -> str | None:
        name = path.strip("/")
        if not name:
            links = (f"<li><a href=/{one}>{one}</a>" for one in self.titles)
            return f"<title>News</title><ul>{''.join(links)}</ul>"
        return f"<h1>{self.titles[name]}</h1>" if name in self.titles else None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, news: News, *given: object) -> None:
        self.news = news
        super().__init__(*given)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.news.asked.append(self.path)
        body = self.news.body(self.path)
        self.send_response(404 if body is None else 200)
        text = (body or "").encode()
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def news() -> Iterator[News]:
    site = News()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, site))
    site.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


def write(folder: Path, news: News, *, verb: str = "yield") -> None:
    (folder / "news.py").write_text(SPIDER.format(url=news.url, verb=verb))


def rows(folder: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(folder / "news.db")) as database:
        return sorted(database.execute("SELECT url, title FROM news"))


def rows_of_csv(file: Path) -> list[tuple[str, str]]:
    with file.open(newline="") as text:
        return sorted((row["url"], row["title"]) for row in csv.DictReader(text))


def test_the_first_hour_of_a_new_user_ends_with_the_right_rows_at_every_step(
    make_machine, news, until
):
    newcomer = make_machine(news)
    folder = newcomer.folder

    def run(*words: str, code: int = 0):
        done = newcomer.call("run", "news.py", "--workers", "1", *words)
        assert done.returncode == code, done.stderr
        return done

    # new, and one page of it
    assert newcomer.call("new", "news").returncode == 0
    write(folder, news)
    one = newcomer.call("fetch", f"{news.url}a3", "--spider", "news.py", "--handler", "article")
    assert (one.returncode, '"title":"Title 3"' in one.stdout) == (0, True)
    assert not (folder / "news.db").exists()

    # a mistake, its message, and the fix
    write(folder, news, verb="")
    mistake = run(code=1)
    assert "article ran 5 times and yielded nothing" in mistake.stdout, mistake.stdout
    write(folder, news)
    run("--fresh", "--yes")
    assert rows(folder) == news.rows()

    # again: nothing is fetched, nothing changes
    asked = len(news.asked)
    run()
    assert (len(news.asked), rows(folder)) == (asked, news.rows())

    # another day: one article is new, one has another title, one is gone
    del news.titles["a0"]
    news.titles |= {"a1": "A better title", "a9": "Late news"}
    run("--fresh", "--yes")
    assert rows(folder) == news.rows()
    run("--fresh", "--yes", "--out", "news.csv")
    assert rows_of_csv(folder / "news.csv") == news.rows()
    (folder / "news.csv").unlink()
    del news.titles["a2"]
    run("--fresh", "--yes", "--out", "news.csv")
    assert rows_of_csv(folder / "news.csv") == news.rows()
    assert newcomer.call("purge", "news", "--yes").returncode == 0

    # visited again, when it is due
    run("--revisit", "--fresh", "--yes")
    news.titles |= {"a3": "Corrected", "b1": "New"}
    until(lambda: json.loads(newcomer.call("status", "news", "--json").stdout)["due"] >= 5)
    run("--revisit")
    assert rows(folder) == news.rows()

    # on a schedule
    news.titles |= {"a4": "Corrected, too", "b2": "Newer"}
    assert newcomer.call("schedule", "add", "news", "--every", "1s").returncode == 0
    crawl = newcomer.start("run", "news.py", "--workers", "1", "--revisit", "--keep-alive")
    until(lambda: rows(folder) == news.rows())
    rounds = news.asked.count("/")
    until(lambda: news.asked.count("/") > rounds + 3)
    crawl.terminate()
    crawl.communicate()
    assert rows(folder) == news.rows()
    assert newcomer.call("audit", "news").returncode == 0
