"""A large file, under kills: fetched about once, by workers that stay small."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from contextlib import closing
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from obstore.store import from_url

from buckets import s3
from crawl.conftest import kill

pytestmark = pytest.mark.timeout(300)

MB = 2**20
SIZE = 120 * MB
PIECE = bytes(range(256)) * 256
CONTENT = sha256(PIECE * (SIZE // len(PIECE))).hexdigest()
SPIDER = """
from skitter import File, Politeness, Spider

spider = Spider("t", start=["{url}/"], politeness=Politeness(delay_s=0))


@spider.page
def page(page):
    yield {{"title": "a film", "film": File("film.mp4")}}
"""


class Cinema(BaseHTTPRequestHandler):
    """A page and a film. It pauses at each mark until it is let go on."""

    url = ""
    sent = 0
    passed: ClassVar[dict[int, threading.Event]] = {}

    def do_GET(self) -> None:
        if self.path != "/film.mp4":
            self.answer(200 if self.path == "/" else 404, 0)
            return
        said = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        start = int(said[1]) if said else 0
        self.answer(206 if said else 200, SIZE - start, start)
        while start < SIZE:
            for mark, go in self.passed.items():
                if start <= mark < start + len(PIECE):
                    go.wait()
            at = start % len(PIECE)
            piece = (PIECE + PIECE)[at : at + len(PIECE)]
            piece = piece[: min(len(piece), SIZE - start)]
            self.wfile.write(piece)
            start += len(piece)
            type(self).sent += len(piece)

    def answer(self, status: int, size: int, start: int = 0) -> None:
        self.send_response(status)
        self.send_header("content-type", "video/mp4" if size else "text/html")
        self.send_header("content-length", str(size))
        self.send_header("etag", '"film"')
        if status == 206:
            self.send_header("content-range", f"bytes {start}-{SIZE - 1}/{SIZE}")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def cinema():
    class Opened(Cinema):
        passed: ClassVar[dict[int, threading.Event]] = {}

    handler = Opened
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    handler.url = f"http://127.0.0.1:{server.server_port}"
    yield handler
    for go in handler.passed.values():
        go.set()
    server.shutdown()
    thread.join()
    server.server_close()


def largest_mb(pid: int) -> float:
    """The most memory that a process has had; 0: it is gone."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


@pytest.fixture(params=["folder", "s3"])
def store(request, monkeypatch):
    if request.param == "folder":
        yield None
    else:
        with s3(monkeypatch) as bucket:
            yield f"{bucket}/films"


def test_a_large_file_is_fetched_about_once_though_its_workers_are_killed(
    cinema, make_machine, open_shop, until, store
):
    machine = make_machine(open_shop())
    (machine.folder / "film.py").write_text(SPIDER.format(url=cinema.url))
    for mark in (40 * MB, 80 * MB):
        cinema.passed[mark] = threading.Event()
    more = ("--files-store", store) if store else ()
    crawl = machine.start("run", "film.py", "--workers", "1", "-s", "files.folder=films", *more)
    parts = machine.folder / "films" / ".parts"
    for mark, go in cinema.passed.items():
        until(lambda mark=mark: sum(one.stat().st_size for one in parts.glob("*")) >= mark - MB)
        workers = machine.children("work")
        assert max(map(largest_mb, workers)) < 150
        kill(*workers)
        go.set()
    _, said = crawl.communicate()
    assert crawl.returncode == 0, said

    with closing(sqlite3.connect(machine.folder / "t.db")) as database:
        [(film,)] = database.execute("SELECT film FROM t").fetchall()
    told = json.loads(film)
    assert (told["size"], told["sha256"], told["type"]) == (SIZE, CONTENT, "video/mp4")
    if store:
        assert told["path"] == f"{store}/{CONTENT[:2]}/{CONTENT}"
        stored = bytes(from_url(store).get(f"{CONTENT[:2]}/{CONTENT}").bytes())
    else:
        stored = (machine.folder / told["path"]).read_bytes()
    assert sha256(stored).hexdigest() == CONTENT
    assert cinema.sent <= 1.1 * SIZE
    assert not list(parts.iterdir()), "nothing is left of the parts"
