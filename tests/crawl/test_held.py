"""`skitter crawl` says what it did not fetch, and how to get it."""

from __future__ import annotations

import asyncio
import json
import re

from crawl.conftest import Shop
from skitter.demo.site import BookShop
from web import serve_web
from zoo import html, number_in


def site(asked):
    """Each day leads to two others, for ever, and to one of two files."""
    day = number_in(asked)
    return html(f"/day/{2 * day + 1}", f"/day/{2 * day + 2}", f"/files/{day % 2}.pdf", title="Day")


def rows_of(machine):
    lines = (machine.folder / "x.jsonl").read_text().splitlines()
    rows = [json.loads(line)["url"] for line in lines]
    assert len(rows) == len(set(rows))
    assert not [row for row in rows if row.endswith(".pdf")]
    return len(rows)


async def test_what_is_held_is_fetched_by_the_command_that_the_report_names(make_machine, tmp_path):
    async with serve_web(site) as web:
        url = f"http://127.0.0.1:{web.port}/"
        machine = make_machine(Shop(url, tmp_path, BookShop(books=50)))
        words = ["crawl", url, "--job", "x", "--rate", "none", "--out", "x.jsonl", "--workers", "1"]

        async def call(*words):
            return await asyncio.to_thread(lambda: machine.call(*words))

        first = await call(*words, "-s", "limits.shape_budget=1")
        *_, files, held = first.stdout.splitlines()
        assert (first.returncode, rows_of(machine)) == (4, 11), first.stderr
        assert files == "files    2 links to files: --fresh --files all downloads them"
        assert f"URLs like 127.0.0.1:{web.port}/day/#, which may have no end" in held
        [command] = re.findall(r"`skitter (.*?)`", held)

        done = await call(*command.split())
        assert done.returncode == 0, done.stderr
        second = await call(*words)
        assert (second.returncode, rows_of(machine)) == (4, 101), second.stderr
        assert len(web.paths()) == 101
