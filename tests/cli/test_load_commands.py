"""Loading: a loader of its own, transforms, a database that is away, a job that goes."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import sqlite3
import sys
from contextlib import asynccontextmanager, closing
from pathlib import Path
from random import Random

import pytest

from conftest import rude
from frontier.test_items import fill
from skitter import items
from skitter.frontier.items import read_rejected
from skitter.frontier.jobs import create_job, purge_job
from skitter.frontier.records.health import find_warnings
from skitter.frontier.records.outputs import backlogs, drop_output
from skitter.model import Completion, Request

TRANSFORM = """
def change(item):
    if item["n"] == 0:
        return None
    if item["n"] == 1:
        return [{"n": 10}, {"n": 11}]
    if item["n"] == 2:
        raise ValueError("no two")
    return {"n": item["n"] * 100}
"""


@pytest.fixture
async def frontier(server, job):
    frontier = await create_job(server, job, options=rude())
    await frontier.add(Request(url=f"https://a.test/{n}") for n in range(4))
    leases = (await frontier.lease(4)).leases
    await frontier.complete(
        [Completion(lease=one, items=[{"n": int(one.url[-1])}]) for one in leases]
    )
    return frontier


@asynccontextmanager
async def loader(server_url, folder, *words):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "skitter", "load", *words,
        cwd=folder,
        env={**os.environ, "SKITTER_REDIS_URL": server_url},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def until(condition) -> None:
    while True:
        if await condition():
            return
        await asyncio.sleep(0.02)


async def loaded(frontier):
    return (await frontier.stats()).finished


async def test_a_transform_leaves_out_changes_multiplies_and_sets_aside(
    frontier, job, server_url, tmp_path
):
    (tmp_path / "changing.py").write_text(TRANSFORM)

    words = (job, "--to", "x.db", "--transform", "changing:change")
    async with loader(server_url, tmp_path, *words) as process:
        await until(lambda: loaded(frontier))
        process.terminate()
        out, err = await process.communicate()

    assert process.returncode == 0, err
    assert b"Loading the items of" in err
    assert b"3 rows to x.db" in out
    with closing(sqlite3.connect(tmp_path / "x.db")) as database:
        [table] = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'job%'"
        ).fetchone()
        rows = database.execute(f'SELECT n FROM "{table}" ORDER BY n').fetchall()
    assert rows == [(10,), (11,), (300,)]
    [aside] = await read_rejected(frontier, 10)
    assert aside.item == {"n": 2}
    assert "transform change failed: ValueError: no two (changing.py:8" in aside.reason


async def test_a_transform_that_is_not_there_is_told_before_anything_is_loaded(
    frontier, job, server_url, tmp_path
):
    words = (job, "--to", "x.db", "--transform", "nowhere:change")
    async with loader(server_url, tmp_path, *words) as process:
        _, err = await process.communicate()

    assert process.returncode == 2
    assert b"there is no module 'nowhere'" in err
    assert (await frontier.stats()).items == 4


async def noted(frontier) -> list[str]:
    return await find_warnings(frontier, await frontier.stats())


async def test_a_database_that_is_away_is_waited_for_and_status_says_why(
    frontier, job, server_url, tmp_path, skitter, monkeypatch
):
    monkeypatch.setenv("SKITTER_OUT", "postgresql://nobody:secret@127.0.0.1:1/none")
    async with loader(server_url, tmp_path, job) as process:
        await until(lambda: noted(frontier))
        shown_by_ps = await asyncio.to_thread(Path(f"/proc/{process.pid}/cmdline").read_bytes)
        shown = await asyncio.to_thread(skitter, "status", job)
        told = json.loads((await asyncio.to_thread(skitter, "status", job, "--json")).out)
        process.terminate()
        await process.communicate()

    assert process.returncode == 0
    assert "running" in shown.out
    assert "does not answer" in shown.out
    assert "does not answer" in told["notes"][0]
    assert "secret" not in shown.out
    assert (b"load" in shown_by_ps, b"secret" in shown_by_ps) == (True, False)
    assert (await frontier.stats()).items == 4


async def test_outputs_whose_loaders_are_killed_get_every_row_once_and_wait_for_none_that_is_away(
    frontier, job, server_url, tmp_path, skitter
):
    await fill(frontier, 1500, first=4)
    names, away = ["a.db", "b.jsonl", "c.csv"], "postgresql://127.0.0.1:1/none"
    words = [job, *(word for out in (*names, away) for word in ("--to", out))]
    chance, kills, goal = Random(5), 0, len(names) * 1504

    async def is_reached() -> bool:
        assert process.returncode is None, await process.communicate()
        behind = {one.place: one.items for one in await backlogs(frontier)}
        return len(behind) == 4 and sum(behind.values()) - behind[away] <= max(goal, 0)

    while goal > 0:
        goal -= chance.randrange(50, 1200)
        async with loader(server_url, tmp_path, *words) as process:
            await process.stderr.readuntil(b"Ctrl-C stops it.")
            await until(is_reached)
            if goal > 0:
                kills += 1
                process.kill()
                continue
            shown = await asyncio.to_thread(skitter, "status", job)
            process.terminate()
            _, err = await process.communicate()

    assert kills > 3
    assert process.returncode == 0, err
    assert f"{away}: 1,504 items behind" in shown.out
    assert "a.db: has everything" in shown.out
    pages = {f"https://h{n % 7}.test/{n}" for n in range(4, 1504)}
    for rows in (items(job, str(tmp_path / name), redis=server_url) for name in names[:2]):
        assert len(rows) == 1504
        assert {row["_url"] for row in rows} > pages
    with (tmp_path / "c.csv").open(newline="") as file:
        written = [row["_url"] for row in csv.DictReader(file)]
    assert (len(written), len(set(written))) == (1504, 1504)
    await drop_output(frontier, away)
    assert ((await frontier.stats()).items, (await frontier.stats()).stored) == (0, 1504)


async def test_parts_are_added_while_a_loader_runs_and_each_row_is_in_one(
    frontier, job, server_url, tmp_path
):
    def parts() -> list[Path]:
        return sorted((tmp_path / "parts").glob("*.jsonl"))

    async def has(number: int) -> bool:
        return len(parts()) >= number

    to = f"file://{tmp_path}/parts/?format=jsonl&rows=3&every=1s"
    async with loader(server_url, tmp_path, job, "--to", to) as process:
        await until(lambda: has(2))  # of three rows and of one
        await fill(frontier, 5, first=4)
        await until(lambda: has(4))
        process.terminate()
        _, err = await process.communicate()

    assert process.returncode == 0, err
    rows = [json.loads(line) for part in parts() for line in part.read_text().splitlines()]
    assert len({row["_id"] for row in rows}) == len(rows) == 9


async def test_a_job_that_is_purged_ends_its_loader_with_one_sentence(
    frontier, job, server_url, tmp_path
):
    async with loader(server_url, tmp_path, job, "--to", "x.jsonl") as process:
        await until(lambda: loaded(frontier))
        await purge_job(frontier)
        _, err = await process.communicate()

    assert process.returncode == 2
    assert err.decode().strip().splitlines()[-1].startswith("skitter: there is no job")
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nobody", "--to", "x.db"], "there is no job 'nobody'"),
        (["{job}", "--to", "x.what"], "'x.what' is not a known kind of output"),
        (["{job}"], "or set SKITTER_OUT: `ps` shows arguments"),
    ],
)
def test_what_cannot_begin_is_not_announced(skitter, job, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    skitter("create", job)
    answer = skitter("load", *(word.format(job=job) for word in words))

    assert answer.exit_code == 2
    assert says in answer.err
    assert "Loading" not in answer.err


def test_an_export_of_items_that_wait_on_the_server_is_answered_with_how_to_get_them(
    skitter, job, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    answer = skitter("export", job, "--to", "x.csv")

    assert answer.exit_code == 2
    assert f"there is no database {job}.db: name the one to read with --from" in answer.err
    assert f"`skitter load {job} --to FILE`" in answer.err
