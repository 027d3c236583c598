"""Live events: what a browser's EventSource gets."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import replace
from typing import Any, NamedTuple

import httpx
import pytest

from sinks.making import FETCHED_AT, result, write
from skitter.frontier.items import set_count
from skitter.frontier.jobs import purge_job
from skitter.frontier.records.operators import revoke_token
from skitter.frontier.records.outputs import claim_sink
from skitter.frontier.workers import log, read_log
from skitter.model import Request
from skitter.server import channels, keyring, protocol, stored
from skitter.server.api import events
from skitter.server.protocol import PatientProtocol
from skitter.server.site import Site


class Told(NamedTuple):
    """One event."""

    name: str = ""
    data: Any = None
    id: str = ""


@asynccontextmanager
async def listening(
    web: httpx.AsyncClient, job: str = "", after: str = ""
) -> AsyncIterator[AsyncIterator[Told]]:
    headers = {"last-event-id": after} if after else {}
    query = {"job": job} if job else {}
    async with web.stream("GET", "api/events", params=query, headers=headers, timeout=60) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["x-accel-buffering"] == "no"
        async with aclosing(parse(answer)) as told:
            yield told


async def parse(answer: httpx.Response) -> AsyncGenerator[Told]:
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
        elif "event" in fields:
            data = json.loads(fields["data"]) if "data" in fields else None
            yield Told(fields.get("event", ""), data, fields.get("id", ""))
            fields = {}
        else:
            fields = {}


async def first(told: AsyncIterator[Told], name: str) -> Told:
    async for one in told:
        if one.name == name:
            return one
    raise AssertionError(f"the stream ended without {name!r}")


async def test_an_overview_comes_at_once_and_again_when_something_changes(web, frontier, job):
    await frontier.add([Request("http://a.test/1")])
    async with listening(web, job) as told:
        one = (await first(told, "overview")).data
        assert (one["job"], one["pending"], one["state"]) == (job, 1, "running")
        await frontier.add([Request("http://a.test/2")])

        assert (await first(told, "overview")).data["pending"] == 2


async def test_lines_of_the_log_come_with_the_ids_of_their_stream(web, frontier, job):
    await log(frontier, "info", "w", "before")
    async with listening(web, job) as told:
        assert (await first(told, "log")).data["text"] == "before"
        await log(frontier, "warning", "w", "two\nlines")
        one = await first(told, "log")

    assert (one.data["level"], one.data["text"]) == ("warning", "two\nlines")
    assert one.id == one.data["id"] == (await read_log(frontier))[-1].id


async def test_a_client_that_comes_back_gets_every_line_once(web, frontier, job):
    for number in range(1300):
        await log(frontier, "info", "w", f"line {number}")
    have = (await read_log(frontier))[9].id
    async with listening(web, job, after=have) as told:
        texts = [(await first(told, "log")).data["text"] for _ in range(1290)]
        await log(frontier, "info", "w", "new")
        texts.append((await first(told, "log")).data["text"])

    assert texts == [*(f"line {number}" for number in range(10, 1300)), "new"]


@pytest.mark.parametrize("after", ["x", "1-1-1", "9" * 100, "1-"])
async def test_an_id_that_makes_no_sense_counts_as_none(web, frontier, job, after):
    await log(frontier, "info", "w", "said")
    async with listening(web, job, after=after) as told:
        assert (await first(told, "log")).data["text"] == "said"


async def test_without_a_job_there_is_the_list_of_all(web, frontier, job):
    async with listening(web) as told:
        rows = (await first(told, "jobs")).data["rows"]

    assert [row["workers"] for row in rows if row["job"] == job] == [[]]


async def test_a_job_that_is_not_there_is_a_problem(web):
    answer = await web.get("api/events", params={"job": "nothing"})

    assert (answer.status_code, answer.json()["field"]) == (404, "job")


async def test_a_job_that_is_purged_is_gone_and_its_stream_ends(web, frontier, job):
    async with listening(web, job) as told:
        await first(told, "overview")
        await purge_job(frontier)
        assert (await first(told, "gone")).data["job"] == job
        assert [one async for one in told] == []


async def test_a_stream_ends_when_its_token_is_revoked(web, server, frontier, job, monkeypatch):
    monkeypatch.setattr(events, "CHECK_S", 0.1)
    monkeypatch.setattr(keyring, "FRESH_S", 0.1)
    async with listening(web, job) as told:
        await first(told, "overview")
        await revoke_token(server, web.headers["authorization"].split("_")[1])
        async with asyncio.timeout(30):
            assert {one.name async for one in told} <= {"back", "overview", "log", "tick"}

    assert (await web.get("api/events")).status_code == 401


async def test_a_stream_with_nothing_new_ticks(web, frontier, job, monkeypatch):
    monkeypatch.setattr(channels, "TICK_S", 0.0)
    async with listening(web, job) as told:
        await first(told, "overview")
        assert await first(told, "tick") == Told("tick", {})


async def test_the_reader_reads_once_for_all_and_stops_when_nobody_listens(
    web, site: Site, frontier, job
):
    hub = site.events
    async with listening(web, job) as one, listening(web, job) as two:
        await first(one, "overview")
        await first(two, "overview")
        [channel] = hub.channels.values()
        reader = channel.reader
        assert len(channel.listeners) == 2
    await asyncio.wait({reader})

    assert reader.cancelled()
    assert not hub.channels


async def test_a_client_that_does_not_read_is_let_go(web, site: Site, frontier, job, monkeypatch):
    is_lost, lose = asyncio.Event(), PatientProtocol.connection_lost

    def lost(self: PatientProtocol, why: Exception | None) -> None:
        lose(self, why)
        is_lost.set()

    monkeypatch.setattr(PatientProtocol, "connection_lost", lost)
    monkeypatch.setattr(protocol, "UNREAD_S", 0.05)
    address = web.base_url
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=1000)
    lines = [f"GET /api/events?job={job} HTTP/1.1", "host: localhost"]
    lines += [f"{name}: {value}" for name, value in web.headers.items() if name != "host"]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    await reader.readuntil(b"retry")
    [channel] = site.events.channels.values()
    big = channels.message("big", "x" * 100_000)
    while channel.listeners:
        channel._broadcast(big)
        await asyncio.sleep(0)

    assert not site.events.channels
    await asyncio.wait_for(is_lost.wait(), 30)  # with the rest unread
    writer.close()


@pytest.fixture
def feed(job, tmp_path, monkeypatch):
    """Notes another visit of the page in the output of the job, as a loader does."""
    place = tmp_path / "books.db"
    monkeypatch.setenv("SKITTER_OUT", str(place))
    visits = 0

    async def note(frontier, *items):
        nonlocal visits
        visits += 1
        at = FETCHED_AT + 60 * visits
        rows = [replace(result(n, item), fetched_at=at) for n, item in enumerate(items)]
        await asyncio.to_thread(write, str(place), rows, job=job)
        await claim_sink(frontier, str(place))
        await set_count(frontier, "changes", noted(place))

    return note


def noted(place):
    with closing(sqlite3.connect(place)) as database:
        return database.execute("select count(*) from _changes").fetchone()[0]


async def changes(told, number):
    return [(await first(told, "change")).data for _ in range(number)]


async def test_each_change_is_told_once_with_its_page_field_and_values(web, frontier, job, feed):
    await feed(frontier, {"price": 1}, {"price": 1})
    await feed(frontier, {"price": 2}, {"price": 1})
    async with listening(web, job) as told, listening(web, job) as other:
        await first(told, "overview")
        await first(other, "overview")
        await feed(frontier, {"price": 3}, {"price": 7})
        rows = await changes(told, 2)
        assert await changes(other, 2) == rows
        await feed(frontier, {"price": 4}, {"price": 7})
        rows += await changes(told, 1)

    said = [(row["kind"], row["field"], row["old"], row["new"]) for row in rows]
    assert said == [("changed", "price", *pair) for pair in ((2, 3), (1, 7), (3, 4))]
    listed = (await web.get(f"/api/jobs/{job}/changes")).json()["rows"]
    assert [row["seq"] for row in rows] == [row["seq"] for row in listed[-2::-1]]
    assert {row["url"] for row in rows} == {row["url"] for row in listed}


async def test_more_changes_than_fit_one_message_are_told_one_after_the_other_and_cut(
    web, frontier, job, feed, monkeypatch
):
    monkeypatch.setattr(stored, "AT_ONCE", 3)
    items = [{"text": f"{n} " * 2000} for n in range(8)]
    await feed(frontier, *items)
    async with listening(web, job) as told:
        await first(told, "overview")
        await feed(frontier, *({"text": one["text"].replace(" ", "\n")} for one in items))
        rows = await changes(told, 8)

    assert sorted(row["url"][-1] for row in rows) == [*"01234567"]
    assert all(len(row["diff"]) == stored.FEW_LINES + 1 for row in rows)
    assert max(len(json.dumps(row)) for row in rows) < 50_000


async def test_an_output_that_this_server_does_not_read_ends_no_stream(web, frontier, job):
    await claim_sink(frontier, "/elsewhere/books.db")
    async with listening(web, job) as told:
        await first(told, "overview")
        await set_count(frontier, "changes", 3)
        assert (await first(told, "overview")).data["changes"] == 3
        await set_count(frontier, "changes", 4)
        assert (await first(told, "overview")).data["changes"] == 4
