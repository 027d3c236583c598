"""Text from outside is shown as text: no markup, no escape sequences, whatever its bytes."""

from __future__ import annotations

import asyncio
import io
import re

import pytest
from rich.console import Console

from skitter.cli.show.console import plain
from skitter.cli.show.progress import CrawlDisplay, Moment
from skitter.crawl.watch import Overview
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.connection import connect
from skitter.frontier.workers import Heartbeat, beat
from skitter.model import Failure, Request, State
from skitter.redact import clean
from skitter.settings import JobOptions, Retries

EVIL = "[/nope] [bold]loud[/] [link=x] :bomb: \x1b[2J\x1b]0;pwned\x07 \u202egnp.exe \ud83d \x9b31m"


@pytest.fixture
def evil_job(server_url, job):
    """A job with hostile text wherever others may put some."""

    async def make() -> str:
        async with connect(server_url) as server:
            retries = Retries(max_retries=0)
            frontier = await create_job(server, job, options=JobOptions(retries=retries))
            await frontier.add([Request("https://a.test/[/nope]/:bomb:/x")])
            [lease] = (await frontier.lease(1)).leases
            await frontier.bury([Failure(lease=lease, error=EVIL)])
            now = await frontier.server_time()
            for name, at in (("w", now), ("never", float("nan")), ("ever", float("inf"))):
                note = EVIL.replace("\ud83d", "")
                heartbeat = Heartbeat(
                    name=name,
                    host="[/nope]",
                    pid=1,
                    kind="[/nope]",
                    started_at=at,
                    at=at,
                    note=note,
                )
                await beat(frontier, heartbeat)
            events = frontier.shards[0].keys.key("events")
            words = {"level": b"[/nope]", "worker": b"\xff\x1b[2J", "text": b"[/x] \xfe\x1b[31m"}
            pairs = [part for pair in words.items() for part in pair]
            await server.command("XADD", events, "*", *pairs)
            await server.command("XADD", events, "*", "text", b"alone")
            await server.command("XADD", events, f"{2**64 - 1}-1", *pairs)
            return frontier.job

    return asyncio.run(make())


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["status", "{job}"],
        ["status", "{job}", "--json"],
        ["logs", "{job}"],
        ["logs", "{job}", "--json"],
        ["top", "{job}", "--once"],
        ["top", "--once", "--json"],
        ["dead", "list", "{job}"],
        ["dead", "show", "{job}", "https://a.test/[/nope]/:bomb:/x"],
        ["why", "{job}", "https://a.test/[/nope]/:bomb:/x"],
        ["audit", "{job}"],
        ["doctor"],
    ],
)
def test_hostile_text_is_shown_as_text(skitter, evil_job, words):
    answer = skitter(*(word.format(job=evil_job) for word in words))

    assert answer.exit_code in (0, 1), answer.err
    assert "Traceback" not in answer.err
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", answer.out + answer.err)
    assert "💣" not in answer.out


def test_a_name_that_is_not_a_job_does_not_hide_the_others(skitter, server_url, job):
    async def add_nonsense() -> None:
        async with connect(server_url) as server:
            await server.command("HSET", "skitter:jobs", b"\xff[/nope]", b"{}")

    async def remove_nonsense() -> None:
        async with connect(server_url) as server:
            await server.command("HDEL", "skitter:jobs", b"\xff[/nope]")

    skitter("push", job, "https://a.test/")
    asyncio.run(add_nonsense())
    try:
        for words in (["status"], ["doctor"], ["top", "--once"]):
            answer = skitter(*words)
            assert job in answer.out, answer.err
            assert "Traceback" not in answer.err
    finally:
        asyncio.run(remove_nonsense())


def test_outside_text_is_plain_to_rich():
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, highlight=False)
    console.print(plain("[/nope] [red]x[/] :bomb: \x1b[2J"))

    assert shown.getvalue() == "[/nope] [red]x[/] :bomb: \ufffd[2J\n"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_running_crawl_shows_notes_of_others_as_text(is_terminal):
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=is_terminal, highlight=False, width=200)
    look = Overview(
        job="[/nope]", state=State.RUNNING, status="running", at=1.0, remaining=0, notes=[EVIL]
    )
    with CrawlDisplay(console) as display:
        display.show(Moment(look))

    assert "[/nope] [bold]loud[/] [link=x]" in shown.getvalue()
    assert "\x1b[2J" not in shown.getvalue()
    assert "\x07" not in shown.getvalue()


def test_a_line_is_one_that_any_terminal_can_show():
    shown = clean(EVIL + "\r\n\tnext\u2028line")

    assert not re.search("[\x00-\x1f\x7f-\x9f\u202e\u2028]", shown)
    assert shown.encode()
