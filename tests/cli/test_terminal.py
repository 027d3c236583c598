"""What commands look like on terminals of several widths."""

from __future__ import annotations

import os
import pty
import re
import sys

import pytest

from skitter import URLQueue
from skitter.settings import JobOptions, Politeness
from waiting import PATIENCE_S, Child

DEAD = "https://a-shop-with-a-long-name.test/category/books/"


def on_terminal(server_url: str, columns: int, *words: str, **environment: str) -> tuple[int, str]:
    """Exit code and what a terminal of that width got."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "SKITTER_REDIS_URL": server_url, "COLUMNS": str(columns), "TERM": "xterm"}
    env = {name: value for name, value in env.items() if name != "NO_COLOR"} | environment
    command = [sys.executable, "-m", "skitter", *words]
    with Child(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        seen = b""
        try:
            while part := os.read(ours, 65536):
                seen += part
        except OSError:  # the program has ended
            pass
        os.close(ours)
        return process.wait(PATIENCE_S), seen.decode().replace("\r\n", "\n")


@pytest.fixture
def dead_job(job, server_url):
    options = JobOptions(politeness=Politeness(delay_s=0, max_in_flight=3))
    with URLQueue(job, redis=server_url, options=options) as queue:
        for number in range(3):
            queue.push(f"{DEAD}{number}?sort=price")
        while task := queue.pop():
            queue.fail(task, "503 Service Unavailable, and a sentence of the proxy", retry=False)
    return job


@pytest.mark.parametrize(("columns", "lines"), [(50, 5), (80, 3), (200, 1)])
def test_a_dead_letter_takes_a_few_lines_on_any_terminal(server_url, dead_job, columns, lines):
    code, shown = on_terminal(server_url, columns, "dead", "list", dead_job)

    assert code == 0
    assert shown.count("https://") == 3
    visible = re.sub(r"\x1b\[[\d;]*m", "", shown)
    taken = sum(max(1, -(-len(line) // columns)) for line in visible.splitlines())
    assert taken <= 3 * lines + 2  # the head of the table, and what to do about them


def test_one_look_at_top_has_only_columns_that_fit(server_url, dead_job):
    shown = on_terminal(server_url, 60, "top", dead_job, "--once", NO_COLOR="1")[1]
    head, row = re.sub(r"\x1b\[[\d;]*m", "", shown).splitlines()[2:4]

    assert head.split()[0] == "job"
    assert head.split()[-1] == "ETA"
    assert row.startswith(dead_job[:11])


def test_no_color_is_obeyed(server_url, dead_job):
    words = ("dead", "show", dead_job, "https://nowhere.test/")
    colours = on_terminal(server_url, 80, *words)[1]
    plain = on_terminal(server_url, 80, *words, NO_COLOR="1")[1]

    assert "\x1b[1;31m" in colours
    assert "\x1b[1;31m" not in plain
    assert "\x1b[31m" not in plain


def test_a_long_value_is_wrapped_at_words_beside_its_name(server_url, dead_job):
    words = ("dead", "show", dead_job, f"{DEAD}0?sort=price")
    visible = re.sub(r"\x1b\[[\d;]*m", "", on_terminal(server_url, 60, *words)[1])

    assert re.search(r"\nreason +503 Service .* a sentence of the\n {14}proxy\n", visible)
    assert f" {DEAD}0?sort=price\n" in visible  # can be copied


def test_a_complaint_is_not_broken_in_the_middle_of_a_word(server_url, dead_job):
    url = f"https://nowhere.test/{'x' * 30}/"
    code, shown = on_terminal(server_url, 60, "dead", "show", dead_job, url, NO_COLOR="1")

    assert code
    visible = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert all(len(line) <= 60 for line in visible.splitlines())
    assert len(visible.splitlines()) > 1
    assert url in visible
