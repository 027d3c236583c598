"""How large the house is, and how much of it a page crosses: `make size`.

Lines and files by room, modules per folder, nouns, functions. A page crosses the functions whose
calls grow between a crawl of 2 pages and one of 12, traced with sys.setprofile: our own worker with
its frontier and its SQLite output.
"""

from __future__ import annotations

import ast
import asyncio
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median, quantiles
from types import FrameType
from typing import Any

from skitter import Page, Politeness, Spider

SRC = Path(__file__).resolve().parents[1] / "src"
HOUSE = SRC / "skitter"
FEW, MORE = 2, 12


class Site(BaseHTTPRequestHandler):
    """Numbered pages that link to the next one."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        number = int(self.path.strip("/") or 0) if self.path != "/robots.txt" else None
        body = b"" if number is None else f"<h1>{number}</h1><a href=/{number + 1}>".encode()
        self.send_response(404 if number is None else 200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def open_site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def crossed(url: str, pages: int) -> Counter[tuple[str, str]]:
    """Calls of our functions, by file and name, in a crawl of so many pages."""
    spider = Spider(f"size-{pages}", [url], politeness=Politeness(delay_s=0, max_in_flight=8))

    @spider.page
    def page(page: Page) -> Iterator[Any]:
        yield {"title": page.css_first("h1").text()}
        if int(page.css_first("h1").text()) + 1 < pages:
            yield from page.follow_all("a")

    calls: Counter[tuple[str, str]] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(HOUSE)):
            calls[frame.f_code.co_filename, frame.f_code.co_qualname] += 1

    with tempfile.TemporaryDirectory() as folder:
        settings = {"server.directory": f"{folder}/s"}
        threading.setprofile(count)
        sys.setprofile(count)
        report = asyncio.run(spider.run(f"{folder}/out.db", settings=settings))
        sys.setprofile(None)
        threading.setprofile(None)
    assert report.pages == pages, report
    return calls


def code_lines(tree: ast.AST, text: str) -> int:
    """Without blank lines, comments and docstrings."""
    docs = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docs.update(range(first.lineno, (first.end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(s := line.strip()) and s[0] != "#" and n not in docs for n, line in lines)


def function_lengths(tree: ast.AST) -> list[int]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    found = (node for node in ast.walk(tree) if isinstance(node, kinds))
    return [(node.end_lineno or 0) - node.lineno + 1 for node in found]


def show_files() -> None:
    rooms: dict[str, Counter[str]] = {}
    folders, nouns = Counter[Path](), Counter[str]()
    lengths: list[int] = []
    for file in sorted(HOUSE.rglob("*.py")):
        text, inside = file.read_text("utf-8"), file.relative_to(HOUSE)
        tree = ast.parse(text)
        room = rooms.setdefault(inside.parts[0] if len(inside.parts) > 1 else ".", Counter())
        room.update(files=1, lines=text.count("\n"), code=code_lines(tree, text))
        lengths += function_lengths(tree)
        if file.name not in ("__init__.py", "__main__.py"):
            folders[inside.parent] += 1
            nouns[file.stem] += 1
    print(f"{'room':<12}{'files':>7}{'lines':>9}{'code':>9}")
    for name, counted in (rooms | {"all": sum(rooms.values(), Counter[str]())}).items():
        print(f"{name:<12}{counted['files']:>7}{counted['lines']:>9,}{counted['code']:>9,}")
    lua = list(HOUSE.rglob("*.lua"))
    print(
        f"\nLua          {len(lua)} files, {sum(f.read_text().count(chr(10)) for f in lua):,} lines"
    )
    p90 = quantiles(lengths, n=10)[-1]
    print(f"functions    median {median(lengths):.0f}, p90 {p90:.0f}, longest {max(lengths)} lines")
    wide = ", ".join(f"{folder} {n}" for folder, n in folders.most_common() if n > 15)
    print(f"over 15      {wide or 'no folder'} (modules in a folder)")
    twice = sorted(noun for noun, times in nouns.items() if times > 1)
    print(f"nouns        {len(nouns)}, used twice or more: {len(twice)} ({', '.join(twice)})")


def show_page(*, listed: bool) -> None:
    """`--list`: also the files, each with how many of its functions a page crosses."""
    with open_site() as url:
        few, more = crossed(url, FEW), crossed(url, MORE)
    per_page = {where for where, times in more.items() if times > few[where] + (MORE - FEW) / 2}
    files = Counter(file for file, _ in per_page)
    print(f"a page       crosses {len(files)} files, {len(per_page)} functions")
    if listed:
        for file, functions in sorted(files.items()):
            print(f"{functions:>5}  {Path(file).relative_to(HOUSE)}")


if __name__ == "__main__":
    show_files()
    show_page(listed="--list" in sys.argv)
