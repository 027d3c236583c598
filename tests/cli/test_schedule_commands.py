"""Schedules from the command line."""

from __future__ import annotations

import os
import sys

import pytest

from waiting import Child, until

SPIDER = """
from skitter import Politeness, Spider

spider = Spider("{job}", ["http://books.invalid/"], politeness=Politeness(delay_s=7))
spider.page(print)
"""


@pytest.fixture
def books(tmp_path, job) -> str:
    """A spider in a file; its job has its name."""
    (tmp_path / "books.py").write_text(SPIDER.format(job=job))
    return str(tmp_path / "books.py")


def test_a_schedule_is_added_listed_and_removed(skitter, job):
    skitter("create", job)

    added = skitter("schedule", "add", job, "--every", "6h", "--json").json
    assert (added["job"], added["every_s"], added["rounds"]) == (job, 21_600, 0)

    assert "every 6 h  " in skitter("schedule", "list").out

    again = skitter("schedule", "add", job, "--cron", "0 3 * * *")
    assert "the next round begins at" in again.out
    assert "03:00:00 UTC" in again.out

    listed = skitter("schedule", "list", "--json").json
    [mine] = [one for one in listed if one["job"] == job]
    assert (mine["cron"], mine["every_s"]) == ("0 3 * * *", 0)
    assert "0 3 * * *" in skitter("schedule", "list").out

    assert skitter("schedule", "remove", job).out == f"{job}: its schedule is removed.\n"
    assert skitter("schedule", "remove", job, "--json").json == {"job": job, "removed": False}


def test_mistakes_are_told(skitter, job):
    skitter("create", job)
    for words in (["--every", "often"], ["--cron", "61 * * * *"], []):
        answer = skitter("schedule", "add", job, *words)
        assert answer.exit_code == 2
        assert "such as 6h" in answer.err or "cron" in answer.err
    assert skitter("schedule", "add", "missing", "--every", "1h").exit_code == 2


def test_a_spider_gets_its_job_with_its_schedule(skitter, job, books):
    added = skitter("schedule", "add", books, "--every", "6h")
    assert (added.exit_code, added.out.partition(":")[0]) == (0, job)
    assert f"skitter schedule watch {books}" in added.err
    assert skitter("set", job, "--json").json["politeness"]["delay_s"] == 7
    again = skitter("schedule", "add", books, "--every", "1h", "--json").json
    assert again["every_s"] == 3600

    wrong = skitter("schedule", "add", books, "--job", f"{job}-2")
    assert "--every 6h" in wrong.err
    assert skitter("status", f"{job}-2").exit_code == 2  # a mistake makes no job


def test_two_processes_watch_a_schedule_and_one_is_killed(skitter, job, books, server_url):
    """Each round begins once, and goes on with whoever is left."""
    skitter("schedule", "add", books, "--every", "1s")
    watch = [sys.executable, "-m", "skitter", "schedule", "watch", books]
    env = {**os.environ, "SKITTER_REDIS_URL": server_url}

    def rounds() -> int:
        [mine] = [one for one in skitter("schedule", "list", "--json").json if one["job"] == job]
        return int(mine["rounds"])

    with Child(watch, env=env) as first, Child(watch, env=env) as second:
        until(lambda: rounds() >= 2)
        first.kill()
        seen = rounds()
        until(lambda: rounds() >= seen + 2)
        second.kill()
    assert skitter("status", job, "--json").json["seen"] == 1
    assert skitter("audit", job).exit_code == 0
