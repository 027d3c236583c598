"""What the crew says and does, and how many there should be."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from rich.console import Console, RenderableType

from skitter.cli.commands import workers
from skitter.cli.commands.prepare import needs_of
from skitter.cli.common import on_job
from skitter.cli.show.display import Screen, event_line, plain_line, top_view
from skitter.crawl.watch import Overview
from skitter.frontier.frontier import Frontier
from skitter.frontier.workers import Event, Heartbeat, Wish, beat, log, read_wish
from skitter.model import State
from skitter.redact import clean
from skitter.settings import find_server
from waiting import PATIENCE_S, Child


@pytest.fixture
def on(skitter, server_url, job):
    """Do something with a job that exists: `on(work)`."""
    skitter("push", job, "https://a.test/1", "https://a.test/2", "https://b.test/")

    def run(work: Callable[[Frontier], Awaitable[None]]) -> None:
        on_job(find_server(server_url, None), job, work)

    return run


@pytest.fixture
def chatter(on):
    """Five lines of two workers."""

    async def say(frontier: Frontier) -> None:
        await log(frontier, "info", "web1-10", "worker started")
        await log(frontier, "info", "web2-20", "worker started")
        await log(frontier, "warning", "web1-10", "https://a.test/1: 404 Not Found")
        await log(frontier, "error", "web2-20", "broken\x1b[2J\nbadly")
        await log(frontier, "debug", "web2-20", "nothing in particular")

    on(say)


# --- logs -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("chatter")
def test_the_logs_of_all_workers_come_oldest_first(skitter, job):
    answer = skitter("logs", job)

    assert answer.exit_code == 0
    assert [line.split()[2:4] for line in answer.out.splitlines()] == [
        ["info", "web1-10"],
        ["info", "web2-20"],
        ["warning", "web1-10"],
        ["error", "web2-20"],
        ["debug", "web2-20"],
    ]


@pytest.mark.usefixtures("chatter")
def test_a_line_of_the_log_stays_a_line_and_cannot_steer_the_terminal(skitter, job):
    [line] = skitter("logs", job, "--level", "error").out.splitlines()

    assert line.endswith("broken\ufffd[2J badly")


@pytest.mark.usefixtures("chatter")
@pytest.mark.parametrize(
    ("words", "levels"),
    [
        (["-n", "2"], ["error", "debug"]),
        (["-n", "0"], []),
        (["--level", "warning"], ["warning", "error"]),
        (["--worker", "web1"], ["info", "warning"]),
        (["--worker", "web2", "--level", "info", "-n", "1"], ["error"]),
    ],
)
def test_the_log_is_narrowed_down(skitter, job, words, levels):
    answer = skitter("logs", job, "--json", *words)

    assert [json.loads(line)["level"] for line in answer.out.splitlines()] == levels


def test_the_end_of_a_long_log_is_found(skitter, on, job):
    async def say(frontier: Frontier) -> None:
        for start in range(0, 1200, 100):
            said = (log(frontier, "info", "w", f"line {start + i}") for i in range(100))
            await asyncio.gather(*said)
        await log(frontier, "info", "w", "the last")

    on(say)

    assert skitter("logs", job, "-n", "1").out.endswith("the last\n")
    assert len(skitter("logs", job, "-n", "9999").out.splitlines()) == 1201


def test_silence_is_told_on_stderr(skitter, on, job):
    answer = skitter("logs", job)

    assert (answer.exit_code, answer.out) == (0, "")
    assert "nothing was logged" in answer.err


async def test_following_brings_what_is_said_later(frontier):
    await log(frontier, "info", "w", "before")
    events, last = await workers.tail(frontier, 10)
    assert [event.text for event in events] == ["before"]

    following = workers.follow_log(frontier, last, every_s=0.001)
    for text in ("one", "two"):
        await log(frontier, "info", "w", text)
        assert [event.text for event in await anext(following)] == [text]
    await following.aclose()


async def test_following_an_empty_log_begins_with_its_first_line(frontier):
    events, last = await workers.tail(frontier, 10)
    assert events == []

    following = workers.follow_log(frontier, last, every_s=0.001)
    await log(frontier, "info", "w", "first")
    assert [event.text for event in await anext(following)] == ["first"]
    await following.aclose()


def test_followed_lines_reach_a_pipe_at_once(server_url, on, job):
    async def say(frontier: Frontier) -> None:
        await log(frontier, "info", "w", "more")

    on(say)
    words = [sys.executable, "-m", "skitter", "logs", job, "-f", "--redis", server_url]
    with Child(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        on(say)
        lines.append(process.stdout.readline())
        process.kill()

    assert [line.split()[-1] for line in lines] == ["more", "more"]


def test_a_level_has_its_colour_on_a_terminal():
    event = Event(id="1-0", at=0.0, level="error", worker="w", text="[bold]broken[/]")

    shown = drawn(event_line(event), color_system="standard")
    assert "\x1b[1;31m  [bold]broken[/]" in shown
    assert drawn(event_line(event)) == "1970-01-01 00:00:00  error    w  [bold]broken[/]\n"


# --- top ------------------------------------------------------------------------------------------


def drawn(view: RenderableType, *, width: int = 120, color_system=None) -> str:
    file = io.StringIO()
    Console(
        file=file, width=width, color_system=color_system, force_terminal=True, highlight=False
    ).print(view)
    return file.getvalue()


def a_look(job: str = "books", *, at: float = 1000.0, crew: int = 1, **counts: int) -> Overview:
    numbers: dict[str, Any] = {"pending": 600, "leased": 2, "done": 1500, "hosts": 1} | counts
    beats = [
        Heartbeat(
            name=f"w{i}",
            host=f"web{i}.example",
            pid=4000 + i,
            started_at=at - 100,
            at=at - i,
            pages=200,
            errors=3,
            active=2,
            memory_mb=61.4,
        )
        for i in range(crew)
    ]
    events = [
        Event(id=f"{i}-0", at=at - 50 + i, level="info", worker="w0", text=f"said {i}")
        for i in range(50)
    ]
    return Overview(
        job=job,
        state=State.RUNNING,
        status="running",
        at=at,
        remaining=605,
        pages_per_s=2.0,
        eta_s=302.5,
        workers=beats,
        log=events,
        **numbers,
    )


def test_the_view_tells_all_about_a_job_and_its_crew():
    lines = drawn(top_view([a_look(dead=7, delayed=3)])).splitlines()

    assert "1 job · 1 process at work · 00:16:40 UTC" in lines[0]
    table = [" ".join(line.split()) for line in lines[2:7]]
    assert table == [
        "job state pending delayed leased done dead items pages/s hosts ETA",
        "books running 600 3 2 1,500 7 0 2.0 1 5 min 2 s",
        "",
        "host kind pid pages errors active memory since last seen",
        "web0.example worker 4000 200 3 2 61 MB 1 min 40 s 0 s ago",
    ]
    assert lines[-1].endswith("info     w0  said 49")


def test_a_job_is_a_line():
    assert plain_line(a_look()) == (
        "00:16:40  books  running  600 pending, 0 delayed, 2 leased, 1,500 done, 0 dead, 2.0/s, "
        "1 host, 1 worker, ETA 5 min 2 s"
    )


@pytest.mark.parametrize("size", [Screen(80, 24), Screen(200, 60), Screen(60, 10), Screen(80, 5)])
@pytest.mark.parametrize("jobs", [0, 1, 3, 100])
def test_the_view_fits_its_screen(size, jobs):
    looks = [a_look(f"a-job-with-a-long-name-{i}", crew=i % 30) for i in range(jobs)]
    lines = drawn(top_view(looks, screen=size, title="x" * 300), width=size.width).splitlines()

    assert len(lines) <= max(13, size.height)
    assert all(len(line) <= size.width for line in lines)
    assert lines[-1].strip() == "q leaves"


def test_long_lists_are_cut_and_it_is_told():
    looks = [a_look(f"job{i}", crew=20) for i in range(30)]
    shown = drawn(top_view(looks, screen=Screen(100, 30)))

    assert re.search(
        r"^job0 .*^\.\.\. \d+ more.*^job0 .*^\.\.\. \d+ more", shown, re.DOTALL | re.MULTILINE
    )
    assert "said 49" in shown


def test_on_a_narrow_screen_the_log_says_what_rather_than_who():
    event = Event(id="1-0", at=0.0, level="info", worker="a-host-4711-c5c1fb14", text="I " * 9)

    assert event_line(event, date=False, short=True).plain == f"00:00:00  info     4711  {'I ' * 9}"
    assert "a-host-4711-c5c1fb14" in event_line(event).plain


def test_on_a_narrow_screen_names_are_cut_and_numbers_are_not():
    look = a_look("the-books-of-the-whole-wide-world", pending=12_345_678, done=87_654_321)
    shown = drawn(top_view([look], screen=Screen(80, 24)), width=80)

    assert "12,345,678" in shown
    assert "87,654,321" in shown
    assert "the-boo" in shown
    assert "…" in shown


def test_what_went_wrong_is_in_the_last_line():
    view = top_view([], screen=Screen(80, 24), note="the server does not answer")

    assert drawn(view).splitlines()[-1] == "the server does not answer"


def test_an_empty_server_says_what_to_do():
    shown = drawn(top_view([]))

    assert "skitter push JOB URL" in shown
    assert "skitter run SPIDER" in shown


def test_nothing_in_a_text_steers_the_terminal():
    assert clean("a\x1b[31mb\r\n\tc\x9bd\u202ee") == "a\ufffd[31mb c\ufffdd\ufffde"


@pytest.fixture
def at_work(on):
    """A worker on the job, which said something."""

    async def work(frontier: Frontier) -> None:
        now = await frontier.server_time()
        one = Heartbeat(
            name="w", host="web1", pid=4711, started_at=now - 10, at=now + 60, pages=20
        )  # of jobs there are many
        await beat(frontier, one)
        await log(frontier, "warning", "w", "something odd")

    on(work)


@pytest.mark.usefixtures("at_work")
def test_one_look_shows_the_job_its_crew_and_its_log(skitter, job):
    answer = skitter("top", job, "--once")

    assert answer.exit_code == 0
    for words in (job, "running", "web1", "4711", "something odd", "1 process at work"):
        assert words in answer.out
    assert "\x1b" not in answer.out


@pytest.mark.usefixtures("at_work")
def test_one_look_at_all_jobs(skitter, job):
    assert job in skitter("top", "--once").out
    [look] = [one for one in skitter("top", "--once", "--json").json if one["job"] == job]
    assert look["workers"][0]["pid"] == 4711
    assert look["pending"] == 3
    assert look["log"][-1]["text"] == "something odd"


def test_a_job_that_is_not_there(skitter):
    for words in (["top", "no-such-job", "--once"], ["logs", "no-such-job"]):
        answer = skitter(*words)
        assert answer.exit_code == 2
        assert "there is no job 'no-such-job'" in answer.err


@pytest.mark.usefixtures("at_work")
@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_the_screen_is_filled_until_a_key_leaves_it(server_url, job, key):
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "skitter", "top", job, "--redis", server_url]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    # A session of its own: Ctrl-C goes to whom the terminal belongs.
    with Child(
        words,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        preexec_fn=lambda: os.login_tty(theirs),
    ) as process:
        os.close(theirs)
        try:
            screen = read_until(ours, b"q leaves")
            assert b"\x1b[?1049h" in screen  # the alternate screen
            assert job.encode() in screen
            os.write(ours, key)
            read_until(ours, b"\x1b[?1049l")
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            os.close(ours)


def test_off_a_terminal_it_is_a_line_for_each_look(server_url, on, job):
    words = [sys.executable, "-m", "skitter", "top", job, "--redis", server_url]
    with Child(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.kill()

    for line in lines:
        assert f"{job}  running  3 pending, 0 delayed, 0 leased, 0 done, 0 dead" in line


def read_until(terminal: int, words: bytes) -> bytes:
    seen = b""
    while words not in seen:
        seen += os.read(terminal, 4096)  # an OSError, if the program has ended
    return seen


# --- scale ----------------------------------------------------------------------------------------


def test_a_wish_is_written_and_what_was_wanted_is_told(skitter, on, job):
    wishes = []

    async def read(frontier: Frontier) -> None:
        wishes.append(await read_wish(frontier))

    first = skitter("scale", job, "4")
    on(read)
    second = skitter("scale", job, "auto")
    on(read)
    looked = skitter("scale", job, "9", "--preview")
    third = skitter("scale", job, "2", "--per-machine", "--json")
    on(read)

    assert first.out == f"{job}: 4 workers in all (before: not set); 0 running now.\n"
    assert second.out == f"{job}: automatic (before: 4 workers in all); 0 running now.\n"
    assert looked.out == f"{job}: 9 workers in all (before: automatic); 0 running now.\n"
    wanted = {"workers": 2, "per_machine": True}
    was = {"workers": 0, "per_machine": False}
    assert third.json == {"job": job, "was": was, "wanted": wanted, "at_work": 0, "machines": []}
    assert wishes == [Wish(4), Wish(0), Wish(2, per_machine=True)]


def a_node(now: float) -> Heartbeat:
    return Heartbeat(name="w", host="w1", pid=1, started_at=now, at=now + 60, kind="scrapy")


def test_those_at_work_are_counted_by_kind(skitter, job, on):
    async def work(frontier: Frontier) -> None:
        now = await frontier.server_time()
        await beat(frontier, a_node(now))
        for name in ("a", "b"):
            worker = Heartbeat(name=name, host="w1", pid=2, started_at=now, at=now + 60)
            await beat(frontier, worker)

    on(work)

    assert re.search(r"^at work +1 scrapy node, 2 workers$", skitter("status", job).out, re.M)


def test_who_does_not_follow_a_wish_is_said(skitter, job, on):
    async def work(frontier: Frontier) -> None:
        now = await frontier.server_time()
        await beat(frontier, a_node(now))

    on(work)

    assert "Scrapy's nodes do not follow" in skitter("scale", job, "4").out


@pytest.mark.usefixtures("at_work")
def test_a_wish_leaves_the_limits_of_the_job_alone(skitter, job):
    before = skitter("set", job, "--json").json
    answer = skitter("scale", job, "7")

    assert "1 running now" in answer.out
    assert skitter("set", job, "--json").json == before
    assert skitter("set", job, "--delay", "3", "--json").exit_code == 0
    assert skitter("scale", job, "1", "--json").json["was"]["workers"] == 7


@pytest.mark.parametrize("wish", ["0", "many", "1001", "2.5", "²"])
def test_a_wish_that_cannot_be_met_is_refused(skitter, on, job, wish):
    answer = skitter("scale", job, wish)

    assert answer.exit_code == 2
    assert "workers must be" in answer.err
    assert skitter("scale", job, "1", "--json").json["was"] is None


def test_a_job_that_is_not_there_is_not_made(skitter):
    assert skitter("scale", "no-such-job", "2").exit_code == 2
    assert "no-such-job" not in skitter("top", "--once").out


@pytest.mark.parametrize("width", [40, 50, 60, 80])
def test_however_narrow_it_is_the_job_and_what_is_done_are_shown_whole(width):
    look = a_look("books", pending=12_345_678, done=87_654_321)
    shown = drawn(top_view([look, a_look("b")], screen=Screen(width, 24)), width=width)

    assert re.search(r"^books .*87,654,321", shown, re.MULTILINE)
    assert "…" not in "".join(shown.splitlines()[1:9])  # between the headline and the log


# --- health and plan ------------------------------------------------------------------------------


def test_health_is_one_line_and_an_exit_code(skitter, on, job):
    def ask(*words: str) -> tuple[int, str]:
        done = skitter("health", *words)
        assert done.out.count("\n") == 1
        return done.exit_code, done.out

    assert ask() == (0, "healthy: the server answers and can write\n")
    assert ask(job, "--part", "worker") == (
        1,
        f"no worker on {socket.gethostname()} has ever reported\n",
    )

    async def report(frontier: Frontier) -> None:
        now = await frontier.server_time()
        here = Heartbeat(name="w", host=socket.gethostname(), pid=1, started_at=now, at=now + 60)
        await beat(frontier, here)
        old = msgspec.structs.replace(here, name="l", kind="loader", at=now - 100)
        await beat(frontier, old)

    on(report)
    assert ask(job, "--part", "worker") == (0, "healthy: a worker on this machine reports\n")
    code, says = ask(job, "--part", "loader")
    assert (code, says.startswith("no loader on ")) == (1, True)
    away = ("--redis", "redis://127.0.0.1:1")
    assert skitter("health", *away).exit_code == 3
    waiting = skitter("health", job, "--part", "worker", *away)  # a probe must not kill it
    assert (waiting.exit_code, waiting.out.startswith("healthy, as far as")) == (0, True)
    assert skitter("health", "--part", "worker").exit_code == 2


@pytest.mark.parametrize(
    ("given", "bound", "hours"),
    [
        ({"hosts": 10, "delay_s": 1.0}, "hosts", 27.78),
        ({"hosts": 100_000, "delay_s": 1.0}, "server", 0.2),
        ({"hosts": 1000, "delay_s": 1.0, "workers": 1}, "workers", 4.87),
    ],
)
def test_a_plan_says_how_long_and_what_bounds_it(given, bound, hours):
    needs = needs_of(pages=1_000_000, seconds=0.5, **given)

    assert (needs.bound_by, needs.hours) == (bound, hours)
    assert needs.server_memory_mb == 217


def test_a_plan_reads_large_numbers(skitter):
    assert skitter("plan", "--pages", "10M", "--hosts", "2000", "--json").json["hours"] == 1.98
    assert skitter("plan", "--pages", "many", "--hosts", "2").exit_code == 2
