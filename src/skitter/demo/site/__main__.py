"""The bookshop as a process: python -m skitter.demo.site --port 0 --ready-file F --log FILE"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

import uvloop

from skitter.demo.site.catalogue import DEFAULT_BOOKS
from skitter.demo.site.server import DEFAULT_PORT, BookShop
from skitter.errors import SkitterError


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m skitter.demo.site", description="A bookshop to crawl, on loopback."
    )
    parser.add_argument("--host", default="localhost", help="localhost or 127.0.0.1")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0: any that is free")
    parser.add_argument("--books", type=int, default=DEFAULT_BOOKS, help="size of the shop")
    parser.add_argument("--latency-s", type=float, default=0.0, help="hold every answer back")
    parser.add_argument("--log", type=Path, help="access log: one JSON document a line")
    parser.add_argument("--ready-file", type=Path, help="gets the URL when the shop is open")
    return parser.parse_args()


async def serve(options: argparse.Namespace) -> None:
    """Stay open until SIGINT or SIGTERM."""
    closing_time = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, closing_time.set)
    shop = BookShop(
        books=options.books,
        latency_s=options.latency_s,
        host=options.host,
        port=options.port,
        log_file=options.log,
    )
    async with shop:
        announce(shop.url, options.ready_file)
        await closing_time.wait()


def announce(url: str, ready_file: Path | None) -> None:
    """Print the URL. The file appears with its content, never empty."""
    if ready_file is not None:
        draft = ready_file.with_name(f"{ready_file.name}.new")
        draft.write_text(f"{url}\n", encoding="utf-8")
        draft.replace(ready_file)
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


def main() -> int:
    try:
        uvloop.run(serve(parse_options()))
    except SkitterError as error:
        sys.stderr.write(f"bookshop: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
