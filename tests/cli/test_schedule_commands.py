"""Schedules from the command line."""

from __future__ import annotations


def test_a_schedule_is_added_listed_and_removed(skitter, job):
    skitter("create", job)

    added = skitter("schedule", "add", job, "--every", "6h", "--json").json
    assert (added["job"], added["every_s"], added["rounds"]) == (job, 21_600, 0)

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
