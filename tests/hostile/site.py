"""A site on which every page is evil in a way of its own, but for the innocent ones.

    python tests/hostile/site.py READY_FILE

It writes its address into the file, and serves until it is killed.
"""

from __future__ import annotations

import asyncio
import gzip
import random
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

INNOCENT = 40
LEAVES = 120  # linked from one page, more than a page may link to
HTML = "text/html; charset=utf-8"
SIZE = 9 * 2**20  # under the limit of a page
RULES = 1000


def flood(part: str, *, before: str = "") -> bytes:
    return (before + part * (SIZE // len(part))).encode()


def numbered(part: str, times: int) -> bytes:
    return "".join(part.replace("#", str(n)) for n in range(times)).encode()


#: Bodies of HTML pages, made when they are asked for.
PAGES: dict[str, Callable[[], bytes]] = {
    "huge-text": lambda: flood("text "),
    "half-a-million-links": lambda: numbered("<a href=/#>x", 500_000),
    "many-links": lambda: numbered("<a href=/leaf/#>x</a>", LEAVES),
    "nested": lambda: flood("<div>"),
    "nested-end-tags": lambda: flood("<div></x>"),
    "options": lambda: flood("<option>", before="<select>"),
    "formatting": lambda: numbered("<p><font color=#>", 50_000),
    "attributes": lambda: b"<p " + numbered("a# ", 500_000) + b">",
    "line-breaks": lambda: flood("<br>"),
    "comments": lambda: flood("<!--"),
    "binary": lambda: random.Random(1).randbytes(300_000),
    "half-characters": lambda: b"<title>&#xD83D;\xed\xa0\xbd</title><p>\xff\xfe\x00 text",
    "links-to-nowhere": lambda: (
        b"<base href='javascript:alert(1)'><a href='http://user:password@a.test/'>x</a>"
        b"<a href='//[::1'>x</a><a href='" + b"/x" * 100_000 + b"'>x</a><a href='\xed\xa0\xbd'>x"
    ),
    # What the handler of the spider does with these, their names say.
    "yields-a-million-items": lambda: b"",
    "yields-for-ever": lambda: b"",
    "yields-a-huge-item": lambda: b"",
    "yields-half-a-character": lambda: b"",
    "yields-what-is-nested": lambda: b"",
    "follows-with-a-lot-of-meta": lambda: b"",
    "exits": lambda: b"",
}


def head(*fields: str, status: str = "200 OK") -> bytes:
    lines = (f"HTTP/1.1 {status}", *fields, "Connection: close", "", "")
    return "\r\n".join(lines).encode()


def whole(body: bytes, *fields: str, kind: str = HTML) -> bytes:
    return head(f"Content-Type: {kind}", f"Content-Length: {len(body)}", *fields) + body


_KIND = f"Content-Type: {HTML}"
#: Answers that are evil before they are pages; redirects lead to others of them.
ANSWERS: dict[str, Callable[[], bytes]] = {
    "gzip-bomb": lambda: whole(gzip.compress(bytes(200 * 2**20), 6), "Content-Encoding: gzip"),
    "endless-body": lambda: head(_KIND),  # and on
    "endless-redirects": lambda: redirect("endless-redirects/1"),
    "redirect-loop": lambda: redirect("redirect-loop?again"),
    "header-flood": lambda: head(_KIND, *(f"X-{n}: {'x' * 100}" for n in range(5_000))),
    "long-header": lambda: head(_KIND, f"X-Long: {'x' * 2_000_000}"),
    "no-http": lambda: b"\x00\x01\x02 this is not HTTP\r\n\r\n" * 100,
    "cut-off": lambda: head(_KIND, "Content-Length: 1000000") + b"<p>half",
    "strange-status": lambda: head(_KIND, "Content-Length: 0", status="999 Whatever"),
}


def redirect(name: str) -> bytes:
    return head(f"Location: /evil/{name}", status="302 Found")


def index() -> bytes:
    paths = [f"/evil/{name}" for name in (*PAGES, *ANSWERS)]
    paths += [f"/good/{n}" for n in range(INNOCENT)]
    random.Random(2).shuffle(paths)
    links = "".join(f"<a href={path}>x</a>" for path in paths)
    return whole(f"<title>index</title>{links}<a href=/forbidden/1>x</a>".encode())


def robots() -> bytes:
    rules = "".join(f"Disallow: /*a*b*c*{n}$\n" for n in range(RULES))
    return whole(f"User-agent: *\n{rules}Disallow: /forbidden\n".encode(), kind="text/plain")


async def answer(path: str) -> AsyncIterator[bytes]:
    first, _, name = path.lstrip("/").partition("/")
    if path == "/":
        yield index()
    elif path == "/robots.txt":
        yield robots()
    elif first in ("good", "leaf"):
        yield whole(f"<title>{path}</title><p>I am innocent.".encode())
    elif name in PAGES:
        yield whole(PAGES[name]())
    elif name == "redirect-loop?again":
        yield redirect("redirect-loop")
    elif name.startswith("endless-redirects/"):
        yield redirect(f"endless-redirects/{int(name.partition('/')[2]) + 1}")
    elif name in ANSWERS:
        yield ANSWERS[name]()
        while name == "endless-body":
            yield b"<p>and on" * 10_000
    else:
        yield head("Content-Length: 0", status="404 Not Found")


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        request = await reader.readuntil(b"\r\n\r\n")
        path = request.split(b" ", 2)[1].decode("latin-1")
        async for part in answer(path):
            writer.write(part)
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # they had enough
    finally:
        writer.close()


async def main(ready: Path) -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    part = ready.with_suffix(".part")
    part.write_text(f"http://{host}:{port}")
    part.rename(ready)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
