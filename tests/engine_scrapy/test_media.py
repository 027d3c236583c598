"""Scrapy's pipelines for files and images keep each content once, in Skitter's folder."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPIDER = """
import scrapy

class Reports(scrapy.Spider):
    name = "reports"
    start_urls = ["{url}/a.pdf"]
    custom_settings = {{
        "ITEM_PIPELINES": {{"skitter.scrapy.media.FilesPipeline": 1}},
        "FILES_STORE": "skitter://files",
    }}

    def parse(self, response):
        yield {{"file_urls": [f"{url}/{{name}}.pdf" for name in "abc"]}}
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "site"
    folder.mkdir()
    for name, content in (("a", "one"), ("b", "one"), ("c", "two")):
        (folder / f"{name}.pdf").write_text(content)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_each_content_is_there_once_under_scrapys_names_and_ours(site: str, tmp_path: Path):
    (tmp_path / "reports.py").write_text(SPIDER.format(url=site))

    def crawl() -> list[dict[str, str]]:
        words = ("runspider", "reports.py", "-O", "items.json", "--loglevel", "ERROR")
        done = subprocess.run(
            [sys.executable, "-m", "scrapy", *words],
            cwd=tmp_path, check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        [item] = json.loads((tmp_path / "items.json").read_text())
        files: list[dict[str, str]] = item["files"]
        return sorted(files, key=lambda file: file["url"])

    a, b, c = crawl()
    assert {one["status"] for one in (a, b, c)} == {"downloaded"}
    folder = tmp_path / "files"
    names = {text: sha256(text.encode()).hexdigest() for text in ("one", "two")}
    contents = {text: folder / name[:2] / f"{name}.pdf" for text, name in names.items()}
    assert {text: path.read_text() for text, path in contents.items()} == {
        "one": "one",
        "two": "two",
    }
    for file, text in ((a, "one"), (b, "one"), (c, "two")):
        assert (folder / file["path"]).samefile(contents[text]), file
    assert contents["one"].stat().st_nlink == 3
    whole = sorted(folder.rglob("*"))

    assert {one["status"] for one in crawl()} == {"uptodate"}
    (folder / a["path"]).unlink()
    assert [one["status"] for one in crawl()] == ["downloaded", "uptodate", "uptodate"]
    assert sorted(folder.rglob("*")) == whole, "nothing is left beside them"
